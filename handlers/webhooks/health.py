"""How each webhook does: since when it fails, what came of the last attempt, and counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from ...streams.database import Connection
from .lanes import Lane
from .views import Attempt


async def record_health(connection: Connection, lane: Lane, attempt: Attempt, succeeded: bool) -> datetime | None:
    """Count an attempt; gives since when the webhook fails, or None."""
    cursor = await connection.execute(
        "insert into lethelog.webhook_health as h (tenant, webhook, failing_since, last_success, last_attempt, "
        "last_outcome, delivered, failed_attempts) values (%(tenant)s, %(webhook)s, %(failed_at)s, "
        "%(succeeded_at)s, %(at)s, %(outcome)s, %(delivered)s, %(failed)s) "
        "on conflict (tenant, webhook) do update set failing_since = "
        "case when excluded.failing_since is null then null "
        "else coalesce(h.failing_since, excluded.failing_since) end, "
        "last_success = coalesce(excluded.last_success, h.last_success), last_attempt = excluded.last_attempt, "
        "last_outcome = excluded.last_outcome, delivered = h.delivered + excluded.delivered, "
        "failed_attempts = h.failed_attempts + excluded.failed_attempts returning failing_since",
        {
            "tenant": lane.tenant,
            "webhook": lane.webhook,
            "failed_at": None if succeeded else attempt.at,
            "succeeded_at": attempt.at if succeeded else None,
            "at": attempt.at,
            "outcome": attempt.outcome,
            "delivered": int(succeeded),
            "failed": int(not succeeded),
        },
    )
    [failing_since] = await cursor.fetchone() or (None,)
    return failing_since


@dataclass(frozen=True, slots=True)
class Health:
    """How a webhook does."""

    failing_since: datetime | None = None
    last_success: datetime | None = None
    last_attempt: datetime | None = None
    last_outcome: str | None = None
    delivered: int = 0
    failed_attempts: int = 0
    pending: int = 0


async def healths(connection: Connection, tenant: UUID, webhooks: Sequence[UUID]) -> dict[UUID, Health]:
    """How these webhooks do; absent where nothing was ever queued."""
    cursor = await connection.execute(
        "select w.id, h.failing_since, h.last_success, h.last_attempt, h.last_outcome, coalesce(h.delivered, 0), "
        "coalesce(h.failed_attempts, 0), (select count(*) from lethelog.webhook_deliveries d "
        "where d.tenant = %(tenant)s and d.webhook = w.id and d.status = 'pending') "
        "from unnest(%(webhooks)s::uuid[]) w(id) left join lethelog.webhook_health h "
        "on h.tenant = %(tenant)s and h.webhook = w.id",
        {"tenant": tenant, "webhooks": list(webhooks)},
    )
    return {row[0]: Health(*row[1:]) for row in await cursor.fetchall()}


async def forget_failures(connection: Connection, lane: Lane) -> None:
    """Begin to count the days of failure anew."""
    await connection.execute(
        "update lethelog.webhook_health set failing_since = null where tenant = %s and webhook = %s",
        (lane.tenant, lane.webhook),
    )
