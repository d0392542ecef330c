"""A proposal in words, alike on a terminal and on the page."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...domain.display import one_line

if TYPE_CHECKING:
    from ..operating.views import ProposalView

ACTION_SAYS: Mapping[str, str] = {
    "archive": "put the memory away",
    "supersede": "let the newer memory replace the older",
    "conflict": "note that the two contradict each other",
    "supersedes": "let the newer memory replace the older",
    "updates": "let the newer memory replace the older, as an update",
    "extends": "note that the newer memory adds to the older",
    "derives": "note that the newer memory follows from the older",
    "assert": "put the fact on record",
    "resolve": "take the commitment for done",
    "settle": "say which of the two holds",
}
_ASKED = {"pair": "as one of a pair", "single": "on its own"}
"""How a pass put the memory to the judge, by the rule that selected it."""
_DETAILS = {"floor": "proposed from"}
"""Names of details that say nothing to who reads them here first."""
_OTHERS = {"consolidation": ("newer", "older"), "dependency": ("memory", "rests on")}
"""What the memory of a proposal and the related one are to each other, by kind."""


def sides(view: "ProposalView") -> tuple[str, str]:
    """What the memory of a proposal and the related one are to each other."""
    if view.kind == "retention" and view.related_id is not None:
        return ("older", "newer")
    return _OTHERS.get(view.kind, ("memory", "other"))


def made_by(view: "ProposalView") -> str:
    """Who or what proposes it, and by what."""
    details = ", ".join(
        f"{_DETAILS.get(name, name.replace('_', ' '))} {said}" for name, said in view.details.items()
    )
    if view.judge is None:
        return f"made by rule, {details}"
    model = f" ({one_line(view.model)})" if view.model else ""
    where = f", {_ASKED.get(view.rule, view.rule)}, pass {view.pass_id}" if view.rule is not None else ""
    return f"judged by {one_line(view.judge)}{model}{where}" + (f", {details}" if details else "")


def action_of(key: str) -> str:
    """The action a key of a probability map stands for (behaviour.md 1.16)."""
    return key.partition("_")[0]
