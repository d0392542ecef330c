"""Reading and moving one pass in the log."""

import time
from collections.abc import Sequence
from uuid import UUID, uuid5

from ...domain.errors import NotFound
from ...domain.events import Event
from ...domain.forgetting_pass import PassState, evolve_pass
from ...streams.folding import fold_stream
from ...streams.log import Appended, Claim, CommandKey, Log, NewEvent, Repeated, Unit
from ...streams.payloads import Actor, Envelope
from ..kinds import refuse_other_kind

_SECONDS = 3.0
_KEPT = 16
OPEN_KIND = "open-pass"
OPEN_DIGEST = b"pass"
WORKER = Actor("worker", UUID("8c6e31c4-58c9-5f0e-9d55-2f8a0c1f7d11"))
"""The actor of everything a pass does by itself."""


async def load_pass(log: Log, tenant: UUID, pass_id: UUID) -> PassState:
    """The pass's state. Raises `NotFound` or `WrongKind`."""
    recorded = await log.read_stream(tenant, pass_id)
    refuse_other_kind(pass_id, recorded, "pass")
    state = fold_stream(recorded, evolve_pass)
    if state is None:
        raise NotFound(f"no pass {pass_id}", pass_id=pass_id)
    return state


class PassReader:
    """Passes for those who look at one again and again while its verdicts come in.

    A dispatched pass holds thousands of items and changes no more but for its end, which every append checks by
    its own key; so its state may be some seconds old.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: dict[tuple[UUID, UUID], tuple[float, PassState]] = {}

    async def get(self, tenant: UUID, pass_id: UUID) -> PassState:
        """The pass's state, at most `_SECONDS` old once its candidates are selected."""
        known = self._known.get((tenant, pass_id))
        if known is not None and time.monotonic() - known[0] < _SECONDS:
            return known[1]
        state = await load_pass(self._log, tenant, pass_id)
        if len(self._known) >= _KEPT:
            self._known.clear()
        if state.phase in ("selected", "dispatched"):
            self._known[(tenant, pass_id)] = (time.monotonic(), state)
        return state


async def move_pass(
    log: Log,
    tenant: UUID,
    state: PassState,
    event: Event,
    *,
    policy: int | None,
    cause: UUID,
    releases: bool = False,
    step: str = "",
) -> bool:
    """Append one step of the pass, once however often it is tried; False when another process was quicker."""
    key = uuid5(state.id, f"step:{event.NAME}:{step}")
    claims = [Claim(OPEN_KIND, OPEN_DIGEST, state.id, None)] if releases else []
    outcome = await log.append(
        Unit(
            tenant=tenant,
            subject=state.id,
            events=[NewEvent(state.id, state.version + 1, event)],
            envelope=Envelope(WORKER, cause=cause, correlation=state.id, policy=policy),
            claims=claims,
            command=CommandKey(key.bytes, b""),
        )
    )
    return isinstance(outcome, Appended | Repeated)


async def which_exist(log: Log, tenant: UUID, streams: Sequence[UUID]) -> set[UUID]:
    """Those of these streams that have begun."""
    return set(await log.stream_names(tenant, streams)) if streams else set()
