"""How forgetting goes: the queue's age, what reviewers say, growth, lag, erasures."""

import json
from collections.abc import Mapping
from datetime import timedelta

from fastapi import Response

from ...domain.display import moment
from ...domain.errors import InvalidInput, NotFound
from ..analytics.views import ReviewStats
from ..http.health import progress
from .charts import LINE_HEIGHT, WIDTH, Bar, bars, line
from .desk import Desk, View, Visit
from .rendering import HEADERS

SPANS: Mapping[str, str] = {"7": "7 days", "30": "30 days", "90": "90 days", "365": "a year"}
ERASURES = 10


def dashboard(desk: Desk) -> View:
    """The page of figures."""

    async def shown(visit: Visit) -> Response:
        days = visit.query.get("days", "30")
        if days not in SPANS:
            raise InvalidInput("days", f"must be one of {', '.join(SPANS)}")
        since = moment(visit.memory.engine.clock() - timedelta(days=int(days)))
        stats = await visit.memory.review_stats(since=since)
        digest = await visit.memory.review_digest()
        policy = await visit.memory.policy_report()
        erasures = await visit.memory.erasures(limit=ERASURES) if visit.may("memory:erase") else None
        return visit.page(
            "dashboard.html",
            days=days,
            spans=SPANS,
            stats=stats,
            digest=digest,
            policy=policy,
            waiting=bars({f"{one.kind}: {one.action}": [("waiting", one.count)] for one in digest.waiting}),
            outcomes=_outcomes(stats),
            growth=line({0: 0.0, **{day: stock.items for day, stock in policy.growth.items()}}),
            progress=await progress(desk.serving),
            erasures=erasures,
            width=WIDTH,
            height=LINE_HEIGHT,
        )

    return shown


async def certificate(visit: Visit) -> Response:
    """The signed certificate of an erasure, as a file."""
    found = await visit.memory.erasure(visit.named("erasure_id"))
    if found.certificate is None:
        raise NotFound(
            "there is no certificate yet; it is written once every place was looked at", erasure_id=found.id
        )
    return Response(
        json.dumps(found.certificate, indent=2),
        media_type="application/json",
        headers={
            **HEADERS,
            "Cache-Control": "no-store",
            "Content-Disposition": f'attachment; filename="certificate-{found.id}.json"',
        },
    )


def _outcomes(stats: ReviewStats) -> list[Bar]:
    named: dict[str, list[tuple[str, float]]] = {}
    for one in stats.groups:
        if one.by == "kind":
            named[one.value] = [
                (word, float(getattr(one, word))) for word in ("accepted", "rejected", "withdrawn", "open")
            ]
    return bars(named)
