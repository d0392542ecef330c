"""Asking for a pass: by hand, or by the daily schedule (settlement 7; A33)."""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from ...domain.errors import Conflict, KeyReused, Misconfigured
from ...domain.events import PassRequested, VerdictRefused
from ...domain.fields import CommandKey as KeyText
from ...domain.fields import Id, Input, parse
from ...domain.forgetting_pass import PassState, scheduled_pass_id, verdict_id
from ...streams.ids import new_id
from ...streams.log import Appended, Claim, ClaimHeld, CommandKey, NewEvent, Repeated, Unit
from ...streams.payloads import Envelope
from ..access.caller import Caller
from ..command_keys import command_key
from ..engine import Engine
from ..operating.views import PassView
from .pass_log import OPEN_DIGEST, OPEN_KIND, WORKER, load_pass
from .settings import PassSettings, proposes_nothing_because

SCHEDULE = time(4, 30)
"""UTC time of day of the scheduled pass (behaviour.md 1.16)."""


class RequestPass(Input):
    """Ask for a pass now."""

    key: KeyText | None = None


class PassQuery(Input):
    pass_id: Id


class ListPasses(Input):
    limit: int = Field(default=25, ge=1, le=100)


class Passes:
    """Requests and shows passes."""

    def __init__(self, engine: Engine, settings: PassSettings) -> None:
        self._engine = engine
        self._settings = settings

    async def request(self, caller: Caller, arguments: Mapping[str, Any] | None = None) -> PassView:
        """Open a pass with an id of its own; it runs as soon as workers and the broker take it up.

        Raises `Misconfigured` when no judge can propose anything, and `Conflict` when judging is off for the
        tenant or a pass is open already.
        """
        caller.require("memory:write")
        command = parse(RequestPass, arguments or {})
        why_not = proposes_nothing_because(self._settings)
        if why_not is not None:
            raise Misconfigured(f"a pass would propose nothing: {why_not}")
        tenant = await self._engine.tenants.get(caller.tenant, fresh=True)
        if not tenant.judgment:
            raise Conflict(
                "judging is off for this tenant, so nothing is selected or sent; "
                "turn it on with: lethelog settings judgment on"
            )
        pass_id = new_id()
        now = self._engine.clock()
        key = await command_key(self._engine.vault, caller.tenant, command, command.key)
        outcome = await self._engine.log.append(
            Unit(
                tenant=caller.tenant,
                subject=pass_id,
                events=[NewEvent(pass_id, 1, self._requested("hand", now))],
                envelope=Envelope(caller.actor, cause=pass_id, correlation=pass_id, policy=tenant.policy_version),
                claims=[Claim(OPEN_KIND, OPEN_DIGEST, None, pass_id)],
                command=key,
            )
        )
        if isinstance(outcome, ClaimHeld):
            raise Conflict(
                f"pass {outcome.holder} is still open; wait for it, or see: lethelog pass show {outcome.holder}",
                pass_id=outcome.holder,
            )
        if not isinstance(outcome, Appended | Repeated):
            raise KeyReused("this command key was used for another command; use a new key for a new command")
        requested = outcome.subject if isinstance(outcome, Repeated) else pass_id
        return view_of(await load_pass(self._engine.log, caller.tenant, requested))

    async def show(self, caller: Caller, arguments: Mapping[str, Any]) -> PassView:
        """One pass as it stands. Raises `NotFound` or `WrongKind`."""
        caller.require("memory:read")
        query = parse(PassQuery, arguments)
        state = await load_pass(self._engine.log, caller.tenant, query.pass_id)
        found = view_of(state)
        if not found.refused:
            return found
        return found.model_copy(update={"refused_because": await self._refusals(caller.tenant, state)})

    async def _refusals(self, tenant: UUID, state: PassState) -> dict[str, int]:
        verdicts = [verdict_id(state.id, item.ref) for item in state.items]
        names = await self._engine.log.stream_names(tenant, verdicts)
        refused = [stream for stream, name in names.items() if name == VerdictRefused.NAME]
        events = [
            recorded[0].event for recorded in (await self._engine.log.read_streams(tenant, refused)).values()
        ]
        return dict(Counter(event.reason for event in events if isinstance(event, VerdictRefused)))

    async def ended(self, caller: Caller, arguments: Mapping[str, Any]) -> bool:
        """Whether a pass is over; cheap enough to ask again and again."""
        caller.require("memory:read")
        query = parse(PassQuery, arguments)
        return await self._engine.log.newest_name(caller.tenant, query.pass_id) in (
            "pass.completed",
            "pass.failed",
        )

    async def request_scheduled(self, tenant: UUID, now: datetime) -> UUID | None:
        """The day's scheduled pass, requested at most once; None when it is not due, off, or there already.

        With the deployment flag off nothing is read at all (A33).
        """
        if not self._settings.enabled or now < due_at(now.date()):
            return None
        if proposes_nothing_because(self._settings) is not None:
            return None
        state = await self._engine.tenants.get(tenant, fresh=True)
        if not state.judgment:
            return None
        pass_id = scheduled_pass_id(tenant, now.date())
        outcome = await self._engine.log.append(
            Unit(
                tenant=tenant,
                subject=pass_id,
                events=[NewEvent(pass_id, 1, self._requested("schedule", now))],
                envelope=Envelope(WORKER, cause=pass_id, correlation=pass_id, policy=state.policy_version),
                claims=[Claim(OPEN_KIND, OPEN_DIGEST, None, pass_id)],
                command=CommandKey(pass_id.bytes, b"pass"),
            )
        )
        return pass_id if isinstance(outcome, Appended) else None

    def _requested(self, trigger: Literal["schedule", "hand"], now: datetime) -> PassRequested:
        return PassRequested(trigger=trigger, day=now.date().isoformat(), judge=self._settings.judge.identity)


def due_at(day: date) -> datetime:
    """When the scheduled pass of a UTC day is due."""
    return datetime.combine(day, SCHEDULE, tzinfo=UTC)


def view_of(state: PassState) -> PassView:
    """A pass as an answer."""
    done = state.completed
    settings = state.settings
    return PassView(
        id=state.id,
        phase=state.phase,
        trigger=state.trigger,
        requested_at=state.requested_at,
        judge=state.judge,
        items=len(state.items),
        stale_singles=state.counts.get("stale_singles", 0),
        pairs=state.counts.get("pairs", 0),
        judged=done.judged if done else 0,
        refused=done.refused if done else 0,
        proposed=done.proposed if done else {},
        dismissed=done.dismissed if done else {},
        failed_because=state.failed_because,
        floor=settings.floor if settings else None,
        embedding_model=settings.embedding_model if settings else None,
    )
