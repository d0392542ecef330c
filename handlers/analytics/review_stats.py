"""How reviewing goes: waits, acceptance, reversals, disagreement, cost.

Told from the read models of proposals and effects, which hold nothing but what the log says, and from the streams
of the days' budgets. Exact, by a fixed number of queries; what is listed is bounded.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, get_args
from uuid import UUID

from ...domain.errors import InvalidInput
from ...domain.events import TenantBudgetSettled
from ...domain.fields import Input, Instant, Position, parse
from ...domain.intervals import wilson
from ...projections.generations import tenant_read_models
from ...projections.progress import wait_for
from ...streams.database import Connection
from ..access.caller import NAMED_KINDS, Caller
from ..engine import Engine
from ..tenancy.tenants import budget_stream
from .views import Aspect, Disagreement, Group, Reversals, Reviewer, ReviewStats, Share, Spending

LATELY = timedelta(days=30)
MOST_DAYS = 366
"""How far back figures reach: the budget of every day is a stream that is read."""
LISTED = 50
VIEWS = ("review_queue", "effects", "live_memory")


class StatsQuery(Input):
    """What to count."""

    since: Instant | None = None
    """Proposals put into the queue since then; 30 days ago by default, a year at most."""
    after: Position | None = None


class ReviewFigures:
    """Figures of one caller's tenant."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def stats(self, caller: Caller, arguments: Mapping[str, Any]) -> ReviewStats:
        """Waits, acceptance, reversals, disagreement and cost. Reviewers only for who may review himself."""
        caller.require("memory:read")
        query = parse(StatsQuery, arguments)
        # What is on record has the record's time.
        now = await self._engine.log.now()
        since = query.since or now - LATELY
        if now - since > timedelta(days=MOST_DAYS):
            raise InvalidInput("since", f"reaches back more than {MOST_DAYS} days", "Give a later moment")
        for name in VIEWS if query.after else ():
            await wait_for(self._engine.doors, name, query.after or 0)
        values = {"tenant": caller.tenant, "since": since}
        async with tenant_read_models(self._engine.doors, caller.tenant) as connection:
            [(open_ones, oldest)] = await _rows(connection, _OPEN, values)
            groups = await _rows(connection, _GROUPS, values)
            reversals = await _rows(connection, _REVERSALS, values)
            [(questions, disputed)] = await _rows(connection, _DISAGREEMENT, values)
            decided = await _rows(connection, _REVIEWERS, {**values, "limit": LISTED})
            accepted = dict(await _rows(connection, _ACCEPTED, values))
        listed = [group for aspect in get_args(Aspect) for group in _of(groups, aspect)[:LISTED]]
        return ReviewStats(
            at=now,
            since=since,
            open=open_ones,
            oldest_open_at=oldest,
            oldest_open_seconds=None if oldest is None else max(0.0, (now - oldest).total_seconds()),
            groups=tuple(_group(row) for row in listed),
            groups_left_out=len(groups) - len(listed),
            reversals=tuple(Reversals(kind=kind, undone=share(undone, of)) for kind, undone, of in reversals),
            disagreement=Disagreement(questions=share(disputed, questions)),
            reviewers=await self._reviewers(caller, decided),
            spending=await self._spending(caller.tenant, since, now, accepted),
            spending_since=_midnight(since),
        )

    async def _reviewers(self, caller: Caller, rows: Iterable[tuple[Any, ...]]) -> tuple[Reviewer, ...] | None:
        if "memory:review" not in caller.permissions:
            return None
        found = list(rows)
        names = await self._engine.directory.names(
            caller.tenant, {one[1] for one in found if one[0] in NAMED_KINDS}
        )
        return tuple(
            Reviewer(reviewer=kind if actor not in names else f"{kind}:{names[actor]}", accepted=yes, rejected=no)
            for kind, actor, yes, no in found
        )

    async def _spending(
        self, tenant: UUID, since: datetime, now: datetime, accepted: Mapping[str, int]
    ) -> tuple[Spending, ...]:
        spent: dict[tuple[str, str], list[TenantBudgetSettled]] = {}
        first = _midnight(since)
        days = [first + timedelta(days=number) for number in range((now - first).days + 1)]
        budgets = [budget_stream(tenant, day.date()) for day in days]
        used = await self._engine.log.stream_names(tenant, budgets)
        # A day at a time: one may hold as many calls as the tenant's cap allows.
        for budget in (one for one in budgets if one in used):
            for recorded in await self._engine.log.read_stream(tenant, budget):
                if isinstance(recorded.event, TenantBudgetSettled):
                    key = (recorded.envelope.judge or "none", recorded.event.operation)
                    spent.setdefault(key, []).append(recorded.event)
        return tuple(
            _spent(judge, operation, calls, accepted.get(judge, 0))
            for (judge, operation), calls in sorted(spent.items())
        )


