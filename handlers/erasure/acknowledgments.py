"""What subscribers say of an erasure, put on record once, and which of them say nothing."""

import logging
from collections.abc import Collection

from pydantic import Field

from ...domain.erasure import Erasure, decide_acknowledge
from ...domain.errors import Conflict, InvalidInput, NotFound, WrongKind
from ...domain.fields import Id, Input, parse
from ...streams.acknowledgments import consumers_of_events
from ...streams.broker import BrokerSettings
from ...streams.handling import Reject, RetryLater
from ...streams.log import Appended, NewEvent, Unit
from ...streams.payloads import Envelope
from ...streams.tasks import Task
from ..engine import Engine
from .saga import CARRIER, Saga

OWN_CONSUMERS = frozenset(
    {"consolidation", "dependencies", "extraction", "pass-manager", "pass-verdicts", "webhooks"}
)
"""Durables of this program's own roles; they keep no copies."""
_BUSY_SECONDS = 0.5
_LOG = logging.getLogger(__name__)


class Acknowledgment(Input):
    """What a subscriber says: that it erased its copies."""

    tenant: Id
    erasure: Id
    consumer: str = Field(min_length=1, max_length=256)


class Acknowledgments:
    """Takes acknowledgments from the broker to the log."""

    def __init__(self, engine: Engine, broker: BrokerSettings) -> None:
        self._engine = engine
        self._broker = broker
        self._saga = Saga(engine)

    async def handle(self, task: Task) -> None:
        """Put one on record; a second time changes nothing.

        Who may publish on the broker may say anything, so what names no consumer of events that there is, or no
        erasure that was performed, ends here and changes nothing.
        """
        try:
            said = parse(Acknowledgment, task.body)
        except InvalidInput:
            raise _refused("malformed") from None
        if said.consumer not in await subscribers(self._broker):
            raise _refused("unknown_consumer")
        await self._find(said)
        # Whoever carries the erasure on expects nobody else to write to it.
        duty = self._saga.duty(said.erasure)
        if not await duty.acquire():
            raise RetryLater(_BUSY_SECONDS)
        try:
            await self._put_on_record(said)
        finally:
            await duty.release()

    async def _find(self, said: Acknowledgment) -> Erasure:
        try:
            return (await self._saga.load(said.tenant, said.erasure))[0]
        except (NotFound, WrongKind):
            raise _refused("unknown_erasure") from None

    async def _put_on_record(self, said: Acknowledgment) -> None:
        state = await self._find(said)
        try:
            events = decide_acknowledge(state, said.consumer)
        except Conflict:
            raise _refused("nothing_erased") from None
        if not events:
            return
        outcome = await self._engine.log.append(
            Unit(
                tenant=said.tenant,
                subject=said.erasure,
                events=[NewEvent(said.erasure, state.version + n, event) for n, event in enumerate(events, 1)],
                envelope=Envelope(CARRIER, cause=said.erasure, correlation=said.erasure, policy=None),
            )
        )
        if not isinstance(outcome, Appended):
            raise RetryLater(_BUSY_SECONDS)


async def subscribers(broker: BrokerSettings) -> frozenset[str]:
    """Consumers of events that are not our own. Raises `Unavailable`."""
    return await consumers_of_events(broker) - OWN_CONSUMERS


async def late(broker: BrokerSettings, acknowledged: Collection[str]) -> list[str]:
    """Subscribers there are now that acknowledged nothing, by name. Raises `Unavailable`."""
    return sorted(await subscribers(broker) - set(acknowledged))


def _refused(why: str) -> Reject:
    _LOG.warning("an acknowledgment of an erasure was refused: %s", why)
    return Reject()
