"""Every table, column and stream there is stands in the registry of places, or is exempted with a reason."""

import re
from collections.abc import Iterable

from lethelog.handlers.erasure.places import OUT_OF_REACH, PLACES, places
from lethelog.projections import links, neighbours
from lethelog.streams.topology import Topology

from .broker_fixtures import connected

REGISTERED = {
    "lethelog.events": "sealed events",
    "lethelog.claims": "claims",
    "lethelog.commands": "command keys",
    "lethelog.directory": "directory",
    "lethelog_vault.data_keys": "data keys",
    "lethelog_vault.tenant_keys": "tenant key",
    "lethelog_views.live_memory": "live_memory",
    "lethelog_views.memory_past": "memory_past",
    "lethelog_views.memory_history": "memory_history",
    "lethelog_views.review_queue": "review_queue",
    "lethelog_views.facts": "facts",
    "lethelog_views.candidate_neighbours": "neighbour cache",
    "lethelog_views.candidate_groups": "neighbour cache",
    "lethelog_views.candidate_marks": "neighbour cache",
}
EXEMPT = {
    "lethelog.head": "a position and a time",
    "lethelog.roots": "hashes of ciphertext",
    "lethelog.relay": "a position",
    "lethelog.erasing": "a number",
    "lethelog.schema_version": "a number",
    "lethelog.usage": "how many live memories there are and how many writes a minute held",
    "lethelog.webhook_deliveries": "opaque ids, names of events, words of ours, numbers and times",
    "lethelog.webhook_health": "opaque ids, words of ours, numbers and times",
    "lethelog_views.effects": "opaque ids, times, and names of events",
    "lethelog_views.memory_links": "opaque ids, names of scopes, times, and judges and their calls",
    "lethelog_views.memory_links_told": "a position",
    "lethelog_views.commitments": "statuses, dates and opaque ids",
    "lethelog_views.contradictions": "opaque ids, times and words of ours",
    "lethelog_views.sessions": "times, names of scopes and opaque ids",
    "lethelog_views.tracking": "positions, and names of events and of classes of errors",
    "lethelog_views.parked": "opaque ids, and names of events and of classes of errors",
}


WORD = "a word of ours, or one of a fixed alphabet"
IDS = "opaque ids and numbers"
HASH = "a hash of ciphertext"
KEPT_COLUMNS = {
    "lethelog.events.name": WORD,
    "lethelog.events.hash": HASH,
    "lethelog.claims.kind": WORD,
    "lethelog.commands.digest": "keyed digest of the client's own key, which stays on purpose",
    "lethelog.directory.kind": WORD,
    "lethelog.head.chain": HASH,
    "lethelog.roots.chain": HASH,
    "lethelog.relay.name": WORD,
    "lethelog.relay.stream_created": "when a stream of the broker was made",
    "lethelog.schema_version.version_num": "a number",
    "lethelog.webhook_deliveries.event": WORD,
    "lethelog.webhook_deliveries.status": WORD,
    "lethelog.webhook_deliveries.body": "no field of an event that has room for text: `webhooks.payload`",
    "lethelog.webhook_deliveries.attempts": "times, numbers and words of ours",
    "lethelog.webhook_health.last_outcome": WORD,
    "lethelog_vault.tenant_keys.master": "which master key wraps it",
    "lethelog_views.candidate_marks.made_by": "versions and weights",
    "lethelog_views.commitments.status": WORD,
    "lethelog_views.sessions.scope": "the name of a scope, in clear by design",
    "lethelog_views.commitments.recurrence": "a rule of a fixed alphabet",
    "lethelog_views.effects.name": WORD,
    "lethelog_views.effects.acted": WORD,
    "lethelog_views.effects.actor_kind": WORD,
    "lethelog_views.effects.judge": "identity of a judge",
    "lethelog_views.effects.model": "name of a model",
    "lethelog_views.memory_history.name": WORD,
    "lethelog_views.memory_history.actor_kind": WORD,
    "lethelog_views.memory_history.judge": "identity of a judge",
    "lethelog_views.memory_links.kind": WORD,
    "lethelog_views.memory_links.about": "an opaque id, or the name of a scope",
    "lethelog_views.memory_links.detail": "id of a call, and identity of a judge; an opaque id",
    "lethelog_views.parked.name": WORD,
    "lethelog_views.parked.schema": WORD,
    "lethelog_views.parked.event": WORD,
    "lethelog_views.parked.error": "class of an error",
    **{
        f"lethelog_views.review_queue.{column}": WORD
        for column in ("kind", "status", "action", "rule", "ref", "decided_by_kind", "withdrawn_because")
    },
    "lethelog_views.review_queue.probabilities": "words of ours and numbers",
    "lethelog_views.review_queue.details": "ids, numbers, times and words of ours: what `Staged.details` gives",
    "lethelog_views.review_queue.judge": "identity of a judge",
    "lethelog_views.review_queue.model": "name of a model",
    "lethelog_views.review_queue.seen": IDS,
    **{f"lethelog_views.contradictions.{column}": WORD for column in ("found_by", "outcome", "decided_by_kind")},
    "lethelog_views.tracking.name": WORD,
    "lethelog_views.tracking.version": "version of a read model",
    "lethelog_views.tracking.error": "class of an error",
    "lethelog_views.tracking.schema": WORD,
    "lethelog_views.tracking.state": WORD,
}
"""Columns that may hold text, bytes or JSON and keep what they hold, and why they may."""
CLEANED_COLUMNS = {
    "lethelog.events.body": "sealed events",
    "lethelog.claims.digest": "claims",
    "lethelog.commands.hash": "command keys",
    "lethelog.directory.digest": "directory",
    "lethelog.directory.sealed": "directory",
    "lethelog_vault.data_keys.wrapped": "data keys",
    "lethelog_vault.tenant_keys.wrapped": "tenant key",
    "lethelog_views.memory_history.detail": "memory_history",
    "lethelog_views.review_queue.quote": "review_queue",
    "lethelog_views.review_queue.comment": "review_queue",
    "lethelog_views.review_queue.texts": "review_queue",
}
"""Those that an erasure empties or makes unreadable, by the place they belong to."""
CLEANED_ROWS = {
    "lethelog_views.live_memory",
    "lethelog_views.memory_past",
    "lethelog_views.facts",
    "lethelog_views.candidate_neighbours",
    "lethelog_views.candidate_groups",
}
"""Tables whose rows go as a whole."""
STREAMS = {"events": "broker", "tasks": "broker", "retries": "broker", "parked": "broker"}
_NO_TEXT = (
    "^(uuid|bigint|integer|smallint|boolean|double precision|real|date|timestamp.*|interval"
    r"|uuid\[\]|integer\[\]|double precision\[\])$"
)


