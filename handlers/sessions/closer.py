"""The session closer: what a session leaves done is resolved, or put before a reviewer.

behaviour.md 1.14.4, 1.15; S3; A19. One of the two policies that act unreviewed (settlement 14): at 0.9 or above,
with the tenant's opt-in, each time on record with the policy and the session, and undone like every effect. The
triage of 1.15 is not wanted (settlement 1): the closer takes a session's writes as they are.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from ...domain.closing import SessionJudge
from ...domain.errors import BudgetExceeded, Conflict, LethelogError, NotFound
from ...domain.events import Event
from ...domain.judging import JudgeRejected, JudgeUnavailable
from ...domain.session import (
    LEASE,
    LOOKED_AT_WITHIN,
    Session,
    decide_closer_failed,
    decide_looked,
    may_be_looked_at,
)
from ...projections.generations import tenant_read_models
from ...projections.progress import wait_for
from ...streams.log import Appended, NewEvent, Repeated, Unit
from ...streams.payloads import Envelope, UnreadableEvent
from ...streams.sealing import UnusableKey
from ..engine import Engine
from ..forgetting.stale_proposals import withdraw_stale
from .asking import ATTEMPTS, CLOSER, Asking, Checkpoint, Look, Stopped, pass_by
from .provenance import load_session
from .questions import find_commitments

SESSIONS_AT_ONCE = 100
"""Sessions of a tenant that are read together."""
VIEW_SECONDS = 60.0
"""How long a look waits for the read models that it reads."""
VIEWS = ("sessions", "commitments", "memory_history", "live_memory", "review_queue")
_LOG = logging.getLogger(__name__)
_Ended = tuple[datetime, UUID]
"""(when it was last seen, run)."""


@dataclass(frozen=True, slots=True)
class CloserSettings:
    """What a process needs to close sessions."""

    judge: SessionJudge
    enabled: bool = False
    """Deployment flag (``LETHELOG_SESSION_CLOSER_ENABLED``); off, nothing is looked at at all."""


class Closer:
    """Looks at the sessions of all tenants. Any number of processes may; the log decides who was first."""

    def __init__(self, engine: Engine, judge: SessionJudge, *, checkpoint: Checkpoint = pass_by) -> None:
        self._engine = engine
        self._judge = judge
        self._asking = Asking(engine, judge, checkpoint)

    async def look(self, now: datetime | None = None) -> int:
        """Look at the sessions that are over, and give how many that were.

        A tenant or a session that cannot be read holds no other one up. ``now`` is the log's time where it is left
        out.
        """
        if self._judge.closes_nothing_because is not None:
            return 0
        now = now or await self._engine.log.now()
        looked = 0
        for tenant in await self._engine.vault.tenants():
            try:
                looked += await self._look_at_tenant(tenant, now)
            except JudgeUnavailable as error:
                # The next tenant's judge is the same one. What it refuses is the matter of one text.
                _LOG.warning("the session closer goes on later: %s", error.code)
                break
            except LethelogError as error:
                _LOG.warning("sessions of a tenant were left for later: %s", error.code)
        return looked

    async def _look_at_tenant(self, tenant: UUID, now: datetime) -> int:
        try:
            settings = await self._engine.tenants.get(tenant, fresh=True)
        except NotFound:
            return 0
        if not settings.judgment:
            return 0
        page = await self._ended(tenant, now, None)
        if not page:
            return 0
        looked = 0
        await self._withdraw_stale(tenant, page[0][1])
        while page:
            for _, run in page:
                try:
                    looked += await self._look_at_session(tenant, run, now)
                except Stopped:
                    return looked
                except (JudgeUnavailable, BudgetExceeded):
                    raise
                except LethelogError as error:
                    _LOG.warning("a session was left for later: %s", error.code)
            page = await self._ended(tenant, now, page[-1]) if len(page) == SESSIONS_AT_ONCE else []
        return looked

    async def _withdraw_stale(self, tenant: UUID, run: UUID) -> None:
        await self._caught_up()
        try:
            await withdraw_stale(self._engine, tenant, run, run, kind="resolution")
        except (UnreadableEvent, UnusableKey) as error:
            _LOG.warning("stale proposals were left for later: %s", error.code)

    async def _caught_up(self) -> int:
        """The end of the log, once the read models hold all of it. Raises `NotCaughtUp`."""
        head = await self._engine.log.head()
        for name in VIEWS:
            await wait_for(self._engine.doors, name, head, seconds=VIEW_SECONDS)
        return head

    async def _ended(self, tenant: UUID, now: datetime, last: _Ended | None) -> list[_Ended]:
        """The next sessions that are over and were not looked at, the longest over first."""
        seen_at, run = last or (now - LOOKED_AT_WITHIN, UUID(int=0))
        async with tenant_read_models(self._engine.doors, tenant) as connection:
            cursor = await connection.execute(
                "select last_seen_at, run_id from sessions where tenant = %(tenant)s and unlooked "
                "and (closed_at is not null or last_seen_at <= %(lease)s) "
                "and (last_seen_at, run_id) > (%(seen_at)s, %(run)s) "
                "and (next_attempt_at is null or next_attempt_at <= %(now)s) "
                f"order by last_seen_at, run_id limit {SESSIONS_AT_ONCE}",
                {"tenant": tenant, "lease": now - LEASE, "seen_at": seen_at, "run": run, "now": now},
            )
            return [(row[0], row[1]) for row in await cursor.fetchall()]

    async def _look_at_session(self, tenant: UUID, run: UUID, now: datetime) -> bool:
        """Whether it was looked at to its end. Raises what the judge raises once that is on record."""
        session = await load_session(self._engine.log, tenant, run)
        if not may_be_looked_at(session, now):
            return False
        # After the session: whatever was written before it ended is in there.
        upto = await self._caught_up()
        look = Look(tenant, run, session.epoch, now)
        try:
            answered = [
                await self._asking.ask(look, found)
                for found in await find_commitments(self._engine, tenant, session, upto)
            ]
        except (JudgeUnavailable, JudgeRejected, BudgetExceeded) as error:
            code = error.code
            await self._move(look, lambda state: decide_closer_failed(state, look.epoch, code, now))
            raise
        await self._move(
            look,
            lambda state: decide_looked(
                state,
                look.epoch,
                upto=upto,
                asked=sum(one is not None for one in answered),
                unanswered=sum(one is False for one in answered),
            ),
        )
        return True

    async def _move(self, look: Look, decide: Callable[[Session], Sequence[Event]]) -> None:
        """Append what became of a look; somebody else may have been quicker."""
        for _ in range(ATTEMPTS):
            session = await load_session(self._engine.log, look.tenant, look.run)
            events = decide(session)
            if not events:
                return
            outcome = await self._engine.log.append(
                Unit(
                    tenant=look.tenant,
                    subject=look.run,
                    events=[NewEvent(session.id, session.version + n, event) for n, event in enumerate(events, 1)],
                    envelope=Envelope(CLOSER, cause=look.run, correlation=look.run),
                )
            )
            if isinstance(outcome, Appended | Repeated):
                return
        raise Conflict("a session keeps changing while it is looked at")
