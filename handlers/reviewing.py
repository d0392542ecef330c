"""The review queue: list, show, accept, reject (behaviour.md 1.14, settlements 5, 6, 9, 19; F31, F32)."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast
from uuid import UUID

from pydantic import Field

from ..domain import proposal as rules
from ..domain.errors import Conflict, KeyReused, NotCaughtUp, NotFound, WrongKind
from ..domain.events import Event, ProposalStaged
from ..domain.fields import CommandKey as KeyText
from ..domain.fields import Id, Input, Position, Reason, parse
from ..domain.memory import Memory
from ..domain.proposal import Proposal
from ..projections.as_of import AsOf
from ..projections.generations import tenant_read_models
from ..projections.parked import refuse_parked
from ..projections.progress import wait_for
from ..projections.review_queue import ReviewQueue
from ..projections.rows import MemoryRow, read_rows
from ..streams.folding import fold_stream
from ..streams.ids import new_id
from ..streams.log import Appended, Claim, KeyTaken, NewEvent, Repeated, Unit
from ..streams.payloads import Envelope, RecordedEvent
from .access.caller import Caller
from .claims import TextClaims
from .command_keys import command_key
from .cursors import make_cursor, read_cursor
from .engine import Engine
from .forgetting.open_proposals import open_claim
from .memories import MemoryCommands, apply_events
from .operating.views import Decided, ProposalDetail, ProposalPage, ProposalView
from .present import present_rows

ATTEMPTS = 25
SETTLE_SECONDS = 2.0
"""How long a decision waits for its own effect on the read models before it answers from the log."""
_COLUMNS = (
    "proposal_id, kind, status, action, memory_id, related_id, pair_older, pair_newer, rule, probability, "
    "probabilities, threshold, unselected, judge, model, quote, seen, pass_id, created_at, decided_at, "
    "decided_by_kind, decided_by, comment, withdrawn_because"
)


class ProposalsQuery(Input):
    """What to list. Without a status decided ones are included; dismissed ones never (behaviour.md 1.14.1)."""

    status: Literal["proposed", "applied", "rejected", "withdrawn"] | None = None
    action: Literal["archive", "supersede", "conflict"] | None = None
    memory_id: Id | None = None
    limit: int = Field(default=25, ge=1, le=100)
    cursor: str | None = Field(default=None, max_length=400, strict=True)
    after: Position | None = None


class Decide(Input):
    """Accept or reject one proposal; the comment is personal text and is sealed."""

    proposal_id: Id
    comment: Reason | None = None
    key: KeyText | None = None


class ShowQuery(Input):
    proposal_id: Id
    after: Position | None = None


class Reviewing:
    """The queue of one caller's tenant."""

    def __init__(self, engine: Engine, memories: MemoryCommands) -> None:
        self._engine = engine
        self._memories = memories

    async def list(self, caller: Caller, arguments: Mapping[str, Any]) -> ProposalPage:
        """A page of proposals, oldest first, with exact totals per kind. Listing changes nothing."""
        caller.require("memory:read")
        query = parse(ProposalsQuery, arguments)
        await self._wait(query.after)
        asked = query.model_dump(exclude={"cursor", "limit", "after"})
        beyond = read_cursor(query.cursor, asked) if query.cursor is not None else None
        where, values = _where(caller.tenant, query)
        async with tenant_read_models(self._engine.doors, caller.tenant) as connection:
            cursor = await connection.execute(
                f"select kind, count(*) from review_queue where {where} group by 1 order by 1",
                values,
            )
            totals = {kind: count for kind, count in await cursor.fetchall()}  # noqa: C416 - typed
            page_where = where
            if beyond is not None:
                page_where += " and (created_at, proposal_id) > (%(at)s, %(last)s)"
                values |= {"at": beyond[0], "last": beyond[1]}
            cursor = await connection.execute(
                f"select {_COLUMNS} from review_queue where {page_where} "
                "order by created_at, proposal_id limit %(limit)s",
                {**values, "limit": query.limit + 1},
            )
            rows = await cursor.fetchall()
            memories = await read_rows(connection, caller.tenant, _mentioned(rows), AsOf(self._engine.clock()))
        views = await self._present(memories, caller.tenant, rows[: query.limit])
        last = views[-1] if len(rows) > query.limit else None
        return ProposalPage(
            proposals=tuple(views),
            total=sum(totals.values()),
            totals=totals,
            next_cursor=make_cursor(asked, last.created_at, last.id) if last else None,
        )

    async def show(self, caller: Caller, arguments: Mapping[str, Any]) -> ProposalDetail:
        """A proposal with both memories. Raises `NotFound` or `WrongKind`."""
        caller.require("memory:read")
        query = parse(ShowQuery, arguments)
        await self._wait(query.after)
        return await self._show(caller, query.proposal_id)

    async def accept(self, caller: Caller, arguments: Mapping[str, Any]) -> Decided:
        """Apply a proposal, against the versions it saw, in one unit with its effect.

        Raises `StaleProposal` when a memory moved on, `Conflict` when it is decided already or can no longer be
        applied (it then stays open), `NotFound`, `WrongKind`, `AccessDenied`.
        """
        return await self._decide(caller, parse(Decide, arguments), accept=True)

    async def reject(self, caller: Caller, arguments: Mapping[str, Any]) -> Decided:
        """Decline a proposal: nothing changes, and the memory is left alone until its freshness moves."""
        return await self._decide(caller, parse(Decide, arguments), accept=False)

    async def load(self, tenant: UUID, proposal_id: UUID) -> Proposal:
        """The proposal's state from the log. Raises `NotFound` or `WrongKind`; dismissed ones are not found."""
        recorded = await self._engine.log.read_stream(tenant, proposal_id)
        kind = recorded[0].name.partition(".")[0] if recorded else ""
        if kind and kind != "proposal":
            raise WrongKind(f"{proposal_id} is the id of a {kind}, not of a proposal", id=proposal_id, kind=kind)
        state = fold_stream(recorded, rules.evolve_proposal)
        if state is None or state.status == "dismissed":
            raise NotFound(f"no proposal {proposal_id}", proposal_id=proposal_id)
        return state

    async def _decide(self, caller: Caller, command: Decide, *, accept: bool) -> Decided:
        caller.require("memory:review")
        tenant = caller.tenant
        verb = "accept" if accept else "reject"
        key = await command_key(self._engine.vault, tenant, command, command.key, verb)
        if command.key is not None:
            earlier = await self._engine.log.find_command(tenant, key)
            if isinstance(earlier, KeyTaken):
                raise KeyReused("this command key was used for another command; use a new key for a new command")
            if isinstance(earlier, Repeated):
                return await self._answer(caller, command.proposal_id, earlier.position, (), ())
        settings = await self._engine.tenants.get(tenant)
        command_id = new_id()
        envelope = Envelope(caller.actor, cause=command_id, correlation=command_id, policy=settings.policy_version)
        for _ in range(ATTEMPTS):
            proposal = await self.load(tenant, command.proposal_id)
            changes = await self._changes(tenant, proposal, command, accept=accept)
            unit = Unit(
                tenant=tenant,
                subject=proposal.id,
                events=[
                    NewEvent(stream, version + n, event)
                    for stream, version, events in changes.events
                    for n, event in enumerate(events, 1)
                ],
                envelope=envelope,
                claims=changes.claims,
                command=key,
            )
            outcome = await self._engine.log.append(unit)
            if isinstance(outcome, KeyTaken):
                raise KeyReused("this command key was used for another command; use a new key for a new command")
            if isinstance(outcome, Appended | Repeated):
                return await self._answer(
                    caller, proposal.id, outcome.position, changes.changed, changes.withdrawn
                )
        raise Conflict("the proposal's memories keep changing; try again")

    async def _changes(self, tenant: UUID, proposal: Proposal, command: Decide, *, accept: bool) -> "_Changes":
        if not accept:
            declined = rules.decide_reject(proposal, command.comment)
            return _Changes(
                [(proposal.id, proposal.version, declined)], [open_claim(proposal, release=True)], (), ()
            )
        subjects = [proposal.memory_id] + ([proposal.related_id] if proposal.related_id else [])
        memories = await self._memories.load_many(tenant, subjects)
        if len(memories) != len(subjects):
            raise Conflict("a memory of this proposal was erased; reject it", proposal_id=proposal.id)
        of_proposal, effects = rules.decide_accept(proposal, memories, command.comment)
        events: list[tuple[UUID, int, list[Event]]] = [(proposal.id, proposal.version, of_proposal)]
        claims: list[Claim] = [open_claim(proposal, release=True)]
        texts = await TextClaims.of(self._engine.log, self._engine.vault, tenant)
        for memory_id, changed in effects.items():
            before: Memory = memories[memory_id]
            events.append((memory_id, before.version, changed))
            claims += await texts.of_change(before, apply_events(before, changed))
        withdrawn: list[UUID] = []
        if effects:
            for sibling in await self._siblings(tenant, proposal, tuple(effects)):
                events.append(
                    (sibling.id, sibling.version, rules.decide_withdraw(sibling, "sibling_applied", proposal.id))
                )
                claims.append(open_claim(sibling, release=True))
                withdrawn.append(sibling.id)
        return _Changes(events, claims, tuple(effects), tuple(withdrawn))

    async def _siblings(self, tenant: UUID, proposal: Proposal, changed: tuple[UUID, ...]) -> "list[Proposal]":
        """Other open proposals about the memories that accepting changes (settlement 6)."""
        await wait_for(self._engine.doors, "review_queue", await self._engine.log.head())
        async with tenant_read_models(self._engine.doors, tenant) as connection:
            cursor = await connection.execute(
                "select proposal_id from review_queue where tenant = %s and status = 'proposed' "
                "and proposal_id <> %s and (memory_id = any(%s) or related_id = any(%s))",
                (tenant, proposal.id, list(changed), list(changed)),
            )
            ids = [row[0] for row in await cursor.fetchall()]
        loaded = [await self.load(tenant, one) for one in ids]
        return [one for one in loaded if one.status == "proposed"]

    async def _show(self, caller: Caller, proposal_id: UUID) -> ProposalDetail:
        async with tenant_read_models(self._engine.doors, caller.tenant) as connection:
            cursor = await connection.execute(
                f"select {_COLUMNS} from review_queue "
                "where tenant = %s and proposal_id = %s and status <> 'dismissed'",
                (caller.tenant, proposal_id),
            )
            row = await cursor.fetchone()
            memories = await read_rows(
                connection, caller.tenant, _mentioned([row] if row else []), AsOf(self._engine.clock())
            )
        if row is None:
            await self.load(caller.tenant, proposal_id)
            async with self._engine.doors.tenant(caller.tenant) as connection:
                await refuse_parked(connection, ReviewQueue.name, caller.tenant, [proposal_id])
            raise NotFound(f"no proposal {proposal_id} yet; its read model is behind", proposal_id=proposal_id)
        [view] = await self._present(memories, caller.tenant, [row])
        present = {
            memory.id: memory
            for memory in await present_rows(
                self._engine, caller.tenant, list(memories.values()), self._engine.clock()
            )
        }
        return ProposalDetail(
            proposal=view,
            memory=present.get(view.memory_id),
            related=present.get(view.related_id) if view.related_id else None,
        )

    async def _answer(
        self,
        caller: Caller,
        proposal_id: UUID,
        position: int,
        changed: tuple[UUID, ...],
        withdrawn: tuple[UUID, ...],
    ) -> Decided:
        """What was decided, told from the log: a read model that is behind must not make it look undone.

        The views are waited for all the same, for a moment, so that whoever looks next sees it.
        """
        with contextlib.suppress(NotCaughtUp):
            for name in ("review_queue", "live_memory"):
                await wait_for(self._engine.doors, name, position, seconds=SETTLE_SECONDS)
        recorded = await self._engine.log.read_stream(caller.tenant, proposal_id)
        names = await self._engine.directory.names(
            caller.tenant, {one.envelope.actor.id for one in recorded if one.envelope.actor.kind in _NAMED}
        )
        return Decided(
            proposal=proposal_from_log(recorded, names), changed=changed, withdrawn=withdrawn, position=position
        )

    async def _wait(self, position: int | None) -> None:
        if position:
            await wait_for(self._engine.doors, "review_queue", position)
            await wait_for(self._engine.doors, "live_memory", position)

    async def _present(
        self, memories: Mapping[UUID, MemoryRow], tenant: UUID, rows: "Sequence[tuple[Any, ...]]"
    ) -> "list[ProposalView]":
        names = await self._engine.directory.names(tenant, {row[21] for row in rows if row[20] in _NAMED})
        views: list[ProposalView] = []
        for row in rows:
            seen = {UUID(one): version for one, version in cast(dict[str, int], row[16]).items()}
            about = [one for one in (row[4], row[5]) if one is not None]
            stale = row[2] == "proposed" and any(
                one not in memories or memories[one].state_version != seen.get(one) for one in about
            )
            decided_by = None
            if row[20] is not None:
                name = names.get(row[21])
                decided_by = row[20] if name is None else f"{row[20]}:{name}"
            views.append(
                ProposalView(
                    id=row[0],
                    kind=row[1],
                    status=row[2],
                    action=row[3],
                    memory_id=row[4],
                    related_id=row[5],
                    judged_pair=(row[6], row[7]) if row[6] is not None else None,
                    rule=row[8],
                    probability=row[9],
                    probabilities=row[10],
                    threshold=row[11],
                    unselected=row[12],
                    judge=row[13],
                    model=row[14],
                    quote=row[15],
                    stale=stale,
                    seen=seen,
                    pass_id=row[17],
                    created_at=row[18],
                    decided_at=row[19],
                    decided_by=decided_by,
                    comment=row[22],
                    withdrawn_because=row[23],
                )
            )
        return views


