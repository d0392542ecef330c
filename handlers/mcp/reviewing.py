"""The tool that reviews: one for the list and both decisions, as behaviour.md 1.14.1 has it."""

from typing import TYPE_CHECKING

from ...domain.errors import InvalidInput
from .answers import Answer, lean, lines, present
from .tool import Call

if TYPE_CHECKING:
    from ..operating.views import ProposalView

_OF_A_LIST = ("status", "kind", "memory_id", "limit", "cursor")
_OF_A_DECISION = ("proposal_id", "comment", "holds")


async def review_proposals(call: Call) -> Answer:
    """List what is proposed, or decide one proposal."""
    action = call.given.pop("action")
    wrong = _OF_A_DECISION if action == "list" else _OF_A_LIST
    for field in wrong:
        if field in call.given:
            raise InvalidInput(field, f"does not go with the action {action}", "Leave it out")
    return await (_listed(call) if action == "list" else _decided(call, action))


async def _listed(call: Call) -> Answer:
    page = await call.memory.proposals(**call.given)
    data = present(
        proposals=[lean(one) for one in page.proposals],
        total=page.total,
        totals=page.totals,
        next_cursor=page.next_cursor,
    )
    head = f"{len(page.proposals)} of {page.total} proposals"
    more = None if page.next_cursor is None else f"the next page begins at cursor {page.next_cursor}"
    return Answer(data, lines(head, map(_line, page.proposals), more))


async def _decided(call: Call, action: str) -> Answer:
    if "proposal_id" not in call.given:
        raise InvalidInput("proposal_id", f"is required to {action}")
    if action == "reject" and "holds" in call.given:
        raise InvalidInput("holds", "does not go with the action reject", "Leave it out")
    # Imported here: it loads the engine, and by now that is loaded.
    from ..reviewing.deciding import Decide

    session = await call.written_in(Decide, **call.given)
    decide = call.memory.accept if action == "accept" else call.memory.reject
    done = await decide(call.given.pop("proposal_id"), **call.given, **session)
    data = {**lean(done), "proposal": lean(done.proposal), "position": done.position}
    changed = "".join(f"; changed {one}" for one in done.changed)
    return Answer(data, f"{_line(done.proposal)}{changed}")


def _line(one: "ProposalView") -> str:
    related = "" if one.related_id is None else f" with {one.related_id}"
    sure = "" if one.probability is None else f", {one.probability:.2f}"
    stale = ", stale" if one.stale and one.status == "proposed" else ""
    undone = "" if one.undo_id is None else f", taken back by undo {one.undo_id}"
    return f"{one.id} [{one.kind}, {one.status}{stale}{undone}] {one.action} {one.memory_id}{related}{sure}"
