"""Asking a judge about one commitment after a session, and putting what follows on record.

An answer, what follows from it and the charge are one unit on the session's stream, which is refused once the
session was taken up again, the commitment moved, or something was erased. So a crash anywhere leads to one charge
and one effect, and whoever is second finds it done.
"""

import hashlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid5

from ...domain.closing import (
    DONE,
    POLICY,
    ResolutionRequest,
    SessionJudge,
    band_of,
    make_resolution_request,
)
from ...domain.commitment import Commitment, decide_transition
from ...domain.errors import Conflict
from ...domain.events import Event, ResolutionStaged, SessionCloserJudged, TenantBudgetSettled
from ...domain.judging import Answer, DecisionResult, NoVerdict
from ...domain.policy import CLOSER_OPERATION
from ...domain.session import Session
from ...domain.session_events import Followed
from ...streams.log import Appended, Claim, CommandKey, NewEvent, Repeated, Unit
from ...streams.payloads import Actor, Envelope, UnreadableEvent
from ...streams.sealing import UnusableKey
from ..commitments.riding import CLAIM, numbered
from ..engine import Engine
from ..forgetting.open_proposals import KIND as OPEN_PROPOSAL
from ..forgetting.open_proposals import take_slot
from ..reviewing.staging import proposal_of
from ..tenancy.tenants import budget_stream
from .provenance import load_session
from .questions import Asked, Found, read_asked, unchanged

CLOSER = Actor("worker", UUID("8f0b0d5e-6c1d-5b0e-8c77-3b8f5e0c9a41"))
"""The actor of what the closer does."""
ASK_TIMES = 2
"""How often a commitment without a usable answer is asked about; then it stays as it is (F34)."""
ATTEMPTS = 25
_LOG = logging.getLogger(__name__)

Checkpoint = Callable[[str], Awaitable[None]]
"""Called at the points where a crash would hurt most; tests stop the process there."""


async def pass_by(_point: str) -> None:
    """The checkpoint of production: nothing happens there."""


class Stopped(Exception):
    """Nothing more may be sent for this tenant now; that is no failure."""


@dataclass(frozen=True, slots=True)
class Look:
    """A session that is looked at, as it was when that began."""

    tenant: UUID
    run: UUID
    epoch: int
    now: datetime


@dataclass(frozen=True, slots=True)
class _Call:
    look: Look
    asked: Asked
    request: ResolutionRequest
    envelope: Envelope

    @property
    def id(self) -> UUID:
        return self.envelope.cause

    @property
    def shown(self) -> dict[UUID, int]:
        return self.request.items[0].shown


