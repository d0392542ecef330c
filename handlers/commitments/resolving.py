"""The verb that moves a commitment, or puts a blocker away (behaviour.md 1.9; A5, A6)."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from ...domain import commands as c
from ...domain.commitment import Commitment, decide_schedule, decide_transition
from ...domain.errors import Conflict, KeyReused, NotFound
from ...domain.fields import parse
from ...domain.memory import Memory
from ...domain.memory_rules import refuse_if_erased
from ...streams.ids import new_id
from ...streams.log import Appended, Claim, KeyTaken, Repeated, Unit
from ...streams.payloads import Envelope
from ..access.caller import Caller
from ..command_keys import command_key
from ..engine import Engine
from ..memories import ATTEMPTS, MemoryCommands, Retry
from ..sessions.provenance import note_written, written_in
from .listing import present_commitment
from .riding import CLAIM, Commitments, numbered, refuse_schedule
from .views import Resolved

_ONCE = Retry()


class Resolving:
    """Moves the commitments of one caller's tenant."""

    def __init__(self, engine: Engine, commands: MemoryCommands) -> None:
        self._engine = engine
        self._commands = commands
        self._commitments = Commitments(engine.log, engine.directory)

    async def resolve(self, caller: Caller, arguments: Mapping[str, Any], retry: Retry = _ONCE) -> Resolved:
        """Let the commitment of a memory stand otherwise; a blocker is archived whatever was asked.

        Raises `InvalidInput`, `AccessDenied`, `NotFound` for a memory that carries no commitment,
        `InvalidTransition`, `Erased`, `KeyReused`, `Unavailable`.
        """
        caller.require("memory:write")
        command = parse(c.Resolve, arguments)
        key = await command_key(self._engine.vault, caller.tenant, command, retry.key)
        if retry.key is not None:
            earlier = await self._engine.log.find_command(caller.tenant, key)
            if isinstance(earlier, KeyTaken):
                return await self._repeated_archive(caller, command, retry)
            if earlier is not None:
                return await self._answer(caller, earlier.subject, earlier.position, changed=False)
        session = await written_in(self._engine.log, caller.tenant, command.session_run_id)
        command_id = new_id()
        tenant = await self._engine.tenants.get(caller.tenant)
        envelope = Envelope(
            caller.actor,
            cause=retry.cause or command_id,
            correlation=retry.correlation or command_id,
            policy=tenant.policy_version,
            session=session,
        )
        for _ in range(ATTEMPTS):
            fence = await self._engine.log.fence(caller.tenant)
            state = await self._commitments.of_memory(caller.tenant, command.memory_id)
            if state is None:
                return await self._without_commitment(caller, command, retry)
            refuse_if_erased(await self._commands.load(caller.tenant, command.memory_id))
            schedule = await self._commitments.schedule(caller.tenant, command)
            events = decide_transition(state, command.status, "command") + decide_schedule(state, schedule)
            if not events and retry.key is None:
                return await self._answer(caller, state.id, await self._engine.log.head(), changed=False)
            outcome = await self._engine.log.append(
                Unit(
                    tenant=caller.tenant,
                    subject=state.id,
                    events=numbered(state, events),
                    envelope=envelope,
                    claims=[Claim(CLAIM, command.memory_id.bytes, state.id, state.id)],
                    command=key,
                    fence=fence,
                )
            )
            match outcome:
                case Appended():
                    await note_written(self._engine.log, caller, session, command_id)
                    return await self._answer(caller, state.id, outcome.position, changed=bool(events))
                case Repeated():
                    return await self._answer(caller, outcome.subject, outcome.position, changed=False)
                case KeyTaken():
                    raise _reused()
                case _:
                    continue
        raise Conflict("the commitment keeps changing while this is tried; read it again and decide anew")

    async def _without_commitment(self, caller: Caller, command: c.Resolve, retry: Retry) -> Resolved:
        """Put a blocker away; nothing else can be resolved."""
        memory = await self._commands.load(caller.tenant, command.memory_id)
        refuse_if_erased(memory)
        if memory.memory_type != "blocker":
            raise _nothing_to_resolve(memory)
        refuse_schedule(command)
        put_away = {"memory_id": memory.id, "session_run_id": command.session_run_id}
        written = await self._commands.archive(caller, put_away, retry)
        return Resolved(memory_id=memory.id, status="archived", position=written.position, changed=written.changed)

    async def _repeated_archive(self, caller: Caller, command: c.Resolve, retry: Retry) -> Resolved:
        """The key was used by another kind of command: that of a blocker by archiving it, which knows a repeat."""
        if (await self._commands.load(caller.tenant, command.memory_id)).memory_type != "blocker":
            raise _reused()
        return await self._without_commitment(caller, command, retry)

    async def _answer(self, caller: Caller, commitment_id: UUID, position: int, *, changed: bool) -> Resolved:
        tenant = caller.tenant
        state = await self._commitments.load(tenant, commitment_id)
        assert isinstance(state, Commitment)
        memory = await self._commands.load(tenant, state.memory_id)
        refuse_if_erased(memory)
        may_read = "memory:read" in caller.permissions
        view = await present_commitment(self._engine, tenant, state, memory) if may_read else None
        return Resolved(
            memory_id=memory.id, status=state.status, commitment=view, position=position, changed=changed
        )


def _reused() -> KeyReused:
    return KeyReused("this command key was used for another command; use a new key for a new command")


def _nothing_to_resolve(memory: Memory) -> NotFound:
    followed = f"; it was superseded by {memory.successor}" if memory.successor else ""
    return NotFound(
        f"memory {memory.id} is a {memory.memory_type} and carries no commitment{followed}",
        memory_id=memory.id,
        successor=memory.successor,
    )
