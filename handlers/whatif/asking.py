"""Asking another judge what passes had asked: the recorded questions, at the tenant's leave and cost.

A question is asked as the pass saw it. It is skipped where one of its memories was erased, or where somebody
changed it since by a command of his own; what a reviewer's decision did to it does not count, or nothing that
was accepted could ever be compared. The opt-in and the budget are looked at before each call, and each call is
charged. Answers stand on streams of their own and never become proposals.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID, uuid5

from ...domain.effects import origin_of
from ...domain.errors import BudgetExceeded
from ...domain.events import (
    CandidateItem,
    EffectUndone,
    TenantBudgetSettled,
    VerdictRecorded,
    WhatIfVerdictRecorded,
)
from ...domain.forgetting_pass import verdict_id
from ...domain.judging import (
    DecisionRequest,
    DecisionResult,
    Item,
    Judge,
    JudgeRejected,
    JudgeUnavailable,
    NoVerdict,
    batch_requests,
    make_request,
)
from ...domain.memory import Memory, evolve
from ...domain.policy import WHATIF_OPERATION
from ...domain.whatif import Asked, Said, whatif_verdict_id
from ...streams.folding import fold_states
from ...streams.log import Appended, CommandKey, NewEvent, Repeated, Unit
from ...streams.payloads import Envelope, RecordedEvent
from ..access.caller import Caller
from ..engine import Engine
from ..forgetting.questions import call_of, judgment_of, question_of, shown_memory
from ..tenancy.tenants import budget_stream
from .recorded import RecordedPass

QUESTIONS_AT_ONCE = 50
"""How many questions of a pass are read together."""
APPEND_ATTEMPTS = 25
Report = Callable[[int, int], None]


@dataclass(slots=True)
class Answers:
    """What the judge said, and what asking took."""

    said: list[tuple[Asked, Said]] = field(default_factory=list[tuple[Asked, Said]])
    asked: int = 0
    answered: int = 0
    reused: int = 0
    unanswered: Counter[str] = field(default_factory=Counter[str])
    calls: int = 0
    costs: list[float] = field(default_factory=list[float])
    stopped: str | None = None


class OtherJudge:
    """Asks one judge for one what-if."""

    def __init__(self, engine: Engine, caller: Caller, whatif: UUID, judge: Judge, most: int) -> None:
        self._engine = engine
        self._caller = caller
        self._whatif = whatif
        self._judge = judge
        self._most = most
        self.answers = Answers()

    async def ask(self, passes: Sequence[RecordedPass], report: Report) -> Answers:
        """Its answers to all questions of these passes: those on record, and so many new ones as may be asked."""
        total, done = sum(len(one.asked) for one in passes), 0
        for one in passes:
            items = [item for item in one.state.items if item.ref in one.asked]
            for start in range(0, len(items), QUESTIONS_AT_ONCE):
                portion = items[start : start + QUESTIONS_AT_ONCE]
                await self._ask_portion(one, portion)
                done += len(portion)
                report(done, total)
        return self.answers

    async def _ask_portion(self, one: RecordedPass, items: Sequence[CandidateItem]) -> None:
        waiting = await self._not_answered(one, items)
        allowed = max(0, self._most - self.answers.asked) if self.answers.stopped is None else 0
        if len(waiting) > allowed:
            self.answers.unanswered["not_asked"] += len(waiting) - allowed
            waiting = waiting[:allowed]
        if not waiting:
            return
        assert one.state.settings is not None
        requests = batch_requests(
            one.now,
            await self._questions(one, waiting),
            items_per_call=one.state.settings.items_per_call,
            limits=self._judge.limits,
        )
        for request in requests:
            # Read again: nothing is sent that was erased or changed while the others were asked.
            again = await self._questions(one, [one.state.item(item.ref) for item in request.items])
            if again and self.answers.stopped is None:
                self.answers.stopped = await self._send(one, make_request(one.now, again))
            if self.answers.stopped is not None:
                self.answers.unanswered["not_asked"] += len(again)

    async def _not_answered(self, one: RecordedPass, items: Sequence[CandidateItem]) -> list[CandidateItem]:
        """Those this judge never answered; what it said to the others, in a pass or a what-if, is taken up."""
        by_stream: dict[UUID, CandidateItem] = {}
        for item in items:
            own = one.state.judge == self._judge.identity
            stream = (
                verdict_id(one.state.id, item.ref)
                if own
                else whatif_verdict_id(one.state.id, item.ref, self._judge.identity)
            )
            by_stream[stream] = item
        recorded = await self._engine.log.read_streams(self._caller.tenant, by_stream)
        waiting: list[CandidateItem] = []
        for stream, item in by_stream.items():
            event = recorded[stream][0].event if stream in recorded else None
            if isinstance(event, VerdictRecorded | WhatIfVerdictRecorded):
                self.answers.reused += 1
                self.answers.said.append((one.asked[item.ref], _said(event)))
            else:
                waiting.append(item)
        return waiting

    async def _questions(self, one: RecordedPass, items: Sequence[CandidateItem]) -> list[Item]:
        wanted = {memory for item in items for memory in (item.memory_id, *item.newer)}
        streams = await self._engine.log.read_streams(self._caller.tenant, wanted)
        then = {memory: _as_seen(one, recorded) for memory, recorded in streams.items()}
        projects = await self._engine.directory.names(
            self._caller.tenant, {m.project for m in then.values() if isinstance(m, Memory)}
        )
        questions: list[Item] = []
        for item in items:
            seen = [then.get(memory, "erased") for memory in (item.memory_id, *item.newer)]
            why_not = next((state for state in seen if isinstance(state, str)), None)
            memories = [state for state in seen if isinstance(state, Memory)]
            if why_not is None and any(m.state_version != item.seen.get(m.id) for m in memories):
                why_not = "changed_meanwhile"
            if why_not is not None:
                self.answers.unanswered[why_not] += 1
                continue
            questions.append(question_of(item, [shown_memory(m, projects) for m in memories]))
        return questions

    async def _send(self, one: RecordedPass, request: DecisionRequest) -> str | None:
        """Send one call; the reason why it and every later one must not be sent, or None."""
        tenant = await self._engine.tenants.get(self._caller.tenant, fresh=True)
        if not tenant.judgment:
            return "judgment_off"
        refs = ",".join(item.ref for item in request.items)
        call = uuid5(self._whatif, f"{one.state.id}:{refs}")
        envelope = Envelope(
            self._caller.actor,
            cause=self._whatif,
            correlation=self._whatif,
            policy=tenant.policy_version,
            judge=self._judge.identity,
        )
        day = (await self._engine.log.now()).date()
        if self._judge.metered:
            shown = {memory for item in request.items for memory in one.state.item(item.ref).seen}
            try:
                await self._engine.tenants.reserve_call(
                    tenant,
                    day,
                    call_id=call,
                    pass_id=self._whatif,
                    envelope=envelope,
                    shown=shown,
                    operation=WHATIF_OPERATION,
                )
            except BudgetExceeded:
                return "budget_exceeded"
        self.answers.calls += 1
        try:
            result = await self._judge.decide(request)
        except JudgeUnavailable:
            return "judge_unavailable"
        except JudgeRejected:
            return "judge_rejected"
        await self._record(one, request, call, result, envelope, budget_stream(tenant.id, day))
        return None

    async def _record(
        self,
        one: RecordedPass,
        request: DecisionRequest,
        call: UUID,
        result: DecisionResult,
        envelope: Envelope,
        budget: UUID,
    ) -> None:
        """Put the answers and the charge on record, in one unit.

        What was erased while the judge was asked is left out: nothing more is written about that.
        """
        verdicts: list[NewEvent] = []
        shown = {memory for item in request.items for memory in one.state.item(item.ref).seen}
        there = (await self._engine.vault.data_keys(self._caller.tenant, shown)).known
        for item in request.items:
            self.answers.asked += 1
            answer = result.answers.get(item.ref, NoVerdict("answer_missing"))
            if isinstance(answer, NoVerdict):
                self.answers.unanswered[answer.reason] += 1
                continue
            if not there.issuperset(one.state.item(item.ref).seen):
                self.answers.unanswered["erased"] += 1
                continue
            event = WhatIfVerdictRecorded(
                whatif=self._whatif,
                **judgment_of(one.state, item, answer, self._judge.identity, result),
                **call_of(call, request, answer, result),
            )
            stream = whatif_verdict_id(one.state.id, item.ref, self._judge.identity)
            verdicts.append(NewEvent(stream, 1, event))
            self.answers.answered += 1
            self.answers.said.append((one.asked[item.ref], _said(event)))
        if result.cost_usd is not None:
            self.answers.costs.append(result.cost_usd)
        for _ in range(APPEND_ATTEMPTS):
            charge = await self._charge(call, result, budget)
            if not verdicts and not charge:
                return
            outcome = await self._engine.log.append(
                Unit(
                    tenant=self._caller.tenant,
                    subject=self._whatif,
                    events=[*verdicts, *charge],
                    envelope=envelope,
                    command=CommandKey(uuid5(call, "verdicts").bytes, b""),
                )
            )
            if isinstance(outcome, Appended | Repeated):
                return
            # Another what-if may have asked the same just now; what it was told stays.
            taken = await self._engine.log.stream_names(self._caller.tenant, [new.stream for new in verdicts])
            verdicts = [new for new in verdicts if new.stream not in taken]

    async def _charge(self, call: UUID, result: DecisionResult, budget: UUID) -> list[NewEvent]:
        if not self._judge.metered:
            return []
        day = (await self._engine.log.read_stream(self._caller.tenant, budget))[-1]
        settled = TenantBudgetSettled(
            operation=WHATIF_OPERATION,
            call_id=call,
            pass_id=self._whatif,
            input_tokens=result.input_tokens,
            output_tokens=result.output_tokens,
            cost_usd=result.cost_usd,
        )
        return [NewEvent(budget, day.version + 1, settled)]


def _said(event: VerdictRecorded | WhatIfVerdictRecorded) -> Said:
    return Said(event.action, event.memory_id, event.related_id, event.probability)


def _as_seen(one: RecordedPass, recorded: Sequence[RecordedEvent]) -> Memory | str:
    """The memory as the pass saw it; or why it must not be shown any more, as a short code."""
    then: Memory | None = None
    version = 0
    for event, state in fold_states(recorded, evolve):
        if event.recorded_at <= one.selected_at:
            then = state
        elif state.state_version != version and not _of_a_decision(event):
            return "changed_meanwhile"
        version = state.state_version
    if then is None or then.erased:
        return "erased"
    return then


def _of_a_decision(recorded: RecordedEvent) -> bool:
    event = recorded.event
    return event is not None and (isinstance(event, EffectUndone) or origin_of(event) is not None)