def share(hits: int, of: int) -> Share:
    """A share with its interval."""
    low, high = wilson(hits, of)
    return Share(hits=hits, of=of, share=hits / of if of else None, low=low, high=high)


def _spent(judge: str, operation: str, calls: list[TenantBudgetSettled], accepted: int) -> Spending:
    priced = [one.cost_usd for one in calls if one.cost_usd is not None]
    cost = sum(priced) if priced else None
    return Spending(
        judge=judge,
        operation=operation,
        calls=len(calls),
        input_tokens=sum(one.input_tokens for one in calls),
        output_tokens=sum(one.output_tokens for one in calls),
        cost_usd=cost,
        unpriced=len(calls) - len(priced),
        accepted=accepted,
        usd_per_accepted=None if cost is None or not accepted else cost / accepted,
    )


def _of(rows: Iterable[tuple[Any, ...]], aspect: str) -> list[tuple[Any, ...]]:
    return [row for row in rows if row[0] == aspect]


def _group(row: tuple[Any, ...]) -> Group:
    by, value, staged, still_open, accepted, rejected, withdrawn, p50, p90 = row
    return Group(
        by=by,
        value=value,
        staged=staged,
        open=still_open,
        accepted=accepted,
        rejected=rejected,
        withdrawn=withdrawn,
        acceptance=share(accepted, accepted + rejected),
        wait_p50_seconds=p50,
        wait_p90_seconds=p90,
    )


def _midnight(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


async def _rows(connection: Connection, query: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    cursor = await connection.execute(query, values)
    return await cursor.fetchall()


_STAGED = "q.tenant = %(tenant)s and q.status <> 'dismissed' and q.created_at >= %(since)s"
_DECIDED = "q.status in ('applied', 'rejected')"
_WAITED = "extract(epoch from q.decided_at - q.created_at)"
_OPEN = (
    "select count(*), min(created_at) from review_queue where tenant = %(tenant)s and status = 'proposed' "
    "and %(since)s::timestamptz is not null"
)
_GROUPS = f"""
    select a.by, a.value, count(*), count(*) filter (where q.status = 'proposed'),
        count(*) filter (where q.status = 'applied'), count(*) filter (where q.status = 'rejected'),
        count(*) filter (where q.status = 'withdrawn'),
        percentile_cont(0.5) within group (order by {_WAITED}) filter (where {_DECIDED}),
        percentile_cont(0.9) within group (order by {_WAITED}) filter (where {_DECIDED})
    from review_queue q left join live_memory m on m.tenant = q.tenant and m.memory_id = q.memory_id
        cross join lateral (values ('kind', q.kind), ('action', q.action),
            ('memory_type', coalesce(m.memory_type, 'none')), ('judge', coalesce(q.judge, 'none')),
            ('threshold', coalesce(round(q.threshold::numeric, 4)::float8::text, 'none'))) as a(by, value)
    where {_STAGED} group by 1, 2 order by 1, 3 desc, 2
"""
_REVERSALS = """
    select coalesce(q.kind, e.acted), count(*) filter (where e.undone), count(*)
    from effects e left join review_queue q on q.tenant = e.tenant and q.proposal_id = e.proposal_id
    where e.tenant = %(tenant)s and e.recorded_at >= %(since)s group by 1 order by 1
"""
_DISAGREEMENT = f"""
    select count(*), count(*) filter (where answers > 1) from (
        select count(distinct q.status) as answers from review_queue q where {_STAGED} and {_DECIDED}
        group by q.kind, q.action, q.memory_id, q.related_id having count(distinct q.decided_by) > 1
    ) asked
"""
_REVIEWERS = f"""
    select q.decided_by_kind, q.decided_by, count(*) filter (where q.status = 'applied'),
        count(*) filter (where q.status = 'rejected')
    from review_queue q where {_STAGED} and {_DECIDED}
    group by 1, 2 order by count(*) desc, 1, 2 limit %(limit)s
"""
_ACCEPTED = f"""
    select q.judge, count(*) from review_queue q where {_STAGED} and q.status = 'applied' and q.judge is not null
    group by 1
"""