_NAMED = ("person", "agent", "importer")
"""Kinds of actors that the directory knows by name."""


def _mentioned(rows: Sequence[tuple[Any, ...]]) -> list[UUID]:
    """Ids of the memories that rows of the queue are about."""
    return [one for row in rows for one in (row[4], row[5]) if one is not None]


def proposal_from_log(recorded: Sequence[RecordedEvent], names: Mapping[UUID, str]) -> ProposalView:
    """A decided proposal as its own events tell it."""
    staged, last = recorded[0], recorded[-1]
    said = staged.event
    assert isinstance(said, ProposalStaged)
    state = fold_stream(recorded, rules.evolve_proposal)
    assert state is not None
    actor = last.envelope.actor
    name = names.get(actor.id)
    return ProposalView(
        id=staged.stream,
        kind=said.kind,
        status=state.status,
        action=said.action,
        memory_id=said.memory_id,
        related_id=said.related_id,
        judged_pair=said.judged_pair,
        rule=said.rule,
        probability=said.probability,
        probabilities=said.probabilities,
        threshold=said.threshold,
        unselected=said.unselected,
        judge=said.judge,
        model=said.model,
        quote=said.quote,
        stale=False,
        seen=said.seen,
        pass_id=said.pass_id,
        created_at=staged.recorded_at,
        decided_at=last.recorded_at if len(recorded) > 1 else None,
        decided_by=(actor.kind if name is None else f"{actor.kind}:{name}") if len(recorded) > 1 else None,
        comment=getattr(last.event, "comment", None),
        withdrawn_because=getattr(last.event, "reason", None),
    )


class _Changes:
    """What a decision appends."""

    def __init__(
        self,
        events: "list[tuple[UUID, int, list[Event]]]",
        claims: "list[Claim]",
        changed: tuple[UUID, ...],
        withdrawn: tuple[UUID, ...],
    ) -> None:
        self.events = events
        self.claims = claims
        self.changed = changed
        self.withdrawn = withdrawn


def _where(tenant: UUID, query: ProposalsQuery) -> tuple[str, dict[str, Any]]:
    parts = ["tenant = %(tenant)s", "status <> 'dismissed'"]
    if query.status is not None:
        parts.append("status = %(status)s")
    if query.action is not None:
        parts.append("action = %(action)s")
    if query.memory_id is not None:
        parts.append("(memory_id = %(memory_id)s or related_id = %(memory_id)s)")
    return " and ".join(parts), {
        "tenant": tenant,
        "status": query.status,
        "action": query.action,
        "memory_id": query.memory_id,
    }
