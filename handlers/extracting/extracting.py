"""Putting a memory's text before an extractor, and staging what it read (behaviour.md 1.14.3; F29, F34, F43).

Everything is read anew right before the text is sent: the opt-in, the budget, the memory. Whatever is repeated,
and wherever it breaks off, a claim is staged once: its proposal's id follows from the reading and from what is
claimed, and while it is open no other reading stages it again. What was said already is not asked about a second
time.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import count
from uuid import UUID, uuid5

from ...domain import events as e
from ...domain.errors import (
    BudgetExceeded,
    Conflict,
    Erased,
    ExtractorMalformed,
    ExtractorUnavailable,
    JudgingOff,
    KeyReused,
    NotCaughtUp,
    TextTooLong,
)
from ...domain.extraction import (
    EXTRACTION_OPERATION,
    MOST_CHARS,
    Extraction,
    ExtractionRequest,
    FactExtractor,
    ReadFact,
    make_extraction,
)
from ...domain.extraction_events import ExtractionOutcome
from ...domain.fields import normalised
from ...domain.memory import Memory
from ...domain.tenant import Tenant
from ...projections.facts import said_of
from ...projections.generations import tenant_read_models
from ...projections.progress import wait_for
from ...streams.handling import RetryLater
from ...streams.log import Appended, CommandKey, KeyTaken, NewEvent, Repeated, Unit
from ...streams.payloads import Actor, Envelope, RecordedEvent, UnreadableEvent
from ..engine import Engine
from ..forgetting.pass_log import WORKER
from ..memories import MemoryCommands
from ..reviewing.facts import claim_of
from ..reviewing.staging import stage
from ..tenancy.tenants import budget_stream

ATTEMPTS = 25
PAUSE_SECONDS = 60.0
"""How long the text of a memory waits while the extractor cannot be reached, unless that asks for more."""
LONGEST_PAUSE_SECONDS = 600.0

Checkpoint = Callable[[str], Awaitable[None]]
"""Called at the points where a crash would hurt most; tests stop the process there."""


async def pass_by(_point: str) -> None:
    """The checkpoint of production: nothing happens there."""


@dataclass(frozen=True, slots=True)
class Task:
    """One reading of a memory's text: ``id`` is its stream, and the source of what it proposes."""

    tenant: UUID
    memory_id: UUID
    id: UUID
    actor: Actor
    cause: UUID
    command: CommandKey


@dataclass(frozen=True, slots=True)
class _Call:
    """What was reserved for a reading."""

    id: UUID
    day: date
    envelope: Envelope
    request: ExtractionRequest
    seen: int


@dataclass(frozen=True, slots=True)
class _Staged:
    proposals: tuple[UUID, ...] = ()
    already_there: int = 0
    ended: bool = False
    """Whether the memory ended before anything was staged."""


