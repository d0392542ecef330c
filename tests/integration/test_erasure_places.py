"""Every table there is stands in the registry of places, or is exempted with a reason."""

from lethelog.handlers.erasure.places import PLACES, places

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
    "lethelog.write_counts": "how many writes a minute held",
    "lethelog_views.memory_links": "opaque ids, names of scopes, times, and judges and their calls",
    "lethelog_views.memory_links_position": "a position",
    "lethelog_views.tracking": "positions, and names of events and of classes of errors",
    "lethelog_views.parked": "opaque ids, and names of events and of classes of errors",
}


async def test_every_table_is_registered_or_exempted_with_a_reason(world):
    from lethelog.projections import links, neighbours

    await neighbours.ensure(world.engine.database)
    await links.ensure(world.engine.database)
    async with world.engine.database.connection() as connection:
        cursor = await connection.execute(
            "select n.nspname || '.' || c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace "
            "where c.relkind in ('r', 'm', 'p') and n.nspname like 'lethelog%'"
        )
        found = {name for (name,) in await cursor.fetchall()}
    assert found == REGISTERED.keys() | EXEMPT.keys()


def test_every_registered_place_is_looked_at(world):
    assert [place.name for place in PLACES] == list(places(world.engine))
    assert set(REGISTERED.values()) <= {place.name for place in PLACES}
