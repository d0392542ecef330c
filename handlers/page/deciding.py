"""Deciding many at once, and taking back."""

from collections import Counter
from typing import Any, Literal
from uuid import UUID, uuid4

from fastapi import Response

from ...domain.errors import InvalidInput, NotFound, WrongKind
from ..operating.views import BulkPreview, ProposalDetail
from .desk import Visit, go
from .filters import address, narrowed
from .forms import Form
from .queue import PAGE, memories_by_id, memories_of

SHOWN = 25
RESULTS = 100
"""Of a bulk decision, how many results are listed, what was refused first; the counts are of all."""


async def preview(visit: Visit) -> Response:
    """What would be decided: what was chosen, or all that the filter finds. Nothing is, yet."""
    verdict, ids = _verdict(visit.query), _chosen(visit.query)
    if ids:
        chosen = [(await visit.memory.proposal(one)).proposal for one in ids]
        waiting = [one for one in chosen if one.status == "proposed"]
        counted = Counter(one.kind for one in waiting)
        found = BulkPreview(
            total=len(waiting),
            totals=counted,
            proposals=tuple(waiting),
            stale=sum(one.stale for one in waiting),
        )
        return await _preview(visit, verdict, found, {}, passed_over=len(chosen) - len(waiting))
    query = narrowed(visit, visit.query)
    found = await visit.memory.preview_decisions(**query, limit=SHOWN)
    return await _preview(visit, verdict, found, query)


async def decide(visit: Visit) -> Response:
    """Decide what the preview showed, if it is still that many."""
    verdict, ids, form = _verdict(visit.form), _chosen(visit.form), visit.form
    how: dict[str, Any] = {"together": form.get("together") == "yes", "comment": form.get("comment")}
    if ids:
        # A form that is sent twice decides once.
        how |= {"proposal_ids": ids, "key": form.get("key")}
    else:
        expected = form.get("expected", "")
        if not (expected.isascii() and expected.isdigit() and len(expected) < 9):
            raise InvalidInput("expected", "must be the number that the preview found")
        how |= {**narrowed(visit, form), "expected": int(expected)}
    done = await visit.memory.decide_many(verdict, **how)
    items = sorted(done.items, key=lambda item: item.status not in ("refused", "failed"))[:RESULTS]
    return visit.page(
        "decided.html",
        verdict=verdict,
        done=done,
        items=[(item, await _detail(visit, item.proposal_id)) for item in items],
        left_out=len(done.items) - len(items),
    )


async def undo(visit: Visit) -> Response:
    """Take back what accepting a proposal did, or what an earlier undo did."""
    which: dict[str, Any] = {name: visit.form[name] for name in ("proposal_id", "undo_id") if name in visit.form}
    done = await visit.memory.undo(**which, key=visit.form.get("key"))
    again = any(item.again for item in done.items)
    said = f"{done.undone} {'put back' if again else 'taken back'}."
    if done.refused:
        said += f" {done.refused} could not be: later history stands on them."
    visit.tell(said)
    return go(f"/undos/{done.id}")


async def shown_undo(visit: Visit) -> Response:
    """One undo, effect by effect."""
    done = await visit.memory.show_undo(visit.named("undo_id"))
    changed = [item.stream for item in done.items if item.event.startswith("memory.")]
    turned_since = next((item.later_undo for item in done.items if item.later_undo is not None), None)
    return visit.page(
        "undo.html",
        done=done,
        memories=await memories_by_id(visit.memory, changed),
        again=any(item.again for item in done.items),
        turned_since=turned_since,
    )


async def _detail(visit: Visit, proposal_id: UUID) -> ProposalDetail | None:
    try:
        return await visit.memory.proposal(proposal_id)
    except (NotFound, WrongKind):
        return None


async def _preview(
    visit: Visit, verdict: str, found: BulkPreview, query: dict[str, Any], passed_over: int = 0
) -> Response:
    return visit.page(
        "bulk.html",
        verdict=verdict,
        found=found,
        memories=await memories_of(visit.memory, found.proposals),
        by_id=bool(visit.query.all("id")),
        query=query,
        passed_over=passed_over,
        back=address("/", **query),
        key=str(uuid4()),
        at=visit.memory.engine.clock(),
    )


def _chosen(given: Form) -> list[str]:
    """The proposals that were chosen by themselves; none where all that a filter finds are meant.

    Raises `InvalidInput` where some were to be chosen and none was: nothing chosen is not everything.
    """
    ids = given.all("id")
    if len(ids) > PAGE:
        raise InvalidInput("id", f"at most {PAGE} are chosen at once")
    if given.get("which") == "chosen" and not ids:
        raise InvalidInput("id", "choose at least one proposal, by the box before it")
    return ids


def _verdict(given: Form) -> Literal["accept", "reject"]:
    verdict = given.get("verdict")
    if verdict == "accept":
        return "accept"
    if verdict == "reject":
        return "reject"
    raise InvalidInput("verdict", "must be accept or reject")
