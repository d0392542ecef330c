"""The table of deliveries: the queue that messages are sent from, and afterwards the record of how that went.

What is queued is there once by its id, made from webhook and event. A process takes a delivery for a while, sends
it and records what came of it; one that is killed in between leaves it to be sent again under the same id.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid5

from psycopg.types.json import Jsonb

from ...streams.database import Connection, Database
from ..engine import Engine
from .health import record_health
from .lanes import Lane
from .views import Attempt, DeliveryStatus, DeliveryView

ATTEMPTS_SHOWN = 20
CLEARED_AT_ONCE = 1_000
_COLUMNS = "id, webhook, event, position, status, queued_at, next_attempt, finished_at, attempts"


@dataclass(frozen=True, slots=True)
class Message:
    """What is to be sent to one webhook about one event."""

    id: UUID
    event: str
    position: int
    body: str


@dataclass(frozen=True, slots=True)
class Taken:
    """A delivery that this process sends now."""

    lane: Lane
    id: UUID
    body: str
    failures: int
    until: datetime


def delivery_id(webhook: UUID, event_id: UUID) -> UUID:
    """The id of the delivery of an event to a webhook, the same whenever it is queued."""
    return uuid5(webhook, event_id.hex)


async def queue(connection: Connection, lane: Lane, messages: Sequence[Message], at: datetime) -> int:
    """Queue messages that are not in the table yet; gives how many that were."""
    return await _insert(connection, lane, messages, at, "do nothing")


async def queue_again(connection: Connection, lane: Lane, messages: Sequence[Message], at: datetime) -> int:
    """Queue messages whether they were sent before or not; only what waits or is in hand stays as it is."""
    return await _insert(
        connection,
        lane,
        messages,
        at,
        "(tenant, id) do update set status = 'pending', queued_at = excluded.queued_at, failures = 0, "
        "next_attempt = excluded.next_attempt, taken_until = null, finished_at = null where d.status <> 'pending'",
    )


async def _insert(
    connection: Connection, lane: Lane, messages: Sequence[Message], at: datetime, on_conflict: str
) -> int:
    cursor = await connection.execute(
        "insert into lethelog.webhook_deliveries as d (tenant, webhook, id, event, position, body, queued_at, "
        "next_attempt) select %s, %s, x.id, x.event, x.position, x.body, %s, %s "
        "from unnest(%s::uuid[], %s::text[], %s::bigint[], %s::text[]) x(id, event, position, body) "
        f"on conflict {on_conflict}",
        (
            lane.tenant,
            lane.webhook,
            at,
            at,
            [one.id for one in messages],
            [one.event for one in messages],
            [one.position for one in messages],
            [one.body for one in messages],
        ),
    )
    return cursor.rowcount


async def requeue(connection: Connection, tenant: UUID, delivery: UUID, at: datetime) -> None:
    """Send one delivery again, now: also one that waits for its next attempt."""
    await connection.execute(
        "update lethelog.webhook_deliveries set status = 'pending', queued_at = %s, next_attempt = %s, "
        "failures = 0, finished_at = null where tenant = %s and id = %s",
        (at, at, tenant, delivery),
    )


async def find(connection: Connection, tenant: UUID, delivery: UUID) -> DeliveryView | None:
    """One delivery."""
    cursor = await connection.execute(
        f"select {_COLUMNS} from lethelog.webhook_deliveries where tenant = %s and id = %s", (tenant, delivery)
    )
    row = await cursor.fetchone()
    return None if row is None else _view(row)


async def page(
    connection: Connection, lane: Lane, status: DeliveryStatus | None, after: UUID | None, limit: int
) -> list[DeliveryView]:
    """Deliveries of a webhook, newest events first, behind one of them."""
    cursor = await connection.execute(
        f"select {_COLUMNS} from lethelog.webhook_deliveries "
        "where tenant = %(tenant)s and webhook = %(webhook)s "
        "and (%(status)s::text is null or status = %(status)s) "
        "and (%(after)s::uuid is null or (position, id) < (select b.position, b.id "
        "from lethelog.webhook_deliveries b where b.tenant = %(tenant)s and b.id = %(after)s)) "
        "order by position desc, id desc limit %(limit)s",
        {"tenant": lane.tenant, "webhook": lane.webhook, "status": status, "after": after, "limit": limit},
    )
    return [_view(row) for row in await cursor.fetchall()]


def _view(row: Sequence[Any]) -> DeliveryView:
    identity, webhook, event, position, status, queued_at, next_attempt, finished_at, attempts = row
    return DeliveryView(
        id=identity,
        webhook_id=webhook,
        event=event,
        position=position,
        status=status,
        queued_at=queued_at,
        next_attempt=next_attempt,
        finished_at=finished_at,
        attempts=tuple(Attempt.model_validate(one) for one in attempts),
    )


async def delete_all(connection: Connection, tenant: UUID) -> None:
    """Delete the deliveries of a tenant that is erased, and how its webhooks did.

    What a worker had in hand at that moment may still be written; `Queue.clear` takes that out.
    """
    for table in ("webhook_deliveries", "webhook_health"):
        await connection.execute(f"delete from lethelog.{table} where tenant = %s", (tenant,))


class Queue:
    """The worker's side: what is due in all tenants, one delivery at a time."""

    def __init__(self, engine: Engine, lease: timedelta) -> None:
        """``lease`` is how long a process has a delivery in hand before another may take it."""
        self._database: Database = engine.database
        self._clock = engine.clock
        self._lease = lease

    async def lanes(self, limit: int) -> list[Lane]:
        """Webhooks for which something is due, the longest due first."""
        async with self._database.connection() as connection:
            cursor = await connection.execute(
                "select tenant, webhook from lethelog.webhook_deliveries where status = 'pending' "
                "and next_attempt <= %(now)s and (taken_until is null or taken_until <= %(now)s) "
                "group by 1, 2 order by min(next_attempt) limit %(limit)s",
                {"now": self._clock(), "limit": limit},
            )
            return [Lane(*row) for row in await cursor.fetchall()]

    async def take(self, lane: Lane) -> Taken | None:
        """The delivery of a webhook that is longest due, for this process alone; None where none is."""
        now = self._clock()
        async with self._database.connection() as connection:
            cursor = await connection.execute(
                "update lethelog.webhook_deliveries d set taken_until = %(until)s from ("
                "select t.id from lethelog.webhook_deliveries t where t.tenant = %(tenant)s "
                "and t.webhook = %(webhook)s and t.status = 'pending' and t.next_attempt <= %(now)s "
                "and (t.taken_until is null or t.taken_until <= %(now)s) "
                "order by t.next_attempt limit 1 for update skip locked) x "
                "where d.tenant = %(tenant)s and d.id = x.id returning d.id, d.body, d.failures, d.taken_until",
                {"tenant": lane.tenant, "webhook": lane.webhook, "now": now, "until": now + self._lease},
            )
            row = await cursor.fetchone()
        return None if row is None else Taken(lane, *row)

    async def record(self, taken: Taken, attempt: Attempt, next_attempt: datetime | None) -> datetime | None:
        """What came of an attempt; without a next one the delivery is over. Gives since when the webhook fails.

        Nothing is changed of a delivery that was taken over or queued again meanwhile.
        """
        succeeded = attempt.outcome.startswith("2")
        status = "delivered" if succeeded else "failed" if next_attempt is None else "pending"
        async with self._database.transaction() as connection:
            await connection.execute(
                "update lethelog.webhook_deliveries set status = %(status)s, next_attempt = %(next)s, "
                "taken_until = null, failures = failures + %(failed)s, finished_at = %(finished)s, "
                "attempts = (case when jsonb_array_length(attempts) >= %(most)s then attempts - 0 "
                "else attempts end) || %(attempt)s where tenant = %(tenant)s and id = %(id)s "
                "and taken_until = %(until)s and status = 'pending'",
                {
                    "status": status,
                    "next": next_attempt,
                    "failed": 0 if succeeded else 1,
                    "finished": None if status == "pending" else attempt.at,
                    "most": ATTEMPTS_SHOWN,
                    "attempt": Jsonb([attempt.model_dump(mode="json")]),
                    "tenant": taken.lane.tenant,
                    "id": taken.id,
                    "until": taken.until,
                },
            )
            return await record_health(connection, taken.lane, attempt, succeeded)

    async def drop(self, lane: Lane) -> int:
        """End what waits for a webhook that is disabled or removed; gives how many that were."""
        async with self._database.connection() as connection:
            cursor = await connection.execute(
                "update lethelog.webhook_deliveries set status = 'dropped', next_attempt = null, "
                "taken_until = null, finished_at = %s where tenant = %s and webhook = %s and status = 'pending'",
                (self._clock(), lane.tenant, lane.webhook),
            )
            return cursor.rowcount

    async def clear(self, before: datetime) -> int:
        """Delete what was finished before a moment, and what was written of tenants after they were erased; a
        bounded number of rows.

        The health of a webhook goes when it is removed and nothing of it is left.
        """
        async with self._database.connection() as connection:
            cursor = await connection.execute(
                "delete from lethelog.webhook_deliveries d using (select tenant, id from ("
                "(select tenant, id from lethelog.webhook_deliveries "
                "where status <> 'pending' and finished_at < %(before)s limit %(limit)s) union all "
                "(select x.tenant, x.id from lethelog_vault.tenant_keys k "
                "join lethelog.webhook_deliveries x on x.tenant = k.tenant where k.wrapped = '' limit %(limit)s)"
                ") o) o where d.tenant = o.tenant and d.id = o.id",
                {"before": before, "limit": CLEARED_AT_ONCE},
            )
            await connection.execute(
                "delete from lethelog.webhook_health h where not exists (select from lethelog.claims c "
                "where c.tenant = h.tenant and c.kind = 'webhook' and c.holder = h.webhook) "
                "and not exists (select from lethelog.webhook_deliveries d "
                "where d.tenant = h.tenant and d.webhook = h.webhook)"
            )
            return cursor.rowcount
