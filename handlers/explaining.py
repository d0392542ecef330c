"""The causal chain: from the pass's rule over the verdict and the reviewer to the effect (design.md 3)."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from ..domain import events as e
from ..domain.fields import Id, Input, Position, parse
from ..domain.forgetting_pass import verdict_id
from ..projections.progress import wait_for
from ..streams.payloads import RecordedEvent
from .access.caller import Caller
from .engine import Engine
from .operating.views import Chain, ChainLink
from .reviewing.reviewing import Reviewing


class ChainQuery(Input):
    """Whose chain to walk."""

    proposal_id: Id
    after: Position | None = None


class Explaining:
    """Walks from a proposal back to its beginning and forward to its effects, all from the log."""

    def __init__(self, engine: Engine, reviewing: Reviewing) -> None:
        self._engine = engine
        self._reviewing = reviewing

    async def chain(self, caller: Caller, arguments: Mapping[str, Any]) -> Chain:
        """The chain of one proposal. Raises `NotFound` or `WrongKind`."""
        caller.require("memory:read")
        query = parse(ChainQuery, arguments)
        if query.after:
            await wait_for(self._engine.doors, "review_queue", query.after)
        proposal = await self._reviewing.load(caller.tenant, query.proposal_id)
        own = await self._engine.log.read_stream(caller.tenant, proposal.id)
        ref = proposal.said.ref if isinstance(proposal.said, e.Judgment) else ""
        verdict = verdict_id(proposal.source, ref)
        about = [one for one in (proposal.memory_id, proposal.related_id) if one is not None]
        streams = await self._engine.log.read_streams(caller.tenant, [proposal.source, verdict, *about])
        links = [one for one in streams.get(proposal.source, []) if _leads_here(one)]
        links += streams.get(verdict, [])
        links += own
        causes = {recorded.envelope.correlation for recorded in own[1:]}
        for memory_id in about:
            links += [
                recorded
                for recorded in streams.get(memory_id, [])
                if recorded.version == 1 or recorded.envelope.correlation in causes
            ]
        links.sort(key=lambda recorded: (recorded.recorded_at, recorded.happened_at))
        names = await self._engine.directory.names(caller.tenant, {one.envelope.actor.id for one in links})
        return Chain(proposal_id=proposal.id, links=tuple(_link(one, ref, names) for one in links))


def _leads_here(recorded: RecordedEvent) -> bool:
    return recorded.name in ("pass.requested", "pass.started", "pass.candidates_selected")


def _link(recorded: RecordedEvent, ref: str, names: Mapping[UUID, str]) -> ChainLink:
    event = recorded.event
    detail: dict[str, Any] = {}
    if isinstance(event, e.PassCandidatesSelected):
        chosen = next((item for item in event.items if item.ref == ref), None)
        detail = {"items": len(event.items), "item": chosen.model_dump(mode="json") if chosen else None}
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
        says=_in_words(event, ref),
        detail=detail,
    )


def _in_words(event: e.Event | None, ref: str) -> str:
    match event:
        case e.MemoryRemembered():
            return "the memory was remembered"
        case e.PassRequested():
            return f"a pass was requested by {event.trigger}"
        case e.PassStarted():
            return f"it started with the judge {event.judge}, floor {event.floor:g}"
        case e.PassCandidatesSelected():
            return f"it selected {len(event.items)} questions; this is {ref}"
        case e.VerdictRecorded():
            return f"the judge said {event.action} with probability {event.probability:.3f}"
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
        case e.MemoryArchived():
            return "the memory was archived"
        case None:
            return "an event of a newer version"
        case _:
            return event.NAME