async def columns(world) -> set[str]:
    """Every column that may hold something somebody wrote: all but ids, numbers and times."""
    await neighbours.ensure(world.engine.database)
    await links.ensure(world.engine.database)
    async with world.engine.database.connection() as connection:
        cursor = await connection.execute(
            "select n.nspname || '.' || c.relname || '.' || a.attname, format_type(a.atttypid, null) "
            "from pg_class c join pg_namespace n on n.oid = c.relnamespace "
            "join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped "
            "where c.relkind in ('r', 'm', 'p') and n.nspname like 'lethelog%'"
        )
        return {name for name, kind in await cursor.fetchall() if not re.match(_NO_TEXT, kind)}


def table_of(column: str) -> str:
    return column.rpartition(".")[0]


def same(found: Iterable[str], registered: Iterable[str]) -> None:
    found, registered = set(found), set(registered)
    assert found - registered == set(), (
        "neither registered nor exempted: say how an erasure reaches it, or why not"
    )
    assert registered - found == set(), "registered, and not there"


async def test_every_table_is_registered_or_exempted_with_a_reason(world):
    await neighbours.ensure(world.engine.database)
    await links.ensure(world.engine.database)
    async with world.engine.database.connection() as connection:
        cursor = await connection.execute(
            "select n.nspname || '.' || c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace "
            "where c.relkind in ('r', 'm', 'p') and n.nspname like 'lethelog%'"
        )
        found = {name for (name,) in await cursor.fetchall()}
    same(found, REGISTERED.keys() | EXEMPT.keys())


async def test_every_column_of_text_bytes_or_json_is_registered_or_exempted_with_a_reason(world):
    found = await columns(world)
    same(
        (column for column in found if table_of(column) not in CLEANED_ROWS),
        CLEANED_COLUMNS.keys() | KEPT_COLUMNS.keys(),
    )
    async with world.engine.database.connection() as connection:
        await connection.execute("create table lethelog_views.added (tenant uuid, note text, seen jsonb, at date)")
    assert await columns(world) - found == {"lethelog_views.added.note", "lethelog_views.added.seen"}


def test_what_is_said_of_columns_is_what_the_read_models_declare(world):
    texts = [text for projection in world.engine.projections for text in projection.clear_texts]
    whole = {f"lethelog_views.{text.table}" for text in texts if text.becomes is None}
    emptied = {
        f"lethelog_views.{text.table}.{column}"
        for text in texts
        for column in re.findall(r"\b(\w+) = ", text.becomes or "")
    }
    assert whole == {one for one in CLEANED_ROWS if "candidate" not in one}
    assert emptied == {one for one in CLEANED_COLUMNS if one.startswith("lethelog_views.")}


async def test_every_stream_of_the_broker_is_out_of_reach_by_name_or_registered(broker):
    await Topology(broker).ensure()
    client = await connected(broker)
    try:
        there: set[str] = set()
        while page := await client.jetstream().streams_info(offset=len(there)):
            there |= {one.config.name for one in page}
    finally:
        await client.close()
    mine = {name for name in there if name.lower().startswith(broker.prefix.lower())}
    same(mine, (broker.stream(kind) for kind in STREAMS))
    assert set(STREAMS.values()) <= {one.name for one in OUT_OF_REACH}


def test_every_registered_place_is_looked_at(world):
    assert [place.name for place in PLACES] == list(places(world.engine))
    assert set(REGISTERED.values()) | set(CLEANED_COLUMNS.values()) <= {place.name for place in PLACES}
