"""One proposal: both memories, what differs, how sure the judge was, why it is here, and the decision."""

import asyncio
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from fastapi import Response

from ...domain.display import shown
from ...domain.errors import Conflict, InvalidInput, LethelogError
from ..http.problems import STATUS
from ..operating.views import ProposalDetail, ProposalView
from .charts import WIDTH
from .desk import Visit, go, words_of_error
from .queue import counted_around, memories_of, told_upto
from .word_diff import word_diff

_LINKS_SHOWN = 200


async def proposal(visit: Visit) -> Response:
    """Its page."""
    return await _page(visit)


async def accept(visit: Visit) -> Response:
    """Agree to it."""
    return await _decide(visit, accepted=True)


async def reject(visit: Visit) -> Response:
    """Decline it."""
    return await _decide(visit, accepted=False)


async def _decide(visit: Visit, *, accepted: bool) -> Response:
    one, comment = visit.named("proposal_id"), visit.form.get("comment")
    try:
        if accepted:
            holds = visit.form.get("holds")
            if visit.form.get("asked") == "holds" and holds is None:
                raise InvalidInput("holds", "say which of the two holds, or that both stay")
            chosen = None if holds == "both" else holds
            decided = await visit.memory.accept(one, comment=comment, holds=chosen)
        else:
            decided = await visit.memory.reject(one, comment=comment)
    except (Conflict, InvalidInput) as error:
        return await _refused(visit, error)
    said = "Accepted." if accepted else "Rejected."
    if decided.withdrawn:
        said += f" {len(decided.withdrawn)} other proposals about the same were withdrawn."
    if visit.replaces == f"p-{decided.proposal.id}":
        return await _row(visit, decided.proposal, said)
    visit.tell(said)
    return go(f"/proposals/{decided.proposal.id}")


async def _refused(visit: Visit, error: LethelogError) -> Response:
    """The same place again, with the reason why nothing was done."""
    if visit.replaces.startswith("p-"):
        detail = await visit.memory.proposal(visit.named("proposal_id"))
        return await _row(visit, detail.proposal, error.message, code=error.code)
    return await _page(visit, error)


async def _row(visit: Visit, view: ProposalView, said: str, code: str = "") -> Response:
    """Its line in the queue."""
    memories = await memories_of(visit.memory, [view])
    return visit.page(
        "row.html",
        view=view,
        memories=memories,
        said=said,
        code=code,
        at=visit.memory.engine.clock(),
        undoable=view.status == "applied" and await undoable(visit, view),
        counted=await counted_around(visit),
    )


async def _page(visit: Visit, error: LethelogError | None = None) -> Response:
    head = await told_upto(visit.memory)
    detail = await visit.memory.proposal(visit.named("proposal_id"))
    view = detail.proposal
    chain = await visit.memory.explain(view.id)
    return visit.page(
        "proposal.html",
        200 if error is None else STATUS.get(error.code, 500),
        head=head,
        view=view,
        detail=detail,
        error=None if error is None else words_of_error(error),
        given=visit.form,
        # Long texts take a while, in which others are answered.
        diff=await asyncio.to_thread(_diff, detail),
        chances=_chances(view),
        chain=chain,
        links=chain.links[:_LINKS_SHOWN],
        undoable=view.status == "applied" and visit.may("memory:review") and await undoable(visit, view),
        following=await _following(visit, view),
        at=visit.memory.engine.clock(),
    )


async def undoable(visit: Visit, view: ProposalView) -> int:
    """How many effects of its acceptance would be taken back."""
    return (await visit.memory.preview_undo(proposal_id=view.id, limit=1)).possible


def _diff(detail: ProposalDetail) -> Any:
    """From the older text to the newer; None where there are not two to compare."""
    if detail.memory is None or detail.related is None or detail.proposal.kind == "dependency":
        return None
    older, newer = sorted((detail.memory, detail.related), key=lambda one: (one.occurred_at, one.position))
    if detail.proposal.kind == "consolidation":
        older, newer = detail.related, detail.memory
    return {"older": older, "newer": newer, "pieces": word_diff(shown(older.content), shown(newer.content))}


def _chances(view: ProposalView) -> list[Mapping[str, Any]]:
    """The probability map, the likeliest first; the threshold stands with the action that is proposed."""
    return [
        {
            "key": key,
            "chance": chance,
            "width": round(max(0.0, min(1.0, chance)) * WIDTH, 1),
            "threshold": view.threshold if key.partition("_")[0] == view.action else None,
        }
        for key, chance in sorted(view.probabilities.items(), key=lambda item: (-item[1], item[0]))
    ]


async def _following(visit: Visit, view: ProposalView) -> UUID | None:
    """The open proposal behind it."""
    page = await visit.memory.proposals(status="proposed", created_after=view.created_at, limit=100)
    ids = [one.id for one in page.proposals]
    if view.id in ids:
        ids = ids[ids.index(view.id) + 1 :]
    return next((one for one in ids if one != view.id), None)
