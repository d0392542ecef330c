"""Commands about memories: from arguments to one unit of the log.

Every command reads the streams it needs, decides purely, and appends with expected versions and claims. When
somebody was quicker it decides again from what is there now; what the rules then refuse is the answer.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast
from uuid import UUID, uuid5

from ..domain import commands as c
from ..domain import memory_rules as rules
from ..domain.apart import RESERVED, standing_apart
from ..domain.errors import (
    Conflict,
    Erased,
    InvalidInput,
    KeyReused,
    NotCaughtUp,
    NotFound,
    QuotaExceeded,
)
from ..domain.events import Event, MemoryRemembered
from ..domain.fact import decide_facts
from ..domain.fields import parse
from ..domain.memory import Memory, Owners, evolve
from ..domain.memory_rules import Resolved
from ..domain.tenant import Tenant
from ..streams.folding import fold_stream
from ..streams.ids import new_id
from ..streams.log import (
    Appended,
    Claim,
    ClaimHeld,
    CommandKey,
    ErasedMeanwhile,
    KeyTaken,
    NewEvent,
    OverQuota,
    Repeated,
    Unit,
    VersionMoved,
)
from ..streams.payloads import Envelope
from .access.caller import Caller
from .claims import TextClaims
from .command_keys import command_key
from .commitments.riding import Commitments
from .contradictions.flagging import flag_refused
from .engine import Engine
from .kinds import refuse_other_kind
from .operating.views import Written
from .present import present_memory
from .sessions.provenance import note_written, written_in
from .tenancy.quotas import NOBODY_EVICTED, Evicted, Quotas, limits_of, refuse_unless_room_helps
from .withholding import without_text

ATTEMPTS = 25
"""How often a command is decided anew after losing a race; more means something else is wrong."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Idempotence and chain of one command. ``key`` is the client's own id for it."""

    key: str | None = None
    cause: UUID | None = None
    correlation: UUID | None = None


@dataclass(frozen=True, slots=True)
class _Plan:
    """What one attempt wants appended, and what the answer will be about."""

    subject: UUID
    events: Sequence[NewEvent]
    claims: Sequence[Claim]
    new_keys: frozenset[UUID] = frozenset()

    def with_evicted(self, evicted: Evicted) -> "_Plan":
        """The same, with others archived to make room."""
        return replace(self, events=[*self.events, *evicted.events], claims=[*self.claims, *evicted.claims])


@dataclass(frozen=True, slots=True)
class _Settled:
    """Nothing to append: this is the answer."""

    memory: Memory
    deduplicated: bool = False


