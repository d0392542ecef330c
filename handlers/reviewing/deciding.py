"""Accepting and rejecting: one decision, in one unit with everything that follows from it.

behaviour.md 1.14.2, 1.14.5; settlements 5, 6, 9, 19; F31, F32.
"""

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from ...domain import proposal as rules
from ...domain.errors import Conflict, InvalidInput, KeyReused, NotCaughtUp
from ...domain.fields import CommandKey as KeyText
from ...domain.fields import Id, Input, Reason, parse
from ...domain.proposal import Proposal
from ...projections.generations import tenant_read_models
from ...projections.progress import wait_for
from ...streams.ids import new_id
from ...streams.log import Appended, CommandKey, KeyTaken, Repeated, Unit
from ...streams.payloads import Envelope
from ..access.caller import Caller
from ..command_keys import command_key
from ..engine import Engine
from ..forgetting.open_proposals import release_slot
from ..memories import MemoryCommands
from ..operating.views import Decided
from ..sessions.provenance import note_written, written_in
from ..withholding import without_words
from .changes import Changes, Decision, StreamChange
from .facts import fact_of
from .kinds import acceptances, rejections
from .loading import load_open, load_proposal
from .presenting import proposal_from_log

ATTEMPTS = 25
SETTLE_SECONDS = 2.0
"""How long a decision waits for its own effect on the read models before it answers from the log."""


class Decide(Input):
    """Accept or reject one proposal; the comment is personal text and is sealed."""

    proposal_id: Id
    comment: Reason | None = None
    holds: Id | None = None
    """Of a contradiction that is accepted: the memory that holds and supersedes the other. Left out, both stay."""
    key: KeyText | None = None
    session_run_id: Id | None = None
    """The session run that it is decided in."""