class Extracting:
    """Reads texts. Any number of processes may read the same one; what it says is proposed once."""

    def __init__(
        self,
        engine: Engine,
        extractor: FactExtractor,
        *,
        checkpoint: Checkpoint = pass_by,
        pause: float = PAUSE_SECONDS,
    ) -> None:
        self._engine = engine
        self._extractor = extractor
        self._memories = MemoryCommands(engine)
        self._checkpoint = checkpoint
        self._pause = pause

    async def on_remembered(self, recorded: RecordedEvent) -> None:
        """Read a new memory, where its tenant allows it.

        Raises `RetryLater` while the extractor cannot be reached, and `ExtractorRejected` or `ExtractorMalformed`,
        with which it comes again and is set aside in the end.
        """
        task = Task(
            tenant=recorded.tenant,
            memory_id=recorded.stream,
            id=uuid5(recorded.event_id, self._extractor.identity),
            actor=WORKER,
            cause=recorded.event_id,
            command=CommandKey(uuid5(recorded.event_id, f"read {self._extractor.identity}").bytes, b""),
        )
        tenant = await self._engine.tenants.get(task.tenant, fresh=True)
        if not tenant.judgment or await self._engine.log.newest_name(task.tenant, task.id) is not None:
            return
        memory = (await self._memories.load_many(task.tenant, [task.memory_id])).get(task.memory_id)
        if memory is None or not memory.live or memory.expired(self._engine.clock()):
            return
        try:
            await self.read(task, memory)
        except (JudgingOff, Erased):
            return
        except NotCaughtUp:
            raise RetryLater(5.0) from None
        except BudgetExceeded:
            await self._record(task, _unread(memory, self._extractor.identity, "budget_exceeded"))
        except TextTooLong:
            await self._record(task, _unread(memory, self._extractor.identity, "too_long"))
        except ExtractorUnavailable as error:
            asked = error.details.get("retry_after")
            wait = max(self._pause, asked if isinstance(asked, float) else 0.0)
            raise RetryLater(min(wait, LONGEST_PAUSE_SECONDS)) from error

    async def read(self, task: Task, memory: Memory) -> UUID:
        """Send the text of a live memory, stage what was read, and put it on record. Gives the id of the record.

        Raises `JudgingOff`, `TextTooLong`, `BudgetExceeded`, `Erased`, `NotCaughtUp` for the read model of facts,
        and what an extractor raises; nothing is staged then.
        """
        await wait_for(self._engine.database, "facts", await self._engine.log.head())
        call = await self._reserve(task, memory)
        await self._checkpoint("after the reserve")
        extraction = await self._extractor.extract(call.request)
        await self._checkpoint("after the answer")
        if extraction.outcome == "malformed":
            await self._append(task, call, extraction, None)
            raise ExtractorMalformed(
                f"the extractor {self._extractor.identity} gave no answer of the form asked for; no fact is taken",
                extractor=self._extractor.identity,
            )
        staged = await self._stage(task, call, extraction)
        await self._checkpoint("after the proposals")
        return await self._append(
            task, call, extraction, _record_of(call, memory.id, extraction, staged, self._extractor.identity)
        )

    async def _reserve(self, task: Task, memory: Memory) -> _Call:
        """Take a slot of the day's budget, with the opt-in and the memory of this moment."""
        if len(memory.content or "") > MOST_CHARS:
            raise TextTooLong(
                f"the memory holds {len(memory.content or '')} characters; at most {MOST_CHARS} are put before an "
                "extractor, since nothing is read in part",
                memory_id=memory.id,
            )
        day = (await self._engine.log.now()).date()
        settled = (await self._engine.tenants.budget(task.tenant, day)).settled
        # One that was answered badly was billed, so the next is a call of its own; one that broke off goes on,
        # on the day whose budget it is taken out of.
        call = next(one for n in count(1) if (one := uuid5(task.id, f"call {day} {n}")) not in settled)
        tenant = await self._engine.tenants.get(task.tenant, fresh=True)
        if not tenant.judgment:
            raise JudgingOff(
                "judging is off for this tenant, so no text is sent; to allow it: lethelog settings judgment on"
            )
        request = make_extraction(memory)
        envelope = self._envelope(task, tenant)
        await self._engine.tenants.reserve_call(
            tenant,
            day,
            call_id=call,
            pass_id=task.id,
            envelope=envelope,
            shown={memory.id},
            operation=EXTRACTION_OPERATION,
        )
        return _Call(call, day, envelope, request, memory.state_version)

    def _envelope(self, task: Task, tenant: Tenant) -> Envelope:
        return Envelope(
            task.actor,
            cause=task.cause,
            correlation=task.id,
            policy=tenant.policy_version,
            judge=self._extractor.identity,
        )

    async def _stage(self, task: Task, call: _Call, extraction: Extraction) -> _Staged:
        """Stage the facts, with the memory of this moment: nothing about one that ended or was erased
        meanwhile."""
        for _ in range(ATTEMPTS):
            fence = await self._engine.log.fence(task.tenant)
            memory = (await self._memories.load_many(task.tenant, [task.memory_id])).get(task.memory_id)
            if memory is None or not memory.live:
                return _Staged(ended=True)
            proposals: list[UUID] = []
            try:
                for fact in await self._not_on_record(task, extraction.taken.facts):
                    said = await self._said(task, memory, fact)
                    made = await stage(self._engine.log, task.tenant, said, call.envelope, fence=fence)
                    there = made.staged or await self._engine.log.newest_name(task.tenant, made.proposal)
                    proposals += [made.proposal] if there else []
            except UnreadableEvent:
                # It was erased since it was looked at, so nothing can be sealed for it.
                continue
            # Where something else was erased meanwhile, each that came after it was refused: look again.
            if await self._engine.log.fence(task.tenant) == fence:
                return _Staged(tuple(proposals), len(extraction.taken.facts) - len(proposals))
        raise Conflict("the memory keeps changing while it is read; try again", memory_id=task.memory_id)

    async def _not_on_record(self, task: Task, facts: Sequence[ReadFact]) -> list[ReadFact]:
        """Those that the memory does not say already, by a fact given with it or accepted before."""
        async with tenant_read_models(self._engine.doors, task.tenant) as connection:
            known = await said_of(connection, task.tenant, task.memory_id)
        said = {(normalised(subject), normalised(predicate), value) for subject, predicate, value in known}
        return [
            one for one in facts if (normalised(one.subject), normalised(one.predicate), one.value) not in said
        ]

    async def _said(self, task: Task, memory: Memory, fact: ReadFact) -> e.FactStaged:
        return e.FactStaged(
            memory_id=memory.id,
            seen={memory.id: memory.state_version},
            source=task.id,
            rationale=fact.quote,
            subject=fact.subject,
            predicate=fact.predicate,
            value=fact.value,
            claim=await claim_of(self._engine.vault, task.tenant, fact.subject, fact.predicate, fact.value),
            confidence=fact.confidence,
            # A window that the memory was given goes for what it says; any other would be a guess.
            valid_from=memory.valid_from,
            valid_to=memory.valid_to if memory.valid_from is not None else None,
            extractor=self._extractor.identity,
        )

    async def _record(self, task: Task, said: e.ExtractionRecorded) -> None:
        """Put on record that a text was not sent."""
        tenant = await self._engine.tenants.get(task.tenant)
        await self._engine.log.append(
            Unit(
                tenant=task.tenant,
                subject=task.id,
                events=[NewEvent(task.id, 1, said)],
                envelope=self._envelope(task, tenant),
                command=task.command,
            )
        )

    async def _append(
        self, task: Task, call: _Call, extraction: Extraction, said: e.ExtractionRecorded | None
    ) -> UUID:
        """Settle the call, and put what was read on record in the same unit. Gives the id of the record."""
        events = [] if said is None else [NewEvent(task.id, 1, said)]
        command = task.command if said is not None else CommandKey(uuid5(call.id, "settled").bytes, b"")
        stream = budget_stream(task.tenant, call.day)
        for _ in range(ATTEMPTS):
            budget = await self._engine.tenants.budget(task.tenant, call.day)
            settled: list[NewEvent] = []
            if call.id not in budget.settled:
                settled = [NewEvent(stream, budget.version + 1, _settlement(task, call, extraction))]
            if not events and not settled:
                return task.id
            outcome = await self._engine.log.append(
                Unit(
                    tenant=task.tenant,
                    subject=task.id,
                    events=[*events, *settled],
                    envelope=call.envelope,
                    command=command,
                )
            )
            match outcome:
                case Appended():
                    return task.id
                case Repeated():
                    return outcome.subject
                case KeyTaken():
                    raise KeyReused(
                        "this command key was used for another command; use a new key for a new command"
                    )
                case _:
                    # Another call was settled at the same moment, or another process read the same text.
                    if events and await self._engine.log.newest_name(task.tenant, task.id) is not None:
                        events = []
        raise Conflict("the budget keeps changing; try again")


