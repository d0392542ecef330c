"""The causal chain: from the pass's rule over the verdict and the reviewer to the effect (design.md 3)."""

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, Literal
from uuid import UUID

from ..domain import events as e
from ..domain.errors import NotFound, WrongKind
from ..domain.fields import Id, Input, Position, parse
from ..domain.forgetting_pass import verdict_id
from ..domain.proposal import Proposal
from ..projections.generations import tenant_read_models
from ..projections.progress import wait_for
from ..streams.payloads import RecordedEvent
from .access.caller import Caller
from .commitments.riding import Commitments
from .engine import Engine
from .kinds import kind_of
from .operating.views import Chain, ChainLink
from .reviewing.reviewing import Reviewing
from .undoing.selecting import EFFECT_COLUMNS, Effect


class ChainQuery(Input):
    """Whose chain to walk: a memory's, a proposal's, or an effect's."""

    about: Id
    after: Position | None = None


PROPOSALS_SHOWN = 25
"""Of a memory, the newest proposals whose chains are told."""


class Explaining:
    """Walks back to the beginning and forward to the undo, all from the log."""

    def __init__(self, engine: Engine, reviewing: Reviewing) -> None:
        self._engine = engine
        self._reviewing = reviewing

    async def chain(self, caller: Caller, arguments: Mapping[str, Any]) -> Chain:
        """The whole causal chain of a memory, a proposal or an effect. Raises `NotFound` or `WrongKind`."""
        caller.require("memory:read")
        query = parse(ChainQuery, arguments)
        for name in ("review_queue", "effects") if query.after else ():
            await wait_for(self._engine.doors, name, query.after or 0)
        names = await self._engine.log.stream_names(caller.tenant, [query.about])
        kind = kind_of(names.get(query.about, ""))
        if kind == "memory":
            return await self._of_memory(caller.tenant, query.about)
        if kind == "proposal":
            return await self._of_proposal(caller.tenant, query.about)
        if kind:
            raise WrongKind(
                f"{query.about} is the id of a {kind}; a memory, a proposal or an effect is explained",
                id=query.about,
                kind=kind,
            )
        return await self._of_effect(caller.tenant, query.about)

    async def _of_memory(self, tenant: UUID, memory_id: UUID) -> Chain:
        async with tenant_read_models(self._engine.doors, tenant) as connection:
            cursor = await connection.execute(
                "select proposal_id, count(*) over () from review_queue where tenant = %(tenant)s "
                "and status <> 'dismissed' and (memory_id = %(memory)s or related_id = %(memory)s) "
                "order by created_at desc, proposal_id limit %(limit)s",
                {"tenant": tenant, "memory": memory_id, "limit": PROPOSALS_SHOWN},
            )
            rows = await cursor.fetchall()
        links = _Links(await self._engine.log.read_stream(tenant, memory_id))
        proposals = [row[0] for row in rows]
        for one in proposals:
            await self._add_proposal(tenant, await self._reviewing.load(tenant, one), links)
        riding = await Commitments(self._engine.log, self._engine.directory).id_of(tenant, memory_id)
        if riding is not None:
            # What policies did unreviewed; what was accepted came with its proposal.
            await self._add_effects(tenant, await self._effects(tenant, "stream", riding), links)
        return await self._told(
            tenant,
            links,
            about=memory_id,
            kind="memory",
            proposals=proposals,
            more=rows[0][1] - len(rows) if rows else 0,
        )

    async def _of_proposal(self, tenant: UUID, proposal_id: UUID) -> Chain:
        links = _Links()
        await self._add_proposal(tenant, await self._reviewing.load(tenant, proposal_id), links)
        return await self._told(tenant, links, about=proposal_id, kind="proposal", proposals=[proposal_id])

    async def _of_effect(self, tenant: UUID, effect_id: UUID) -> Chain:
        [found] = await self._effects(tenant, "effect_id", effect_id) or [None]
        if found is None:
            raise NotFound(f"no memory, proposal or effect {effect_id}", about=effect_id)
        links = _Links()
        if found.proposal is not None:
            await self._add_proposal(tenant, await self._reviewing.load(tenant, found.proposal), links)
        await self._add_effects(tenant, [found], links)
        proposals = [] if found.proposal is None else [found.proposal]
        return await self._told(tenant, links, about=effect_id, kind="effect", proposals=proposals)

    async def _add_proposal(self, tenant: UUID, proposal: Proposal, links: "_Links") -> None:
        """From the pass over the verdict and the decision to the effects and their undoing."""
        own = await self._engine.log.read_stream(tenant, proposal.id)
        ref = proposal.said.ref if isinstance(proposal.said, e.Judgment) else ""
        verdict = verdict_id(proposal.source, ref)
        about = [one for one in (proposal.memory_id, proposal.related_id) if one is not None]
        streams = await self._engine.log.read_streams(tenant, [proposal.source, verdict, *about])
        links.refs.add(ref)
        links.add(one for one in streams.get(proposal.source, []) if _leads_here(one, proposal.id))
        links.add(streams.get(verdict, []))
        links.add(own)
        causes = {recorded.envelope.correlation for recorded in own[1:]}
        for memory_id in about:
            of_memory = streams.get(memory_id, [])
            links.add(one for one in of_memory if one.version == 1 or one.envelope.correlation in causes)
        await self._add_effects(tenant, await self._effects(tenant, "proposal_id", proposal.id), links)

    async def _add_effects(self, tenant: UUID, effects: Sequence[Effect], links: "_Links") -> None:
        if not effects:
            return
        ids = {one.id for one in effects}
        undos = {one.last_undo for one in effects if one.last_undo is not None}
        streams = await self._engine.log.read_streams(tenant, [*{one.stream for one in effects}, *undos])
        for recorded in (one for events in streams.values() for one in events):
            event = recorded.event
            undone = isinstance(event, e.EffectUndone) and event.effect in ids
            if undone or recorded.event_id in ids or recorded.version == 1 or isinstance(event, e.UndoRequested):
                links.add([recorded])
        await self._add_sessions(tenant, effects, links)

    async def _add_sessions(self, tenant: UUID, effects: Sequence[Effect], links: "_Links") -> None:
        """Of what the closer did: the session, and what the judge said."""
        acted = [links.found[one.id] for one in effects if one.acted == "closer" and one.id in links.found]
        runs = {run for one in acted if (run := getattr(one.event, "session", None)) is not None}
        causes = {one.envelope.correlation for one in acted}
        for recorded in (await self._engine.log.read_streams(tenant, runs) if runs else {}).values():
            links.add(one for one in recorded if one.version == 1 or one.envelope.correlation in causes)

    async def _effects(
        self, tenant: UUID, column: Literal["effect_id", "proposal_id", "stream"], one: UUID
    ) -> list[Effect]:
        async with tenant_read_models(self._engine.doors, tenant) as connection:
            cursor = await connection.execute(
                f"select {EFFECT_COLUMNS} from effects e where e.tenant = %s and e.{column} = %s "
                "order by e.position limit 100",
                (tenant, one),
            )
            return [Effect(*row) for row in await cursor.fetchall()]

    async def _told(
        self,
        tenant: UUID,
        links: "_Links",
        *,
        about: UUID,
        kind: Literal["memory", "proposal", "effect"],
        proposals: Sequence[UUID],
        more: int = 0,
    ) -> Chain:
        names = await self._engine.directory.names(tenant, {one.envelope.actor.id for one in links.found.values()})
        ordered = sorted(links.found.values(), key=lambda one: (one.recorded_at, one.happened_at))
        return Chain(
            about=about,
            kind=kind,
            proposal_id=proposals[0] if len(proposals) == 1 else None,
            proposals=tuple(proposals),
            more=more,
            links=tuple(_link(one, links.refs, names) for one in ordered),
        )


