"""Judge workers: compete for the tasks of a pass and record verdicts (design.md 7.3; F29, F34, F43).

A task names the items by reference only. Everything is read anew before each send: the opt-in, the budget, the
memories. A crash anywhere leads to one charge and one verdict: the reserve, the verdict and the settlement are
keyed by the call, and an item that has its verdict is not asked again.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from uuid import UUID, uuid5

from ...domain.errors import BudgetExceeded
from ...domain.events import CandidateItem, Event, TenantBudgetSettled, VerdictRecorded, VerdictRefused
from ...domain.forgetting_pass import PassState, call_id, verdict_id
from ...domain.judging import (
    Answer,
    DecisionRequest,
    DecisionResult,
    Item,
    JudgeRejected,
    JudgeUnavailable,
    NoVerdict,
    batch_requests,
    make_request,
)
from ...domain.policy import JUDGE_OPERATION
from ...streams.handling import RetryLater
from ...streams.log import Appended, CommandKey, NewEvent, Repeated, Unit
from ...streams.payloads import Envelope
from ...streams.tasks import Task
from ..engine import Engine
from ..memories import MemoryCommands
from ..tenancy.tenants import budget_stream
from .pass_log import WORKER, PassReader, which_exist
from .questions import call_of, judgment_of, question_of, shown_memory
from .settings import PassSettings

ASK_TIMES = 2
"""How often an item without a usable answer is asked; then it is refused and stays a candidate (F34)."""
TRIES_BEFORE_GIVING_UP = 5
"""How often a task finds that the judge cannot be reached before its items are refused."""
APPEND_ATTEMPTS = 25
_LOG = logging.getLogger(__name__)

Checkpoint = Callable[[str], Awaitable[None]]
"""Called at the points where a crash would hurt most; tests stop the process there."""


async def pass_by(_point: str) -> None:
    """The checkpoint of production: nothing happens there."""


@dataclass(frozen=True, slots=True)
class _Call:
    tenant: UUID
    state: PassState
    request: DecisionRequest
    attempt: int

    @property
    def id(self) -> UUID:
        return call_id(self.state.id, tuple(item.ref for item in self.request.items), self.attempt)

    @property
    def shown(self) -> set[UUID]:
        """Every memory whose text the call holds."""
        return {memory for item in self.request.items for memory in self.state.item(item.ref).seen}


class JudgeWorker:
    """Handles tasks of the judge queue; any number of them may run in any number of processes."""

    def __init__(self, engine: Engine, settings: PassSettings, *, checkpoint: Checkpoint = pass_by) -> None:
        self._engine = engine
        self._settings = settings
        self._memories = MemoryCommands(engine)
        self._passes = PassReader(engine.log)
        self._checkpoint = checkpoint

    async def handle(self, task: Task) -> None:
        """Judge the items a task names. Raises `RetryLater` while the judge cannot be reached."""
        tenant, pass_id = UUID(task.body["tenant"]), UUID(task.body["pass"])
        refs: list[str] = task.body["refs"]
        state = await self._passes.get(tenant, pass_id)
        if not state.open:
            return
        judged = await which_exist(self._engine.log, tenant, [verdict_id(pass_id, ref) for ref in refs])
        open_items = [state.item(ref) for ref in refs if verdict_id(pass_id, ref) not in judged]
        assert state.settings is not None
        if state.settings.judge != self._settings.judge.identity:
            await self._refuse(tenant, state, open_items, "judge_changed")
            return
        items = await self._read_items(tenant, state, open_items)
        await self._ask_all(tenant, state, items, task.put_off + 1)

    async def _ask_all(self, tenant: UUID, state: PassState, items: Sequence[Item], try_number: int) -> None:
        assert state.settings is not None
        waiting = list(items)
        for attempt in range(1, ASK_TIMES + 1):
            unanswered: dict[str, str] = {}
            requests = list(
                batch_requests(
                    self._engine.clock(),
                    waiting,
                    items_per_call=state.settings.items_per_call,
                    limits=self._settings.judge.limits,
                )
            )
            for number, unread in enumerate(requests):
                request = await self._read_again(tenant, state, unread)
                if request is None:
                    continue
                refused = await self._ask(_Call(tenant, state, request, attempt), try_number, unanswered)
                if refused is not None:
                    rest = [item.ref for later in requests[number:] for item in later.items]
                    await self._refuse(tenant, state, [state.item(ref) for ref in rest], refused)
                    break
            waiting = [item for item in waiting if item.ref in unanswered]
            if not waiting:
                return
            if attempt == ASK_TIMES:
                for item in waiting:
                    await self._refuse(tenant, state, [state.item(item.ref)], unanswered[item.ref])

    async def _read_again(
        self, tenant: UUID, state: PassState, request: DecisionRequest
    ) -> DecisionRequest | None:
        """The call with the memories of this moment, less what was judged or changed since; None for nothing left.

        A task may take long; nothing is sent that was refuted, archived or revised in the meantime.
        """
        refs = [item.ref for item in request.items]
        judged = await which_exist(self._engine.log, tenant, [verdict_id(state.id, ref) for ref in refs])
        chosen = [state.item(ref) for ref in refs if verdict_id(state.id, ref) not in judged]
        items = await self._read_items(tenant, state, chosen)
        return make_request(self._engine.clock(), items) if items else None

    async def _ask(self, call: _Call, try_number: int, unanswered: dict[str, str]) -> str | None:
        """Send one call; the reason why this and every later one must not be sent, or None."""
        settings = await self._engine.tenants.get(call.tenant, fresh=True)
        if not settings.judgment:
            return "judgment_off"
        envelope = Envelope(
            WORKER,
            cause=call.id,
            correlation=call.state.id,
            policy=settings.policy_version,
            judge=self._settings.judge.identity,
        )
        day = call.state.requested_at.date()
        if self._settings.judge.metered:
            try:
                await self._engine.tenants.reserve_call(
                    settings,
                    day,
                    call_id=call.id,
                    pass_id=call.state.id,
                    envelope=envelope,
                    shown=call.shown,
                )
            except BudgetExceeded:
                return "budget_exceeded"
            await self._checkpoint("after the reserve")
        try:
            result = await self._settings.judge.decide(call.request)
        except JudgeUnavailable as error:
            if try_number < TRIES_BEFORE_GIVING_UP:
                raise RetryLater(min(60.0, 2.0**try_number)) from error
            return "judge_unavailable"
        except JudgeRejected as error:
            # The log keeps a code; what is to be put right about the settings is for who runs the worker.
            _LOG.warning("the judge refused: %s", error.message)
            return "judge_rejected"
        await self._checkpoint("after the answer")
        await self._record(call, result, envelope, unanswered)
        await self._checkpoint("after the append")
        return None

    async def _record(
        self, call: _Call, result: DecisionResult, envelope: Envelope, unanswered: dict[str, str]
    ) -> None:
        events: list[NewEvent] = []
        for item in call.request.items:
            answer = result.answers.get(item.ref, NoVerdict("answer_missing"))
            if isinstance(answer, NoVerdict):
                unanswered[item.ref] = answer.reason
            else:
                stream = verdict_id(call.state.id, item.ref)
                events.append(NewEvent(stream, 1, self._verdict(call, item, answer, result)))
        budget = budget_stream(call.tenant, call.state.requested_at.date())
        for _ in range(APPEND_ATTEMPTS):
            settled: list[NewEvent] = []
            if self._settings.judge.metered:
                present = await self._engine.tenants.budget(call.tenant, call.state.requested_at.date())
                if call.id not in present.settled:
                    settled = [NewEvent(budget, present.version + 1, _settlement(call, result))]
            if not events and not settled:
                return
            outcome = await self._engine.log.append(
                Unit(
                    tenant=call.tenant,
                    subject=call.state.id,
                    events=[*events, *settled],
                    envelope=envelope,
                    command=CommandKey(uuid5(call.id, "verdicts").bytes, b""),
                )
            )
            if isinstance(outcome, Appended | Repeated):
                return
            done = await which_exist(self._engine.log, call.tenant, [new.stream for new in events])
            events = [new for new in events if new.stream not in done]

    def _verdict(self, call: _Call, item: Item, answer: Answer, result: DecisionResult) -> VerdictRecorded:
        return VerdictRecorded(
            **judgment_of(call.state, item, answer, self._settings.judge.identity, result),
            **call_of(call.id, call.request, answer, result),
        )

    async def _refuse(self, tenant: UUID, state: PassState, items: Sequence[CandidateItem], reason: str) -> None:
        """Leave items unjudged, on the record; they stay candidates of the next pass."""
        policy = (await self._engine.tenants.get(tenant)).policy_version
        for item in items:
            stream = verdict_id(state.id, item.ref)
            event: Event = VerdictRefused(
                pass_id=state.id,
                ref=item.ref,
                memory_id=item.memory_id,
                related_id=item.newer[0] if item.ref.startswith("p") else None,
                reason=reason,
                judge=self._settings.judge.identity,
            )
            await self._engine.log.append(
                Unit(
                    tenant=tenant,
                    subject=state.id,
                    events=[NewEvent(stream, 1, event)],
                    envelope=Envelope(WORKER, cause=state.id, correlation=state.id, policy=policy),
                    command=CommandKey(uuid5(stream, "refused").bytes, b""),
                )
            )

    async def _read_items(self, tenant: UUID, state: PassState, chosen: Sequence[CandidateItem]) -> list[Item]:
        """The items with their texts of now; those about memories that changed meanwhile are refused (F29)."""
        wanted = {one for item in chosen for one in (item.memory_id, *item.newer)}
        memories = await self._memories.load_many(tenant, list(wanted))
        projects = await self._engine.directory.names(tenant, {m.project for m in memories.values()})
        items: list[Item] = []
        for item in chosen:
            shown = [memories.get(one) for one in (item.memory_id, *item.newer)]
            if any(m is None or not m.live or m.state_version != item.seen.get(m.id) for m in shown):
                await self._refuse(tenant, state, [item], "changed_meanwhile")
                continue
            seen = [shown_memory(memory, projects) for memory in shown if memory is not None]
            items.append(question_of(item, seen))
        return items


def _settlement(call: _Call, result: DecisionResult) -> TenantBudgetSettled:
    return TenantBudgetSettled(
        operation=JUDGE_OPERATION,
        call_id=call.id,
        pass_id=call.state.id,
        input_tokens=result.input_tokens,
        output_tokens=result.output_tokens,
        cost_usd=result.cost_usd,
    )