class Deciding:
    """Decides proposals of one caller's tenant."""

    def __init__(self, engine: Engine, memories: MemoryCommands) -> None:
        self._engine = engine
        self._acceptances = acceptances(engine, memories)
        self._rejections = rejections(engine, memories)

    async def accept(self, caller: Caller, arguments: Mapping[str, Any]) -> Decided:
        """Apply a proposal, against the versions it saw, in one unit with its effect.

        Raises `StaleProposal` when a memory moved on, `Conflict` when it is decided already or can no longer be
        applied (it then stays open), `NotFound`, `WrongKind`, `AccessDenied`.
        """
        return await self._decide(caller, parse(Decide, arguments), accept=True)

    async def reject(self, caller: Caller, arguments: Mapping[str, Any]) -> Decided:
        """Decline a proposal: nothing changes, and its question rests as its kind says."""
        command = parse(Decide, arguments)
        if command.holds is not None:
            raise InvalidInput("holds", "goes with accepting a contradiction")
        return await self._decide(caller, command, accept=False)

    async def decide_one(self, caller: Caller, command: Decide, *, accept: bool) -> "Done":
        """Decide one as `accept` and `reject` do, without waiting for the read models: for whoever decides many
        and calls `settle` at the end."""
        caller.require("memory:review")
        verb = "accept" if accept else "reject"
        key = await command_key(self._engine.vault, caller.tenant, command, command.key, verb)
        return await self._append(caller, [command], accept=accept, key=key, keyed=command.key is not None)

    async def decide_together(
        self, caller: Caller, decisions: Sequence[Decide], *, accept: bool, command: Input, key: str | None
    ) -> "Done":
        """Decide several in one unit.

        Raises what `accept` does for the first that cannot be decided, and `Conflict` where two of them change one
        memory; nothing is decided then.
        """
        caller.require("memory:review")
        hashed = await command_key(self._engine.vault, caller.tenant, command, key, "together")
        return await self._append(caller, decisions, accept=accept, key=hashed, keyed=key is not None)

    async def settle(self, position: int) -> None:
        """Wait for a moment until the read models have a decision, so that whoever looks next sees it."""
        with contextlib.suppress(NotCaughtUp):
            for name in ("review_queue", "live_memory"):
                await wait_for(self._engine.doors, name, position, seconds=SETTLE_SECONDS)

    async def _decide(self, caller: Caller, command: Decide, *, accept: bool) -> Decided:
        return await self._answer(
            caller, command.proposal_id, await self.decide_one(caller, command, accept=accept)
        )

    async def _append(
        self, caller: Caller, decisions: Sequence[Decide], *, accept: bool, key: CommandKey, keyed: bool
    ) -> "Done":
        """Put decisions on record with all that follows from them, in one unit; a repeat changes nothing."""
        log, tenant = self._engine.log, caller.tenant
        if keyed and (earlier := await log.find_command(tenant, key)) is not None:
            return _repeated(earlier)
        settings = await self._engine.tenants.get(tenant)
        command_id = new_id()
        session = await written_in(log, tenant, decisions[0].session_run_id)
        envelope = Envelope(
            caller.actor,
            cause=command_id,
            correlation=command_id,
            policy=settings.policy_version,
            session=session,
        )
        for _ in range(ATTEMPTS):
            # Before anything is read: what is erased from now on must not come back with what this writes.
            fence = await log.fence(tenant)
            changes, done = await self._changes(caller, decisions, accept=accept)
            outcome = await log.append(
                Unit(
                    tenant=tenant,
                    subject=decisions[0].proposal_id,
                    events=changes.new_events(),
                    envelope=envelope,
                    claims=changes.claims,
                    command=key,
                    fence=fence,
                )
            )
            if isinstance(outcome, Repeated | KeyTaken):
                return _repeated(outcome)
            if isinstance(outcome, Appended):
                await note_written(log, caller, session, command_id)
                return replace(done, position=outcome.position)
        raise Conflict("what is decided about keeps changing; try again")

    async def _changes(
        self, caller: Caller, decisions: Sequence[Decide], *, accept: bool
    ) -> "tuple[Changes, Done]":
        whole, done = Changes(), Done(0)
        decide = self._accepted if accept else self._rejected
        settled = {one.proposal_id for one in decisions}
        for one in decisions:
            proposal = await load_proposal(self._engine.log, caller.tenant, one.proposal_id)
            part = await decide(caller, proposal, one)
            withdrawn = await self._withdraw_siblings(caller.tenant, proposal, part, settled)
            settled |= set(withdrawn)
            _merge(whole, part, proposal)
            done.changed[proposal.id] = part.changed
            done.withdrawn[proposal.id] = withdrawn
        return whole, done

    async def _accepted(self, caller: Caller, proposal: Proposal, command: Decide) -> Changes:
        rules.refuse_if_decided(proposal)
        if command.holds is not None and proposal.kind != "contradiction":
            raise InvalidInput("holds", f"goes with a contradiction; this is a {proposal.kind} proposal")
        acceptance = self._acceptances.get(proposal.kind)
        if acceptance is None:
            raise Conflict(f"{proposal.kind} proposals cannot be accepted here", proposal_id=proposal.id)
        changes = await acceptance.effects(proposal, Decision(caller, command.holds))
        accepted = rules.decide_accept(proposal, command.comment, changes.changed)
        changes.streams.insert(0, StreamChange(proposal.id, proposal.version, accepted))
        changes.claims += release_slot(proposal)
        return changes

    async def _rejected(self, caller: Caller, proposal: Proposal, command: Decide) -> Changes:
        declined = rules.decide_reject(proposal, command.comment)
        changes = Changes([StreamChange(proposal.id, proposal.version, declined)], release_slot(proposal))
        rejection = self._rejections.get(proposal.kind)
        if rejection is not None:
            changes.streams += await rejection.dismissed(caller.tenant, proposal)
        return changes

    async def _withdraw_siblings(
        self, tenant: UUID, proposal: Proposal, changes: Changes, beside: Collection[UUID]
    ) -> tuple[UUID, ...]:
        """Take back other open proposals about what is changed (settlement 6), but for those ``beside``."""
        if not changes.changed:
            return ()
        withdrawn: list[UUID] = []
        for sibling in await self._siblings(tenant, proposal, changes.changed):
            if sibling.id in beside:
                continue
            events = rules.decide_withdraw(sibling, "sibling_applied", proposal.id)
            changes.streams.append(StreamChange(sibling.id, sibling.version, events))
            changes.claims += release_slot(sibling)
            withdrawn.append(sibling.id)
        return tuple(withdrawn)

    async def _siblings(self, tenant: UUID, proposal: Proposal, changed: tuple[UUID, ...]) -> list[Proposal]:
        await wait_for(self._engine.doors, "review_queue", await self._engine.log.head())
        async with tenant_read_models(self._engine.doors, tenant) as connection:
            cursor = await connection.execute(
                "select proposal_id from review_queue where tenant = %s and status = 'proposed' "
                "and proposal_id <> %s and (memory_id = any(%s) or related_id = any(%s) and kind <> 'dependency')",
                (tenant, proposal.id, list(changed), list(changed)),
            )
            ids = [row[0] for row in await cursor.fetchall()]
        return await load_open(self._engine.log, tenant, ids)

    async def _answer(self, caller: Caller, proposal_id: UUID, done: "Done") -> Decided:
        """What was decided, told from the log: a read model that is behind must not make it look undone."""
        await self.settle(done.position)
        recorded = await self._engine.log.read_stream(caller.tenant, proposal_id)
        decided = await proposal_from_log(self._engine, recorded)
        may_read = "memory:read" in caller.permissions
        return Decided(
            proposal=decided if may_read else without_words(decided),
            withheld=not may_read,
            fact_id=fact_of(proposal_id) if (decided.kind, decided.status) == ("fact", "applied") else None,
            changed=done.changed.get(proposal_id, ()),
            withdrawn=done.withdrawn.get(proposal_id, ()),
            position=done.position,
        )


def _merge(whole: Changes, part: Changes, proposal: Proposal) -> None:
    """Add one decision to a unit; two that change the same stream do not go together."""
    taken = {change.stream for change in whole.streams}
    shared = sorted(change.stream for change in part.streams if change.stream in taken)
    if shared:
        raise Conflict(
            f"proposal {proposal.id} and another one of these both change {shared[0]}; decide them one by one",
            proposal_id=proposal.id,
            memory_id=shared[0],
        )
    whole.streams += part.streams
    whole.claims += part.claims
    whole.changed += part.changed


def _repeated(earlier: Repeated | KeyTaken) -> "Done":
    if isinstance(earlier, KeyTaken):
        raise KeyReused("this command key was used for another command; use a new key for a new command")
    return Done(earlier.position)


@dataclass(frozen=True, slots=True)
class Done:
    """What a unit of decisions did, by proposal; empty where it had been appended before."""

    position: int
    changed: dict[UUID, tuple[UUID, ...]] = field(default_factory=dict[UUID, tuple[UUID, ...]])
    withdrawn: dict[UUID, tuple[UUID, ...]] = field(default_factory=dict[UUID, tuple[UUID, ...]])