class _Links:
    """Events of a chain, each once, and the questions of passes that they are about."""

    def __init__(self, recorded: Iterable[RecordedEvent] = ()) -> None:
        self.found: dict[UUID, RecordedEvent] = {}
        self.refs: set[str] = set()
        self.add(recorded)

    def add(self, recorded: Iterable[RecordedEvent]) -> None:
        self.found |= {one.event_id: one for one in recorded}


def _leads_here(recorded: RecordedEvent, proposal: UUID) -> bool:
    if isinstance(recorded.event, e.SessionCloserJudged):
        return recorded.event.proposal_id == proposal
    return recorded.name in (
        "pass.requested",
        "pass.started",
        "pass.candidates_selected",
        "session.opened",
        "extraction.recorded",
    )


def _link(recorded: RecordedEvent, refs: Set[str], names: Mapping[UUID, str]) -> ChainLink:
    event = recorded.event
    detail: dict[str, Any] = {}
    if isinstance(event, e.PassCandidatesSelected):
        chosen = [item.model_dump(mode="json") for item in event.items if item.ref in refs]
        detail = {"items": len(event.items), "item": chosen[0] if len(chosen) == 1 else chosen or None}
    elif event is not None:
        detail = event.model_dump(mode="json", exclude_none=True)
    actor = recorded.envelope.actor
    name = names.get(actor.id)
    return ChainLink(
        position=recorded.position,
        event=recorded.name,
        event_id=recorded.event_id,
        recorded_at=recorded.recorded_at,
        actor=actor.kind if name is None else f"{actor.kind}:{name}",
        cause=recorded.envelope.cause,
        policy=recorded.envelope.policy,
        judge=recorded.envelope.judge,
        says=_in_words(event),
        detail=detail,
    )


