"""A wrapped key that does not open makes its own events unreadable, and nothing else; nor is it taken for none."""

import psycopg
import pytest
from lethelog.domain.errors import EventParked, Misconfigured, NotFound
from lethelog.handlers.operating.event_log import EventLog
from lethelog.projections import runner as runner_module
from lethelog.projections.parked import list_parked
from lethelog.projections.parked_retry import ParkedEvents
from lethelog.projections.runner import ProjectionRunner
from lethelog.streams.sealing import UnusableKey

from .test_runner import running, until

FLIP = "set_byte(wrapped, 20, get_byte(wrapped, 20) # 255)"
"""Twice gives what was there before."""
DAMAGES = {
    "data key": f"update lethelog_vault.data_keys set wrapped = {FLIP} where key_id = %(memory)s",
    "tenant key": f"update lethelog_vault.tenant_keys set wrapped = {FLIP} where tenant = %(tenant)s",
}


def runners(world) -> list[ProjectionRunner]:
    engine = world.engine
    return [
        ProjectionRunner(engine.database, engine.log, engine.tail, one, retry_seconds=(0.01,))
        for one in engine.projections
    ]


@pytest.mark.parametrize("damaged", DAMAGES)
async def test_a_damaged_wrapped_key_makes_only_its_own_events_unreadable(world, database_url, damaged):
    bad = await world.remember("a memory whose key is damaged")
    other = await world.another_caller()
    good = (await world.commands.remember(other, {"content": "of another tenant", "topic": "t"})).memory.id
    where = {"memory": bad, "tenant": world.caller.tenant}
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(DAMAGES[damaged], where)
        world.engine.vault.forget()
        async with running(*runners(world)):
            for projection in world.engine.projections:
                await until(world, lambda p: not p.lag, projection.name)
            [seen] = await world.reading.get(other, {"ids": [good]})
            assert seen.content == "of another tenant"
            async with world.engine.database.connection() as asking:
                waiting = await list_parked(asking, name="live_memory")
            assert [(one.stream, one.error) for one in waiting] == [(bad, "UnusableKey")]
        shown = await EventLog(world.engine).page(world.caller, {"stream": bad})
        assert [(one.broken, one.data) for one in shown.events] == [("UnusableKey", None)]
        with pytest.raises(UnusableKey):
            await world.commands.pin(world.caller, {"memory_id": bad})
        connection.execute(DAMAGES[damaged], where)
    live_memory = ParkedEvents(world.engine.database, world.engine.log, world.engine.live_memory)
    assert (await live_memory.retry(lambda *_: None)).applied == 1
    assert (await world.get(bad)).content == "a memory whose key is damaged"


async def test_an_acknowledged_memory_whose_event_is_parked_is_never_called_unknown(world, database_url):
    """Neither by get nor by history, nor in a past that has it; a past before it, and another tenant, know nothing."""
    before = await world.engine.log.head()
    written = await world.commands.remember(world.caller, {"content": "acknowledged", "topic": "t"})
    bad, at = written.memory.id, written.position
    with psycopg.connect(database_url) as connection:
        connection.execute(DAMAGES["data key"], {"memory": bad})
    world.engine.vault.forget()
    async with running(*runners(world)):
        for projection in world.engine.projections:
            await until(world, lambda p: not p.lag, projection.name)
        for name, read in (
            ("live_memory", world.reading.get(world.caller, {"ids": [bad], "after": at})),
            ("live_memory", world.reading.get(world.caller, {"ids": [bad], "known_at": at})),
            ("memory_history", world.reading.history(world.caller, {"memory_id": bad, "after": at})),
        ):
            with pytest.raises(EventParked, match=f"lethelog parked list --read-model {name}") as told:
                await read
            assert (told.value.details["id"], told.value.details["position"]) == (bad, at)
        other = await world.another_caller()
        for caller, asked in ((world.caller, {"known_at": before}), (other, {})):
            with pytest.raises(NotFound, match=f"no memory {bad}"):
                await world.reading.get(caller, {"ids": [bad], **asked})
    with psycopg.connect(database_url) as connection:
        connection.execute(DAMAGES["data key"], {"memory": bad})
    for projection in world.engine.projections:
        await ParkedEvents(world.engine.database, world.engine.log, projection).retry(lambda *_: None)
    [seen] = await world.reading.get(world.caller, {"ids": [bad], "after": at})
    assert seen.content == "acknowledged"


async def test_a_damaged_key_spares_the_other_memories_of_its_tenant_and_a_missing_one_is_a_tombstone(
    world, database_url
):
    bad, gone, good = [await world.remember(text) for text in ("damaged", "destroyed", "whole")]
    with psycopg.connect(database_url) as connection:
        connection.execute(DAMAGES["data key"], {"memory": bad})
        connection.execute("delete from lethelog_vault.data_keys where key_id = %s", (gone,))
    world.engine.vault.forget()
    keys = await world.engine.vault.data_keys(world.caller.tenant, [bad, gone, good])
    assert (set(keys.usable), keys.unusable, keys.get(gone)) == ({good}, {bad}, None)
    with pytest.raises(Misconfigured, match=str(bad)):
        keys.get(bad)
    page = (await EventLog(world.engine).page(world.caller, {"names": ["memory.remembered"]})).events
    assert [(one.stream, one.broken) for one in page] == [(bad, "UnusableKey"), (gone, None), (good, None)]
    assert [one.data and one.data["content"] for one in page] == [None, None, "whole"]


async def test_a_damaged_key_of_a_tenant_holds_up_nobody_however_many_memories_it_has(
    world, database_url, monkeypatch
):
    """It counts as one trouble, and nothing waits for it to go by."""
    monkeypatch.setattr(runner_module, "MOST_PARKED", 2)
    for number in range(4):
        await world.remember(f"memory {number}")
    other = await world.another_caller()
    good = (await world.commands.remember(other, {"content": "of another tenant", "topic": "t"})).memory.id
    with psycopg.connect(database_url) as connection:
        connection.execute(DAMAGES["tenant key"], {"tenant": world.caller.tenant})
    world.engine.vault.forget()
    engine = world.engine
    patient = ProjectionRunner(engine.database, engine.log, engine.tail, engine.live_memory, retry_seconds=(600,))
    async with running(patient):
        progress = await until(world, lambda p: not p.lag)
        assert (progress.standing, progress.parked) == ("parked", 4)
        assert (await world.reading.get(other, {"ids": [good]}))[0].id == good


async def test_whatever_fails_while_a_page_is_read_shows_in_the_tracking_row(world, monkeypatch):
    """The place is exact, what stands before it is applied, and the view goes on once the log can be read."""
    first = await world.remember("before")
    at = await world.engine.log.head() + 1
    second = await world.remember("at the place")
    reading, broken = world.engine.log.read_page, [True]

    async def failing(after, limit, upto=None, **options):
        page = await reading(after, limit, upto, **options)
        if broken and any(one.position == at for one in page):
            raise ValueError("zq-canary-9931")
        return page

    monkeypatch.setattr(world.engine.log, "read_page", failing)
    async with running(runners(world)[0]):
        progress = await until(world, lambda p: p.stalled_at is not None)
        assert (progress.standing, progress.stalled_at) == ("stalled", at)
        assert progress.error == "reading the log: ValueError"
        [seen] = await world.reading.get(world.caller, {"ids": [first]})
        assert seen.id == first
        broken.clear()
        await until(world, lambda p: p.standing == "caught up")
    [seen] = await world.reading.get(world.caller, {"ids": [second]})
    assert seen.id == second
