"""Every past state of every memory is kept beside the present one, and both are written in one transaction."""

from collections import defaultdict
from operator import itemgetter
from uuid import UUID, uuid4

import psycopg
import pytest
from lethelog.domain.events import MemoryPinned
from lethelog.domain.memory import Memory, evolve
from lethelog.projections.live_memory import LiveMemory
from lethelog.projections.runner import ProjectionRunner
from lethelog.streams.folding import fold_states
from lethelog.streams.log import NewEvent, Unit
from lethelog.streams.payloads import Envelope

MOST = 2**62


async def lives(world) -> list[UUID]:
    """Memories that went through every kind of event."""
    first = await world.remember("Deploys go to Hetzner", tags=["ops"])
    second = await world.remember("The office is in Porto", pinned=True)
    for memory_id in (first, second):
        for step in ("pin", "verify", "reaffirm", "archive", "restore"):
            await getattr(world.commands, step)(world.caller, {"memory_id": memory_id})
    await world.commands.pin(world.caller, {"memory_id": first, "pinned": False})
    await world.commands.move(world.caller, {"memory_id": first, "scope": "work", "tags": ["moved"]})
    await world.commands.revise(world.caller, {"memory_id": first, "content": "Deploys go to Fly"})
    await world.commands.refute(world.caller, {"memory_id": second})
    again = await world.remember("The office is in Porto")
    await world.commands.release(world.caller, {"memory_id": again, "reason": "it is"})
    return [first, second, again]


async def states_told(world) -> dict[UUID, list[tuple[Memory, int, int]]]:
    """Every state of every memory as the log tells it: (state, from position, until position)."""
    streams = defaultdict(list)
    for recorded in await world.engine.log.read_page(0, 10_000):
        if recorded.name.startswith("memory."):
            streams[recorded.stream].append(recorded)
    told = {}
    for stream, events in streams.items():
        states = [(state, one.position) for one, state in fold_states(events, evolve)]
        ends = [position for _, position in states[1:]] + [MOST]
        told[stream] = [(state, at, until) for (state, at), until in zip(states, ends, strict=True)]
    return told


SEEN = "version, scope, tags, pinned, verified, archived, refuted, quarantined, successor, held_until, fresh_at"


def as_row(state: Memory) -> tuple:
    said = state._replace(tags=list(state.tags or ()))  # as psycopg reads jsonb
    return tuple(getattr(said, name) for name in SEEN.split(", "))


async def assert_all_states_are_kept(world, database_url: str, *, embedded: bool = True) -> None:
    with psycopg.connect(database_url, options="-c timezone=UTC") as connection:
        rows = connection.execute(
            f"select memory_id, position, until_position, {SEEN} from lethelog_views.memory_past union all "
            f"select memory_id, position, {MOST}, {SEEN} from lethelog_views.live_memory"
        ).fetchall()
        [[differing]] = connection.execute(
            "select count(*) from lethelog_views.memory_past p join lethelog_views.live_memory m "
            "using (tenant, memory_id) where (p.content, p.lexemes, p.embedding::text, p.embedding_model) "
            "is distinct from (m.content, m.lexemes, m.embedding::text, m.embedding_model)"
        ).fetchall()
        [[vectors]] = connection.execute("select count(embedding) from lethelog_views.memory_past").fetchall()
    told = await states_told(world)
    expected = [(one, at, until, *as_row(state)) for one, held in told.items() for state, at, until in held]
    assert sorted(rows, key=itemgetter(1)) == sorted(expected, key=itemgetter(1))
    assert differing == 0
    assert vectors == (sum(len(held) - 1 for held in told.values()) if embedded else 0)


def runner(world) -> ProjectionRunner:
    engine = world.engine
    return ProjectionRunner(engine.database, engine.log, engine.tail, engine.live_memory)


@pytest.mark.parametrize("page", [1, 3, 500])
async def test_every_state_is_kept_however_the_pages_are_cut(world, database_url, page, monkeypatch):
    await lives(world)
    monkeypatch.setattr("lethelog.projections.runner.LARGEST_PAGE", page)
    await runner(world).catch_up(await world.engine.log.head())
    await assert_all_states_are_kept(world, database_url)


async def test_a_page_that_is_applied_twice_changes_nothing(world, database_url):
    await lives(world)
    view = world.engine.live_memory
    page = [one for one in await world.engine.log.read_page(0, 500) if one.name in view.wants]
    prepared = await view.prepare(page)
    for part in (page, page, page[5:9], page):
        ready = prepared if part is page else await view.prepare(part)
        async with world.engine.database.transaction() as connection:
            await view.apply(connection, "lethelog_views", part, ready)
    await assert_all_states_are_kept(world, database_url)


async def test_vectors_that_were_missing_are_filled_in_for_past_states_too(world, database_url, monkeypatch):
    async def none_made(_self, _wanted):
        return {}

    await lives(world)
    with monkeypatch.context() as broken:
        broken.setattr(LiveMemory, "_embed", none_made)
        await runner(world).catch_up(await world.engine.log.head())
    await assert_all_states_are_kept(world, database_url, embedded=False)
    await world.engine.live_memory.fill_vectors(world.engine.database)
    await assert_all_states_are_kept(world, database_url)


async def test_a_memory_whose_key_is_destroyed_leaves_no_past_state_behind(world, database_url):
    first, second, _ = await lives(world)
    await world.catch_up()
    tenant, log = world.caller.tenant, world.engine.log

    def kept(memory_id: UUID) -> tuple[int, int]:
        with psycopg.connect(database_url) as connection:
            [row] = connection.execute(
                "select (select count(*) from lethelog_views.memory_past where memory_id = %(id)s), "
                "(select count(*) from lethelog_views.live_memory where memory_id = %(id)s)",
                {"id": memory_id},
            ).fetchall()
            return row

    assert (kept(first), kept(second)) == ((8, 1), (5, 1))
    with psycopg.connect(database_url) as connection:
        connection.execute("delete from lethelog_vault.data_keys where key_id = %s", (first,))
    world.engine.vault._keys.clear()
    version = len(await log.read_stream(tenant, first)) + 1
    envelope = Envelope(world.caller.actor, cause=uuid4(), correlation=uuid4())
    await log.append(Unit(tenant, first, [NewEvent(first, version, MemoryPinned())], envelope))
    await world.catch_up()
    assert (kept(first), kept(second)) == ((0, 0), (5, 1))