class MemoryCommands:
    """Remember, revise, move and end memories for one caller's tenant."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._quotas = Quotas(engine)
        self._commitments = Commitments(engine.log, engine.directory)

    async def remember(self, caller: Caller, arguments: Mapping[str, Any], retry: Retry = Retry()) -> Written:
        """Write a new memory, or find the one that already holds this text (settlement 4).

        Raises `InvalidInput`, `AccessDenied`, `NotFound` (an id in ``derived_from``), `KeyReused`, `Unavailable`.
        """
        caller.require("memory:write")
        _refuse_reserved(arguments)
        return await self._remember(caller, parse(c.Remember, arguments), retry)

    async def remember_apart(
        self, caller: Caller, arguments: Mapping[str, Any], retry: Retry = Retry()
    ) -> Written:
        """Write a memory of a facade, which says in its metadata how it stands apart (`domain.apart`)."""
        caller.require("memory:write")
        return await self._remember(caller, parse(c.RememberImported, arguments), retry)

    async def revise_apart(self, caller: Caller, arguments: Mapping[str, Any], retry: Retry = Retry()) -> Written:
        """Write the successor of a memory of a facade."""
        caller.require("memory:write")
        return await self._revise(caller, parse(c.ReviseImported, arguments), retry)

    async def import_memory(self, caller: Caller, arguments: Mapping[str, Any], retry: Retry = Retry()) -> Written:
        """Take over a memory written elsewhere: up to 262,144 characters, at its own date."""
        caller.require("memory:import")
        _refuse_reserved(arguments)
        return await self._remember(caller, parse(c.RememberImported, arguments), retry)

    async def revise(self, caller: Caller, arguments: Mapping[str, Any], retry: Retry = Retry()) -> Written:
        """Write the successor of a memory; one live head per lineage (A2, A3, F30)."""
        caller.require("memory:write")
        _refuse_facts(arguments)
        _refuse_reserved(arguments)
        return await self._revise(caller, parse(c.Revise, arguments), retry)

    async def revise_imported(
        self, caller: Caller, arguments: Mapping[str, Any], retry: Retry = Retry()
    ) -> Written:
        """Take over what followed a memory elsewhere: up to 262,144 characters, at its own date."""
        caller.require("memory:import")
        _refuse_facts(arguments)
        _refuse_reserved(arguments)
        return await self._revise(caller, parse(c.ReviseImported, arguments), retry)

    async def _revise(self, caller: Caller, command: c.Revise, retry: Retry) -> Written:
        self._check_import(caller, command.occurred_at is not None)
        caller.check_trust(command.trust)
        successor_id = new_id()

        async def attempt(key: CommandKey) -> _Plan | _Settled:
            resolved = await self._resolve(caller.tenant, command)
            await self._check_ids(caller.tenant, "derived_from", command.derived_from)
            before = await self.load(caller.tenant, command.memory_id)
            texts = await self._texts(caller.tenant)
            scope = command.scope or before.scope
            owners = rules.owners_of_successor(before, resolved)
            metadata = rules.metadata_of_successor(before, command)
            apart = standing_apart(metadata, owners.user, owners.agent, owners.run)
            holders = await texts.holders(scope, command.content, apart)
            now = self._engine.clock()
            of_successor, of_predecessor = rules.decide_revise(
                before,
                command,
                resolved,
                now,
                successor_id=successor_id,
                producer=caller.producer,
                trust=caller.trust,
                refuted_memory=holders.refuted,
                ttl_days=(await self._engine.tenants.get(caller.tenant)).policy.ttl_days,
            )
            if holders.content not in (None, before.id) and not await self._expired(
                caller.tenant, holders.content
            ):
                raise Conflict(
                    f"memory {holders.content} already says this in scope {scope}; "
                    "archive this one instead, or revise that one",
                    memory_id=before.id,
                    holder=holders.content,
                )
            same_text = holders.content == before.id
            closed = apply_events(before, of_predecessor)
            claims = await texts.of_change(before, closed, handed_to=successor_id if same_text else None)
            if not same_text:
                claims = [*texts.of_new(successor_id, scope, command.content, holders, apart), *claims]
            became = command.memory_type or before.memory_type
            riding = await self._commitments.of_revision(caller.tenant, before, successor_id, became, command)
            return _Plan(
                subject=successor_id,
                events=[
                    *_numbered(successor_id, 0, of_successor),
                    *_numbered(before.id, before.version, of_predecessor),
                    *riding.events,
                ],
                claims=[*claims, *riding.claims],
                new_keys=frozenset({successor_id}),
            )

        try:
            return await self._run(caller, command, retry, attempt)
        except Conflict as refused:
            await self._flag_refused(caller, refused)
            raise

    async def _flag_refused(self, caller: Caller, refused: Conflict) -> None:
        """Flag what a refused write contradicts, so that somebody decides; it stays refused all the same."""
        pair = [refused.details.get(name) for name in ("memory_id", "refuted_memory")]
        present = await self.load_many(caller.tenant, [one for one in pair if isinstance(one, UUID)])
        if len(present) < 2 or any(memory.erased for memory in present.values()):
            return
        one, other = (present[UUID(str(memory_id))] for memory_id in pair)
        command_id = new_id()
        policy = (await self._engine.tenants.get(caller.tenant)).policy_version
        envelope = Envelope(caller.actor, cause=command_id, correlation=command_id, policy=policy)
        await flag_refused(self._engine, caller.tenant, one, other, command_id, envelope)

    async def move(self, caller: Caller, arguments: Mapping[str, Any], retry: Retry = Retry()) -> Written:
        """Change only the filing of a memory."""
        caller.require("memory:write")
        command = parse(c.Move, arguments)

        async def decide(state: Memory) -> list[Event]:
            project = await self._register(caller.tenant, "project", command.project)
            return rules.decide_move(state, command, project)

        return await self._change(caller, command, retry, decide)

    async def prolong(self, caller: Caller, arguments: Mapping[str, Any], retry: Retry = Retry()) -> Written:
        """Let a memory that expires live until later; it stays as it is, and as trusted as it was."""
        caller.require("memory:write")
        command = parse(c.Prolong, arguments)

        async def decide(state: Memory) -> list[Event]:
            return rules.decide_prolong(state, command, self._engine.clock())

        return await self._change(caller, command, retry, decide)

    async def reaffirm(self, caller: Caller, arguments: Mapping[str, Any], retry: Retry = Retry()) -> Written:
        """Say that a memory still holds."""
        return await self._ending(caller, parse(c.Reaffirm, arguments), retry)

    async def archive(self, caller: Caller, arguments: Mapping[str, Any], retry: Retry = Retry()) -> Written:
        """Put a live memory away; its text may be remembered again (F10)."""
        return await self._ending(caller, parse(c.Archive, arguments), retry)

    async def restore(self, caller: Caller, arguments: Mapping[str, Any], retry: Retry = Retry()) -> Written:
        """Lift every barrier that archive and suppress set."""
        return await self._ending(caller, parse(c.Restore, arguments), retry)

    async def refute(self, caller: Caller, arguments: Mapping[str, Any], retry: Retry = Retry()) -> Written:
        """Say that a memory was never true; its text comes back only into quarantine (F09)."""
        return await self._ending(caller, parse(c.Refute, arguments), retry)

    async def release(self, caller: Caller, arguments: Mapping[str, Any], retry: Retry = Retry()) -> Written:
        """A person lets a quarantined memory in (F09)."""
        caller.require("memory:review")
        caller.require_person("releases a quarantined memory")
        return await self._end(caller, parse(c.Release, arguments), retry)

    async def pin(self, caller: Caller, arguments: Mapping[str, Any], retry: Retry = Retry()) -> Written:
        """Protect a memory from every proposal but conflict, or stop protecting it."""
        return await self._ending(caller, parse(c.Pin, arguments), retry)

    async def verify(self, caller: Caller, arguments: Mapping[str, Any], retry: Retry = Retry()) -> Written:
        """Record that a person, or the host, confirmed a memory."""
        caller.require_person("verifies a memory")
        return await self._ending(caller, parse(c.Verify, arguments), retry)

    async def suppress(self, caller: Caller, arguments: Mapping[str, Any], retry: Retry = Retry()) -> Written:
        """Hide a memory from retrieval as an approved plan says; the planner calls this."""
        caller.require("memory:review")
        command = parse(c.Suppress, arguments)

        async def decide(state: Memory) -> list[Event]:
            approver = await self._engine.directory.register(caller.tenant, "actor", command.approver)
            rules.check_version(state, command.expected_version)
            return rules.decide_suppress(state, plan_id=command.plan_id, approver=approver, reason=command.reason)

        return await self._change(caller, command, retry, decide)

    async def load(self, tenant: UUID, memory_id: UUID) -> Memory:
        """The memory's state from the log. Raises `NotFound`, or `WrongKind` for another thing's id (F50)."""
        loaded = await self.load_many(tenant, [memory_id])
        if memory_id in loaded:
            return loaded[memory_id]
        names = await self._engine.log.stream_names(tenant, [memory_id])
        refuse_other_kind(memory_id, names.get(memory_id, ""), "memory")
        raise NotFound(f"no memory {memory_id}", memory_id=memory_id)

    async def load_many(self, tenant: UUID, ids: Sequence[UUID]) -> dict[UUID, Memory]:
        """States of several memories; ids that are none are absent."""
        found: dict[UUID, Memory] = {}
        for stream, recorded in (await self._engine.log.read_streams(tenant, ids)).items():
            if recorded[0].name != "memory.remembered":
                continue
            state = fold_stream(recorded, evolve)
            assert state is not None
            found[stream] = state
        return found

    async def _remember(self, caller: Caller, command: c.Remember | c.RememberImported, retry: Retry) -> Written:
        self._check_import(caller, command.occurred_at is not None)
        caller.check_trust(command.trust)
        memory_id = new_id()
        scope = command.scope or "personal"

        async def attempt(key: CommandKey) -> _Plan | _Settled:
            resolved = await self._resolve(caller.tenant, command)
            await self._check_ids(caller.tenant, "derived_from", command.derived_from)
            now = self._engine.clock()
            texts = await self._texts(caller.tenant)
            owners = resolved.owners
            apart = standing_apart(command.metadata, owners.user, owners.agent, owners.run)
            holders = await texts.holders(scope, command.content, apart)
            ended = holders.ended
            if holders.content is not None:
                present = await self.load(caller.tenant, holders.content)
                if not present.expired(now):
                    return _Settled(present, deduplicated=True)
                ended = present.id
            events = rules.decide_remember(
                command,
                resolved,
                now,
                producer=caller.producer,
                trust=caller.trust,
                earlier=ended,
                refuted_memory=holders.refuted,
                ttl_days=(await self._engine.tenants.get(caller.tenant)).policy.ttl_days,
            )
            riding = await self._commitments.of_new(caller.tenant, memory_id, command)
            return _Plan(
                subject=memory_id,
                events=[
                    *_numbered(memory_id, 0, events),
                    *_asserted(memory_id, events, command, key),
                    *riding.events,
                ],
                claims=[*texts.of_new(memory_id, scope, command.content, holders, apart), *riding.claims],
                new_keys=frozenset({memory_id}),
            )

        return await self._run(caller, command, retry, attempt)

    async def _ending(self, caller: Caller, command: c.EndingCommand, retry: Retry) -> Written:
        caller.require("memory:write")
        return await self._end(caller, command, retry)

    async def _end(self, caller: Caller, command: c.EndingCommand, retry: Retry) -> Written:

        async def decide(state: Memory) -> list[Event]:
            return rules.decide(state, command)

        return await self._change(caller, command, retry, decide)

    async def _change(
        self,
        caller: Caller,
        command: c.EndingCommand | c.Move | c.Prolong | c.Suppress,
        retry: Retry,
        decide: Callable[[Memory], Awaitable[list[Event]]],
    ) -> Written:
        async def attempt(key: CommandKey) -> _Plan | _Settled:
            before = await self.load(caller.tenant, command.memory_id)
            events = await decide(before)
            if not events:
                return _Settled(before)
            after = apply_events(before, events)
            texts = await self._texts(caller.tenant)
            return _Plan(
                subject=before.id,
                events=_numbered(before.id, before.version, events),
                claims=await texts.of_change(before, after),
            )

        return await self._run(caller, command, retry, attempt)

    async def _run(
        self,
        caller: Caller,
        command: c.Input,
        retry: Retry,
        attempt: Callable[[CommandKey], Awaitable[_Plan | _Settled]],
    ) -> Written:
        key = await command_key(self._engine.vault, caller.tenant, command, retry.key)
        if retry.key is not None:
            earlier = await self._engine.log.find_command(caller.tenant, key)
            if earlier is not None:
                return await self._answer_repeat(caller, earlier, command, key)
        session = await written_in(self._engine.log, caller.tenant, getattr(command, "session_run_id", None))
        command_id = new_id()
        tenant = await self._engine.tenants.get(caller.tenant)
        envelope = Envelope(
            actor=caller.actor,
            cause=retry.cause or command_id,
            correlation=retry.correlation or command_id,
            policy=tenant.policy_version,
            session=session,
        )
        full = False
        for _ in range(ATTEMPTS):
            # Before anything is read: what is erased from now on must not come back with what this writes.
            fence = await self._engine.log.fence(caller.tenant)
            plan = await attempt(key)
            if isinstance(plan, _Settled):
                if retry.key is not None:
                    await self._keep_key(caller.tenant, plan.memory.id, envelope, key)
                # Whoever gets the id can read it: what it stands on may be newer than what this caller knows of.
                reached = await self._engine.log.head()
                return await self._answer(caller, plan.memory, reached, False, plan.deduplicated)
            evicted = NOBODY_EVICTED
            if full:
                try:
                    evicted = await self._evict(tenant, plan)
                except (QuotaExceeded, NotCaughtUp):
                    # The first of two tries of one command may have taken the room that this one looks for.
                    earlier = await self._engine.log.find_command(tenant.id, key)
                    if earlier is None:
                        raise
                    return await self._answer_repeat(caller, earlier, command, key)
                plan = plan.with_evicted(evicted)
            outcome = await self._engine.log.append(
                Unit(
                    tenant=caller.tenant,
                    subject=plan.subject,
                    events=plan.events,
                    envelope=envelope,
                    claims=plan.claims,
                    command=key,
                    new_keys=plan.new_keys,
                    limits=limits_of(tenant.policy, plan.events, plan.claims),
                    fence=fence,
                )
            )
            match outcome:
                case Appended():
                    await note_written(self._engine.log, caller, session, command_id)
                    stored = await self.load(caller.tenant, plan.subject)
                    written = await self._answer(caller, stored, outcome.position, True, False)
                    facts = tuple(one.stream for one in plan.events if one.event.NAME == "fact.asserted")
                    return written.model_copy(update={"evicted": evicted.ids, "fact_ids": facts})
                case OverQuota():
                    refuse_unless_room_helps(tenant.policy, outcome)
                    full = True
                case Repeated() | KeyTaken():
                    return await self._answer_repeat(caller, outcome, command, key)
                case VersionMoved() | ClaimHeld() | ErasedMeanwhile():
                    continue
        raise Conflict("the memory keeps changing while this is tried; read it again and decide anew")

    async def _evict(self, tenant: Tenant, plan: _Plan) -> Evicted:
        sparing = {one.stream for one in plan.events}
        return await self._quotas.evict(tenant, sparing, self.load_many, await self._texts(tenant.id))

    async def _keep_key(self, tenant: UUID, subject: UUID, envelope: Envelope, key: CommandKey) -> None:
        """Remember the key of a command that changed nothing, so that a retry finds the same answer."""
        outcome = await self._engine.log.append(
            Unit(tenant=tenant, subject=subject, events=(), envelope=envelope, command=key)
        )
        if isinstance(outcome, KeyTaken):
            raise KeyReused("this command key was used for another command; use a new key for a new command")

    async def _answer_repeat(
        self, caller: Caller, earlier: Repeated | KeyTaken, command: c.Input, key: CommandKey
    ) -> Written:
        tenant = caller.tenant
        if isinstance(earlier, KeyTaken):
            for memory in (await self.load_many(tenant, [earlier.subject])).values():
                # What the command said went with what it wrote, so nobody can tell whether this is the same one.
                rules.refuse_if_erased(memory)
            raise KeyReused("this command key was used for another command; use a new key for a new command")
        written = await self._answer(
            caller, await self.load(tenant, earlier.subject), earlier.position, False, False
        )
        if not (isinstance(command, c.Remember | c.RememberImported) and command.facts):
            return written
        # Where it only found an older memory, it wrote no fact.
        ids = [_fact_id(earlier.subject, key, number) for number in range(len(command.facts))]
        known = await self._engine.log.stream_names(tenant, ids)
        return written.model_copy(update={"fact_ids": tuple(one for one in ids if one in known)})

    async def _answer(
        self, caller: Caller, memory: Memory, position: int, changed: bool, deduplicated: bool
    ) -> Written:
        rules.refuse_if_erased(memory)
        may_read = "memory:read" in caller.permissions
        view = await present_memory(self._engine, caller.tenant, memory, position)
        is_commitment = memory.memory_type == "commitment"
        return Written(
            memory=view if may_read else without_text(view),
            withheld=not may_read,
            position=position,
            changed=changed,
            deduplicated=deduplicated,
            commitment=await self._commitments.id_of(caller.tenant, memory.id) if is_commitment else None,
        )

    async def _texts(self, tenant: UUID) -> TextClaims:
        return await TextClaims.of(self._engine.log, self._engine.vault, tenant)

    async def _register(self, tenant: UUID, kind: Any, name: str | None) -> UUID | None:
        return None if name is None else await self._engine.directory.register(tenant, kind, name)

    async def _resolve(self, tenant: UUID, command: c.Remember | c.RememberImported | c.Revise) -> Resolved:
        return Resolved(
            project=await self._register(tenant, "project", command.project),
            owners=Owners(
                user=await self._register(tenant, "user", command.user_id),
                agent=await self._register(tenant, "agent", command.agent_id),
                run=await self._register(tenant, "run", command.run_id),
                session=await self._register(tenant, "session", command.session_id),
                subject=await self._register(tenant, "subject", command.subject),
            ),
        )

    async def _check_ids(self, tenant: UUID, field: str, ids: Sequence[UUID]) -> None:
        """Every id must be a memory of this tenant; unknown and foreign ones answer alike."""
        names = await self._engine.log.stream_names(tenant, ids) if ids else {}
        for one in ids:
            refuse_other_kind(one, names.get(one, ""), "memory", field=field)
            if one not in names:
                raise NotFound(f"{field}: no memory {one}", field=field, id=one)
        erased = sorted(set(ids) - set((await self._engine.vault.data_keys(tenant, ids)).known)) if ids else []
        if erased:
            raise Erased(f"{field}: memory {erased[0]} was erased", field=field, id=erased[0])

    async def _expired(self, tenant: UUID, memory_id: UUID | None) -> bool:
        """Whether the holder of a text has expired, so that the text is free for another memory (settlement 4)."""
        return memory_id is not None and (await self.load(tenant, memory_id)).expired(self._engine.clock())

    def _check_import(self, caller: Caller, dated: bool) -> None:
        if dated:
            caller.require("memory:import")


def _refuse_facts(arguments: Mapping[str, Any]) -> None:
    if isinstance(arguments, Mapping) and "facts" in arguments:  # pyright: ignore[reportUnnecessaryIsInstance] - callers are not all typed
        raise InvalidInput(
            "facts",
            "cannot be given to revise: facts are only ever added",
            "Remember them with a memory of their own",
        )


def _refuse_reserved(arguments: Mapping[str, Any]) -> None:
    given = arguments.get("metadata") if isinstance(arguments, Mapping) else None  # pyright: ignore[reportUnnecessaryIsInstance] - callers are not all typed
    found = sorted(RESERVED.intersection(cast("Mapping[str, Any]", given))) if isinstance(given, Mapping) else ()
    if found:
        raise InvalidInput(
            f"metadata.{found[0]}", "is written by LethelogStore and Mem0Memory only", "Choose another name"
        )


def _asserted(
    memory_id: UUID, events: Sequence[Event], command: c.Remember | c.RememberImported, key: CommandKey
) -> list[NewEvent]:
    """The facts that a memory brings along, each a stream of its own."""
    first = events[0]
    assert isinstance(first, MemoryRemembered)
    facts = decide_facts(memory_id, command.facts, first.valid_from or first.occurred_at)
    return [NewEvent(_fact_id(memory_id, key, number), 1, fact) for number, fact in enumerate(facts)]


def _fact_id(memory_id: UUID, key: CommandKey, number: int) -> UUID:
    """Known again when the command is repeated."""
    return uuid5(memory_id, f"fact {number} {key.digest.hex()}")


def _numbered(stream: UUID, version: int, events: Sequence[Event]) -> list[NewEvent]:
    return [NewEvent(stream, version + n, event) for n, event in enumerate(events, 1)]


def apply_events(state: Memory, events: Sequence[Event]) -> Memory:
    """The state after these events, as far as deciding needs it; times are placeholders."""
    for event in events:
        state = evolve(state, event, stream=state.id, version=state.version + 1, recorded_at=state.recorded_at)
    return state
