"""What waits for reviewers and what was decided lately, counted: for a mail in the morning, and for dashboards.

Counts and ages only, no text: a digest may go where a memory's content may not.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from ...domain.fields import Input, Instant, Position, parse
from ...domain.proposal_events import ProposalKind
from ...projections.generations import tenant_read_models
from ...projections.progress import wait_for
from ..access.caller import Caller
from ..engine import Engine
from ..operating.views import View
from .presenting import COMMITMENT_MOVED

LATELY = timedelta(days=1)


class DigestQuery(Input):
    """What to count."""

    since: Instant | None = None
    """From when on what came and was decided is counted; a day ago by default."""
    kind: ProposalKind | None = None
    after: Position | None = None


class Waiting(View):
    """Open proposals of one kind and action."""

    kind: str
    action: str
    count: int
    stale: int
    """Of these, whose memories moved on: accepting them would be refused."""
    oldest: UUID
    oldest_at: datetime
    """Since when the oldest waits."""


class Handled(View):
    """What became of proposals of one kind and action since then."""

    kind: str
    action: str
    came: int
    """Put into the queue since then, whatever became of them."""
    accepted: int
    rejected: int
    withdrawn: int


class ReviewDigest(View):
    """A tenant's queue at a moment."""

    at: datetime
    since: datetime
    total: int
    """How many wait."""
    stale: int
    """How many of these are stale."""
    oldest_at: datetime | None
    waiting: tuple[Waiting, ...]
    """By kind and action, the longest waiting first."""
    handled: tuple[Handled, ...]


class Digests:
    """The digests of one caller's tenant."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def digest(self, caller: Caller, arguments: Mapping[str, Any]) -> ReviewDigest:
        """What waits now, and what came and was decided since a moment; exact, whatever their number."""
        caller.require("memory:read")
        query = parse(DigestQuery, arguments)
        if query.after:
            for name in ("review_queue", "live_memory", "commitments"):
                await wait_for(self._engine.doors, name, query.after)
        now = self._engine.clock()
        since = query.since or now - LATELY
        values = {"tenant": caller.tenant, "since": since, "kind": query.kind}
        async with tenant_read_models(self._engine.doors, caller.tenant) as connection:
            cursor = await connection.execute(_WAITING, values)
            waiting = [Waiting(**_named(Waiting, row)) for row in await cursor.fetchall()]
            cursor = await connection.execute(_HANDLED, values)
            handled = [Handled(**_named(Handled, row)) for row in await cursor.fetchall()]
        return ReviewDigest(
            at=now,
            since=since,
            total=sum(one.count for one in waiting),
            stale=sum(one.stale for one in waiting),
            oldest_at=min((one.oldest_at for one in waiting), default=None),
            waiting=tuple(waiting),
            handled=tuple(handled),
        )


def _named(view: type[View], row: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(view.model_fields, row, strict=True))


_CHANGED = (
    "not exists (select from live_memory m where m.tenant = q.tenant and m.memory_id = {memory} "
    "and m.state_version = (q.seen ->> {memory}::text)::bigint)"
)
_STALE = (
    f"({_CHANGED.format(memory='q.memory_id')} or q.related_id is not null and q.kind <> 'dependency' "
    f"and {_CHANGED.format(memory='q.related_id')} or {COMMITMENT_MOVED})"
)
"""As `presenting` tells it of each proposal; a dependency review does not rest on what ended."""
_WAITING = (
    f"select kind, action, count(*), count(*) filter (where {_STALE}), "
    "(array_agg(proposal_id order by created_at, proposal_id))[1], min(created_at) from review_queue q "
    "where tenant = %(tenant)s and status = 'proposed' and (%(kind)s::text is null or kind = %(kind)s) "
    "group by 1, 2 order by min(created_at), 1, 2"
)
_HANDLED = (
    "select kind, action, count(*) filter (where created_at >= %(since)s), "
    "count(*) filter (where status = 'applied' and decided_at >= %(since)s), "
    "count(*) filter (where status = 'rejected' and decided_at >= %(since)s), "
    "count(*) filter (where status = 'withdrawn' and decided_at >= %(since)s) from review_queue "
    "where tenant = %(tenant)s and status <> 'dismissed' and (created_at >= %(since)s or decided_at >= %(since)s) "
    "and (%(kind)s::text is null or kind = %(kind)s) group by 1, 2 order by 1, 2"
)