class Asking:
    """Asks one judge."""

    def __init__(self, engine: Engine, judge: SessionJudge, checkpoint: Checkpoint) -> None:
        self._engine = engine
        self._judge = judge
        self._checkpoint = checkpoint

    async def ask(self, look: Look, found: Found) -> bool | None:
        """Whether there was a usable answer; None where there was nothing left to ask.

        Raises `Stopped`, `BudgetExceeded`, and what the judge raises.
        """
        for attempt in range(1, ASK_TIMES + 1):
            settings = await self._engine.tenants.get(look.tenant, fresh=True)
            if not settings.judgment:
                raise Stopped
            try:
                asked = await read_asked(self._engine, look.tenant, found)
            except (UnreadableEvent, UnusableKey) as error:
                _LOG.warning("a commitment was left out of a look: %s", error.code)
                return None
            if asked is None:
                return None
            request = make_resolution_request(look.now, asked.item, self._judge.limits.max_state_chars)
            # Of other texts it is another call, which says on record whom they were shown to.
            shown = ",".join(str(one) for one in sorted(request.items[0].shown))
            # And on another day, whose budget it is taken out of.
            day = look.now.date()
            call_id = uuid5(look.run, f"closer:{look.epoch}:{day}:{found.commitment}:{attempt}:{shown}")
            envelope = Envelope(
                CLOSER,
                cause=call_id,
                correlation=call_id,
                policy=settings.policy_version,
                judge=self._judge.identity,
            )
            call = _Call(look, asked, request, envelope)
            if self._judge.metered:
                await self._engine.tenants.reserve_call(
                    settings,
                    day,
                    call_id=call_id,
                    pass_id=look.run,
                    envelope=envelope,
                    shown=list(call.shown),
                    operation=CLOSER_OPERATION,
                )
                await self._checkpoint("after the reserve")
            result = await self._judge.decide_resolution(request)
            await self._checkpoint("after the answer")
            answer = result.answers.get(request.items[0].ref, NoVerdict("answer_missing"))
            await self._record(call, answer, result)
            await self._checkpoint("after the append")
            if isinstance(answer, Answer):
                return True
        return False

    async def _record(self, call: _Call, answer: Answer | NoVerdict, result: DecisionResult) -> None:
        """Put the answer, what follows from it and the charge on record; the charge alone where the answer has
        nothing to go by any more."""
        log, tenant = self._engine.log, call.look.tenant
        for _ in range(ATTEMPTS):
            # Before anything is read: what is erased from now on must not be written about.
            fence = await log.fence(tenant)
            events, claims = await self._follow(call, answer, result) if isinstance(answer, Answer) else ([], [])
            # A charge alone keeps nobody from recording the answer of the same call, asked again after a failure.
            what = "answer" if events else "charge"
            events += await self._charge(call, result)
            if not events:
                return
            outcome = await log.append(
                Unit(
                    tenant=tenant,
                    subject=call.look.run,
                    events=events,
                    envelope=call.envelope,
                    claims=claims,
                    command=CommandKey(uuid5(call.id, what).bytes, b""),
                    fence=fence,
                )
            )
            if isinstance(outcome, Appended | Repeated):
                return
        raise Conflict("a session keeps changing while it is looked at")

    async def _follow(
        self, call: _Call, answer: Answer, result: DecisionResult
    ) -> tuple[list[NewEvent], list[Claim]]:
        """What an answer leads to, decided against what is on record now."""
        look = call.look
        if not (await self._engine.tenants.get(look.tenant, fresh=True)).judgment:
            return [], []
        session = await load_session(self._engine.log, look.tenant, look.run)
        if session.epoch != look.epoch or call.asked.commitment.id in session.settled:
            return [], []
        commitment = await unchanged(self._engine, look.tenant, call.asked, call.shown)
        if commitment is None:
            return [], []
        probability = answer.probabilities[DONE]
        band = band_of(probability)
        if band == "resolve":
            moved = decide_transition(
                commitment,
                "resolved",
                "closer",
                policy=POLICY,
                session=look.run,
                probability=probability,
                model=result.model,
            )
            claims = [Claim(CLAIM, commitment.memory_id.bytes, commitment.id, commitment.id)]
            judged = self._judged(call, commitment, answer, result, "resolved", None)
            return [_next(session, judged), *numbered(commitment, moved)], claims
        if band == "propose":
            return await self._propose(call, session, commitment, answer, result)
        judged = self._judged(call, commitment, answer, result, "nothing", None)
        return [_next(session, judged)], []

    async def _propose(
        self, call: _Call, session: Session, commitment: Commitment, answer: Answer, result: DecisionResult
    ) -> tuple[list[NewEvent], list[Claim]]:
        memory_id = commitment.memory_id
        said = ResolutionStaged(
            memory_id=memory_id,
            seen={memory_id: call.shown[memory_id], commitment.id: commitment.version},
            source=session.id,
            commitment=commitment.id,
            session=session.id,
            judged_at=answer.probabilities[DONE],
            judge=self._judge.identity,
            model=result.model,
            written=tuple(one.memory_id for one in call.request.items[0].written),
        )
        proposal, slot = proposal_of(session.id, said), said.slot()
        assert slot is not None
        [holder] = await self._engine.log.holders(call.look.tenant, [(OPEN_PROPOSAL, memory_id.bytes + slot)])
        if holder is not None or await self._engine.log.newest_name(call.look.tenant, proposal) is not None:
            judged = self._judged(call, commitment, answer, result, "proposed_before", holder)
            return [_next(session, judged)], []
        judged = self._judged(call, commitment, answer, result, "proposed", proposal)
        # Demanded too: the proposal names the commitment that rides on the memory now.
        rides = Claim(CLAIM, memory_id.bytes, commitment.id, commitment.id)
        events = [_next(session, judged), NewEvent(proposal, 1, said)]
        return events, [take_slot(memory_id.bytes + slot, proposal), rides]

    def _judged(
        self,
        call: _Call,
        commitment: Commitment,
        answer: Answer,
        result: DecisionResult,
        followed: Followed,
        proposal: UUID | None,
    ) -> SessionCloserJudged:
        evidence = answer.evidence
        return SessionCloserJudged(
            epoch=call.look.epoch,
            commitment=commitment.id,
            memory_id=commitment.memory_id,
            probability=answer.probabilities[DONE],
            probabilities=dict(answer.probabilities),
            followed=followed,
            policy=POLICY,
            proposal_id=proposal,
            judge=self._judge.identity,
            model=result.model,
            seen=call.shown,
            evidence_memory=evidence.memory_id if evidence else None,
            quote=evidence.quote if evidence else None,
            call_id=call.id,
            input_tokens=result.input_tokens,
            output_tokens=result.output_tokens,
            cost_usd=result.cost_usd,
            request_id=result.request_id,
            reply_digest=result.raw_digest,
            state_digest=hashlib.sha256(call.request.state.encode()).hexdigest(),
            raw_probabilities=dict(answer.raw_probabilities) if answer.raw_probabilities else None,
        )

    async def _charge(self, call: _Call, result: DecisionResult) -> list[NewEvent]:
        if not self._judge.metered:
            return []
        day = call.look.now.date()
        present = await self._engine.tenants.budget(call.look.tenant, day)
        if call.id in present.settled:
            return []
        settled = TenantBudgetSettled(
            operation=CLOSER_OPERATION,
            call_id=call.id,
            pass_id=call.look.run,
            input_tokens=result.input_tokens,
            output_tokens=result.output_tokens,
            cost_usd=result.cost_usd,
        )
        return [NewEvent(budget_stream(call.look.tenant, day), present.version + 1, settled)]


def _next(session: Session, event: Event) -> NewEvent:
    return NewEvent(session.id, session.version + 1, event)
