"""What the queue is narrowed by, as it stands in an address."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, get_args
from urllib.parse import urlencode

from ...domain.display import moment
from ...domain.errors import InvalidInput
from ...domain.proposal_events import ProposalAction, ProposalKind
from .desk import Visit
from .forms import Form

KINDS: tuple[str, ...] = get_args(ProposalKind)
ACTIONS: tuple[str, ...] = get_args(ProposalAction)
STATUSES = ("proposed", "applied", "rejected", "withdrawn", "all")
AGES: Mapping[str, str] = {"1": "a day or more", "7": "a week or more", "30": "30 days or more"}
_PLAIN = ("kind", "action", "judge", "memory_id", "source", "created_after", "created_before")


def narrowed(visit: Visit, given: Form) -> dict[str, Any]:
    """The filter, as the memory takes it, but for the status.

    An age becomes an instant at once, so that the next page and a bulk decision are about the same ones.
    """
    query: dict[str, Any] = {name: given[name].strip() for name in _PLAIN if name in given}
    age = given.get("age")
    if age is not None:
        if age not in AGES:
            raise InvalidInput("age", f"must be one of {', '.join(AGES)}")
        if "created_before" not in query:
            query["created_before"] = moment(visit.memory.engine.clock() - timedelta(days=int(age)))
    return query


def status_of(given: Form) -> str | None:
    """Which status is asked for: open ones, unless another is; None for any."""
    status = given.get("status", "proposed")
    return None if status == "all" else status


def address(path: str, **query: Any) -> str:
    """An address with what is not empty of these."""
    said = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(said)}" if said else path
