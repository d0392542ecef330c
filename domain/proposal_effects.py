"""What accepting a proposal does to the memories it is about, by kind.

behaviour.md 1.14.2, 1.14.5; A14, A17, A18, A27.
"""

from collections.abc import Mapping
from uuid import UUID

from . import events as e
from .errors import Conflict
from .memory import Memory
from .memory_rules import decide_archive, decide_link, decide_supersede
from .proposal import Proposal

Effects = dict[UUID, list[e.Event]]
"""memory -> events of it."""


def retention_effects(proposal: Proposal, memories: Mapping[UUID, Memory]) -> Effects:
    """Archive, or supersede by the newer one; a conflict changes no memory (A27)."""
    judged = memories[proposal.memory_id]
    match proposal.action:
        case "archive":
            return _of({judged.id: decide_archive(judged, proposal=proposal.id)})
        case "supersede":
            assert proposal.related_id is not None
            return _of({judged.id: decide_supersede(judged, memories[proposal.related_id], proposal.id)})
        case _:
            return {}


def edge_effects(proposal: Proposal, memories: Mapping[UUID, Memory]) -> Effects:
    """An edge from the newer memory to the older one; a closing one ends the older (behaviour.md 1.14.2).

    Nothing where the edge is there already (A18). Raises `Conflict` for an event that would be closed (A14), and
    for a successor that is not live.
    """
    assert proposal.related_id is not None and isinstance(proposal.said, e.EdgeStaged)
    newer, older, edge = memories[proposal.memory_id], memories[proposal.related_id], proposal.said.edge
    if edge in ("supersedes", "updates"):
        if older.successor == newer.id and older.edge == edge:
            return {}
        return _of({older.id: decide_supersede(older, newer, proposal.id, edge)})
    return _of({newer.id: decide_link(newer, older, edge, proposal.id)})


def dependency_effects(proposal: Proposal, memories: Mapping[UUID, Memory]) -> Effects:
    """What rested on something that ended is archived."""
    dependent = memories[proposal.memory_id]
    if dependent.archived:
        raise Conflict("the memory is archived already; reject the proposal", memory_id=dependent.id)
    return _of({dependent.id: decide_archive(dependent, proposal=proposal.id)})


def _of(effects: Effects) -> Effects:
    return {memory_id: events for memory_id, events in effects.items() if events}
