"""``lethelog parked``: what consumers gave up is listed, tried again and dropped; status and doctor count it."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from lethelog.ops import embedded
from lethelog.ops.cli.serving import broker_settings
from lethelog.ops.local import open_memory
from lethelog.ops.settings import Settings
from lethelog.streams.consumers import Consumers
from lethelog.streams.handling import Park
from lethelog.streams.subscriptions import EventSubscription

from .conftest import Cli

TEXT = "the deploy password is hunter2"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    data = tmp_path_factory.mktemp("parked")
    with embedded.join(data):
        yield data
    embedded.discard(data)


async def consume(folder: Path, parks: bool, count: int) -> list[int]:
    """A consumer of memories that parks them, or does not, until it had so many."""
    seen: list[int] = []

    async def handle(event) -> None:
        seen.append(event.position)
        if parks:
            raise Park("cannot_digest")

    settings = Settings.load(data_dir=folder)
    async with await open_memory(settings, ("relay",)) as memory:
        broker = await asyncio.to_thread(broker_settings, settings)
        consumers = Consumers(broker, memory.engine.log.decode)
        await consumers.open([EventSubscription("listener", ("memory.remembered",), handle)])
        async with asyncio.timeout(20):
            while len(seen) < count or any(s.open or s.retrying for s in await consumers.states()):
                await asyncio.sleep(0.05)
        await consumers.close()
    return seen


def test_parked_messages_are_listed_tried_again_and_dropped_and_status_and_doctor_count_them(folder: Path):
    cli = Cli(folder).made()
    assert cli.json("parked", "list") == {"parked": [], "next": None}
    for text in (TEXT, "a second one", "a third one"):
        cli.remember(text)
    first, second, third = asyncio.run(consume(folder, True, 3))
    page = cli.json("parked", "list", "--limit", "2")
    shown = page["parked"]
    assert [(one["where"], one["consumer"], one["position"], one["error"]) for one in shown] == [
        ("broker", "listener", first, "cannot_digest"),
        ("broker", "listener", second, "cannot_digest"),
    ]
    assert page["next"] == shown[1]["id"]
    [last] = cli.json("parked", "list", "--after", page["next"])["parked"]
    assert last["position"] == third
    assert cli.json("status")["parked"] == {"listener": 3}
    [check] = [one for one in cli.json("doctor")["checks"] if one["name"] == "parked"]
    assert check["level"] == "warning" and "3 of listener" in check["says"] and "parked retry" in check["fix"]
    readable = cli("parked", "list").out + cli("status").out + cli("doctor").out
    assert "3 of listener" in readable and TEXT not in readable

    dropped = cli.json("parked", "drop", last["id"], "--reason", "obsolete", "--ticket", "12")["dropped"]
    assert (dropped["position"], dropped["reason"], dropped["ticket"]) == (third, "obsolete", 12)
    [record] = cli.json("parked", "list", "--dropped")["parked"]
    assert (record["position"], record["reason"], record["ticket"]) == (third, "obsolete", 12)
    assert cli.json("parked", "retry", "--sequence", shown[0]["sequence"]) == {"sent": 1, "applied": 0, "left": []}
    assert cli.json("parked", "retry", "--consumer", "listener") == {"sent": 1, "applied": 0, "left": []}
    assert asyncio.run(consume(folder, False, 2)) == [first, second]
    assert cli.json("parked", "list") == {"parked": [], "next": None}
    assert cli.json("status")["parked"] == {}


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("drop", "seventeen", "--reason", "other"), "id"),
        (("list", "--after", "x"), "cursor"),
        (("list", "--after", "live_memory-1", "--dropped"), "cursor"),
        (("list", "--consumer", "a.>"), "consumer"),
        (("retry", "--consumer", "*"), "consumer"),
        (("list", "--read-model", "elsewhere"), "read_model"),
        (("retry", "--read-model", "live_memory", "--consumer", "listener"), "read_model"),
        (("retry", "--read-model", "live_memory", "--sequence", "x"), "sequence"),
        (("drop", "live_memory-1", "--reason", "other"), "id"),
    ],
)
def test_bad_input_names_its_field(folder: Path, arguments: tuple[str, ...], field: str):
    ran = Cli(folder)("parked", *arguments, "--json")
    assert (ran.status, ran.error["field"]) == (2, field)


def test_words_are_no_reason_to_drop(folder: Path):
    ran = Cli(folder)("parked", "drop", "message-1", "--reason", "because Ada said so", "--json")
    assert (ran.status, ran.error["code"]) == (2, "invalid_input") and "obsolete" in ran.error["message"]


def test_nothing_parked_under_a_name_is_not_found(folder: Path):
    unknown = str(uuid4())
    for arguments in (
        ("retry", "--consumer", "nobody"),
        ("retry", "--sequence", unknown),
        ("retry", "--read-model", "live_memory", "--sequence", unknown),
        ("drop", "message-999", "--reason", "other"),
    ):
        ran = Cli(folder)("parked", *arguments, "--json")
        assert (ran.status, ran.error["code"]) == (2, "not_found")
        if arguments[0] == "retry":
            assert all(value in ran.error["message"] for value in arguments[2::2])


def test_events_that_a_read_model_parked_are_listed_diagnosed_and_tried_again(folder: Path):
    cli = Cli(folder).made()
    one, other = cli.remember(TEXT), cli.remember("a second one")
    cli.json("list")
    # As if the read model had not been able to take what is on record of two memories.
    [[first], [second]] = _sql(
        folder,
        "insert into lethelog_views.parked (name, schema, tenant, stream, position, event, error, attempts) "
        "select 'live_memory', 'lethelog_views', tenant, stream, position, name, 'ValueError', 4 "
        "from lethelog.events where stream = any(%s) order by position returning position",
        [one, other],
    )
    _sql(folder, "delete from lethelog_views.live_memory where memory_id = any(%s) returning 1", [one, other])
    status = cli.json("status")
    [seen] = [view for view in status["read_models"] if view["name"] == "live_memory"]
    assert (seen["standing"], seen["parked"], seen["lag"]) == ("parked", 2, 0)
    doctor = cli("doctor", "--json")
    [check] = [one for one in json.loads(doctor.out)["checks"] if one["name"] == "live_memory"]
    assert doctor.status == 1 and check["level"] == "fault" and "--read-model live_memory" in check["fix"]
    page = cli.json("parked", "list", "--limit", "1")
    assert [(row["where"], row["position"], row["sequence"]) for row in page["parked"]] == [
        ("live_memory", first, one)
    ]
    rest = cli.json("parked", "list", "--after", page["next"])["parked"]
    assert [row["position"] for row in rest] == [second]
    shown = cli("parked", "list", "--read-model", "live_memory").out + cli("status").out
    assert "parked: 2" in shown and TEXT not in shown
    assert cli.json("parked", "retry", "--read-model", "live_memory", "--sequence", other)["applied"] == 1
    # On the broker nothing of this one is parked, which is no error.
    assert cli.json("parked", "retry", "--sequence", one) == {"sent": 0, "applied": 1, "left": []}
    assert cli.json("parked", "retry") == {"sent": 0, "applied": 0, "left": []}
    assert cli.json("show", one)["content"] == TEXT
    assert cli("doctor", "--json").status == 0


def test_what_a_read_model_parked_is_applied_and_told_while_the_broker_is_down(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    cli = Cli(folder).made()
    one = cli.remember(TEXT)
    cli.json("list")
    _sql(
        folder,
        "insert into lethelog_views.parked (name, schema, tenant, stream, position, event, error, attempts) "
        "select 'live_memory', 'lethelog_views', tenant, stream, position, name, 'ValueError', 4 "
        "from lethelog.events where stream = any(%s) order by position returning position",
        [one],
    )
    monkeypatch.setenv("LETHELOG_BROKER_URL", "nats://127.0.0.1:1")
    ran = cli("parked", "retry", "--json")
    assert ran.status == 1
    told = json.loads(ran.out)
    assert (told["applied"], told["left"]) == (1, [{"id": "broker", "reason": "unavailable"}])


def test_a_rebuild_stops_at_an_event_it_cannot_apply_and_with_park_it_parks_it(folder: Path):
    cli = Cli(folder).made()
    bad, good = cli.remember(TEXT), cli.remember("a second one")
    cli.json("list")
    [[at]] = _damage(folder, bad, "'x' || body")
    stopped = cli("rebuild", "live_memory", "--json")
    assert stopped.status == 1 and f"at position {at}" in stopped.error["message"]
    assert "--park" in stopped.error["message"] and TEXT not in stopped.err
    assert cli.json("list")["total"] == 2  # the present one is as it was
    told = cli("rebuild", "live_memory", "--park")
    assert told.status == 0 and f"from position {at}" in told.err
    [rebuilt] = cli.json("rebuild", "live_memory", "--park")["rebuilt"]
    assert (rebuilt["parked"], rebuilt["newly_parked"]) == (1, [])
    assert [one["id"] for one in cli.json("list")["memories"]] == [good]
    assert cli("show", bad, "--json").error["code"] == "event_parked"
    _damage(folder, bad, "substr(body, 2)")
    assert cli.json("parked", "retry", "--read-model", "live_memory")["applied"] == 1
    assert cli.json("show", bad)["content"] == TEXT


def _damage(folder: Path, memory: str, body: str) -> list:
    """The log refuses to be changed, so a test goes round that."""
    url = psycopg.conninfo.make_conninfo(embedded.superuser_url(folder), dbname="lethelog")
    with psycopg.connect(url) as connection:
        connection.execute("set session_replication_role = replica")
        changed = f"update lethelog.events set body = {body} where stream = %s returning position"
        return connection.execute(changed.encode(), (memory,)).fetchall()


def _sql(folder: Path, statement: str, ids: list[str]) -> list:
    url = psycopg.conninfo.make_conninfo(embedded.superuser_url(folder), dbname="lethelog")
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(statement.encode(), (ids,)).fetchall()