def _in_words(event: e.Event | None) -> str:
    match event:
        case e.MemoryRemembered():
            return "the memory was remembered"
        case e.PassRequested():
            return f"a pass was requested by {event.trigger}"
        case e.PassStarted():
            return f"it started with the judge {event.judge}, for pairs from a cosine of {event.floor:g} on"
        case e.PassCandidatesSelected():
            count = len(event.items)
            return "it selected this question" if count == 1 else f"it selected {count} questions, this among them"
        case e.VerdictRecorded():
            return f"the judge said {event.action} with probability {event.probability:.3f}"
        case e.SessionOpened():
            return "a session began"
        case e.SessionCloserJudged():
            return f"after it the judge said that the commitment is done with probability {event.probability:.3f}"
        case e.CommitmentOpened():
            return "the commitment was made"
        case e.CommitmentTransitioned():
            by = f" by the policy {event.policy}" if event.policy else ""
            return f"the commitment is {event.status}{by}"
        case e.ExtractionRecorded():
            return f"its text was read for facts by {event.extractor} ({event.model or 'no model'})"
        case e.FactAsserted():
            return "the fact came to be"
        case e.ProposalStaged():
            mark = ", under unselected thresholds" if event.unselected else ""
            return f"that cleared the threshold {event.threshold:g} and was proposed{mark}"
        case e.Staged():
            return f"a {event.KIND} proposal was made: {event.action}"
        case e.ProposalAccepted():
            return "a reviewer accepted"
        case e.ProposalRejected():
            return "a reviewer rejected"
        case e.ProposalWithdrawn():
            return f"it was withdrawn: {event.reason}"
        case e.MemorySuperseded():
            return "the older memory was superseded"
        case e.MemoryEdgeAdded():
            return f"the memory was noted to be one that {event.edge} another"
        case e.UndoRequested():
            return "an undo was asked for"
        case e.EffectUndone():
            return "the effect holds again" if event.again else "the effect was undone"
        case e.MemoryArchived():
            return "the memory was archived"
        case None:
            return "an event of a newer version"
        case _:
            return event.NAME