def _unread(memory: Memory, extractor: str, outcome: ExtractionOutcome) -> e.ExtractionRecorded:
    return e.ExtractionRecorded(
        memory_id=memory.id, seen=memory.state_version, extractor=extractor, outcome=outcome
    )


def _record_of(
    call: _Call, memory_id: UUID, extraction: Extraction, staged: _Staged, extractor: str
) -> e.ExtractionRecorded:
    outcome: ExtractionOutcome = "refused" if extraction.outcome == "refused" else "read"
    return e.ExtractionRecorded(
        memory_id=memory_id,
        seen=call.seen,
        extractor=extractor,
        outcome="ended_meanwhile" if staged.ended else outcome,
        model=extraction.model,
        proposals=staged.proposals,
        already_there=staged.already_there,
        dropped=dict(extraction.taken.dropped),
        call_id=call.id,
        request_id=extraction.request_id,
    )


def _settlement(task: Task, call: _Call, extraction: Extraction) -> e.TenantBudgetSettled:
    return e.TenantBudgetSettled(
        operation=EXTRACTION_OPERATION,
        call_id=call.id,
        pass_id=task.id,
        input_tokens=extraction.input_tokens,
        output_tokens=extraction.output_tokens,
        cost_usd=extraction.cost_usd,
    )
