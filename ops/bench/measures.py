"""Every measure there is, in the order they run and are shown."""

from ...domain.errors import InvalidInput
from . import append, as_of, chain, doors, erasing, latency, page, quotas, sealed, search, starts, views
from .bench import Measure

MEASURES: tuple[Measure, ...] = (
    Measure("append-64", "append, 64 callers at once", append.many_callers),
    Measure("append-one", "append, one caller", append.one_caller),
    Measure("append-pages", "append, pages of 500 events", append.pages),
    Measure("quotas", "append, with quotas and without", quotas.costs),
    Measure("catch-up", "live memory catches up with the log", views.catch_up),
    Measure("rebuild", "live memory is built anew", views.rebuild),
    Measure("as-of", "search of the past", as_of.as_of),
    Measure("latency", "a write becomes readable and reaches a subscriber", latency.seen),
    Measure("doors", "remember and search by fifty clients over REST", doors.doors),
    Measure("starts", "importing, starting an MCP server and calling it", starts.starts),
    Measure("page", "the review page in a browser", page.pages),
    Measure("search", "search in tenants of every size", search.tenants),
    Measure("chain", "what the hash chain costs", chain.chain),
    Measure("seal", "what sealing costs", chain.seal),
    Measure("sealed", "append, read and rebuild with sealing and without", sealed.costs),
    Measure("erasure", "one memory and a person of many, erased and verified", erasing.erasure),
    Measure("erasure-large", "a tenant of 100,000 memories; by name only", erasing.tenant, only_by_name=True),
)


def chosen(names: list[str]) -> tuple[Measure, ...]:
    """The measures of these names; where there are none, all but those run by name only. Raises `InvalidInput`."""
    known = {one.name for one in MEASURES}
    for name in names:
        if name not in known:
            raise InvalidInput("only", f"{name!r} is no measure", f"There are: {', '.join(sorted(known))}")
    return tuple(one for one in MEASURES if (one.name in names if names else not one.only_by_name))
