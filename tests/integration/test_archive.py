"""Moving a tenant out and in: what was there is there, as it was then, and nothing comes twice or back (F08, F49)."""

import asyncio
import contextlib
import gzip
import hashlib
import json
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from lethelog.domain.errors import AccessDenied, Erased, InvalidInput, QuotaExceeded, Unavailable
from lethelog.domain.fields import IMPORT_CONTENT_LIMIT
from lethelog.handlers.archive import importing, records
from lethelog.handlers.archive.planning import Planner
from lethelog.handlers.archive.records import Exports
from lethelog.handlers.erasure.erasures import Erasures
from lethelog.handlers.tenancy.policies import Policies
from lethelog.streams.follow import follow
from lethelog.streams.pages import Selection
from lethelog.streams.relay import Relay

from .archives import body_of, bring_in, destroy_key, export, lines_of


async def seen(world, memories) -> dict[UUID, dict]:
    """What reads say of memories, but for what belongs to one log only."""
    await world.catch_up()
    listed = (await world.reading.list(world.caller, {"status": "all", "limit": 100})).memories
    return {one.id: one.model_dump(exclude={"position", "as_of"}) for one in listed}


async def told(world, memory_id: UUID) -> list[dict]:
    history = await world.reading.history(world.caller, {"memory_id": memory_id})
    return [without_names(entry.model_dump(exclude={"position"}, mode="json")) for entry in history.entries]


def without_names(entry: dict) -> dict:
    """Opaque ids of names are another installation's own."""
    for field in ("project", "project_before", "user", "agent", "run", "session", "subject", "approver"):
        entry["detail"].pop(field, None)
    entry["names"] = sorted(entry["names"].values())
    return entry


async def test_f49_what_is_moved_out_and_in_and_out_again_is_the_same_file_but_for_its_header(
    lived_world, elsewhere, made, archive, tmp_path
):
    result = await bring_in(elsewhere, archive)
    assert result.items == () and result.count("imported") == sum(
        found["imported"] for found in result.counts.values()
    )
    second = await export(elsewhere, tmp_path / "second.jsonl")
    assert body_of(archive) == body_of(second)
    assert lines_of(archive)[0]["archive"] != lines_of(second)[0]["archive"]
    for text in ("Deploys go to Heroku", "ada", "Ünïcode ✓", "grace", "we stopped"):
        assert text in archive.read_text(), "an archive is read without our keys"
    assert "4711 is" not in archive.read_text() and "Her salary" not in archive.read_text()

    assert await seen(lived_world, made) == await seen(elsewhere, made)
    for name in set(made) - {"open", "accepted", "rejected", "erased"}:
        assert await told(lived_world, made[name]) == await told(elsewhere, made[name]), name
    queues = []
    for one in (lived_world, elsewhere):
        page = await one.reviewing.list(one.caller, {})
        queues.append([p.model_dump(exclude={"position"}, mode="json") for p in page.proposals])
    for queue in queues:
        for card in queue:
            card.pop("memory", None)
            card.pop("related", None)
    assert queues[0] == queues[1] and len(queues[0]) == 4
    with pytest.raises(Erased):
        await elsewhere.get(made["erased"])


async def test_as_of_an_instant_answers_as_where_it_happened(lived_world, elsewhere, made, archive):
    log = await lived_world.engine.log.read_page(0, 1_000)
    await bring_in(elsewhere, archive)
    for place in (lived_world, elsewhere):
        await place.catch_up()
    for one in log[2::5]:
        for query in ({"status": "all", "limit": 100}, {"limit": 100, "valid_at": elsewhere.clock.now}):
            pages = []
            for place in (lived_world, elsewhere):
                page = await place.reading.list(place.caller, {**query, "known_at": one.recorded_at})
                pages.append([m.model_dump(exclude={"position", "as_of"}) for m in page.memories])
            assert pages[0] == pages[1], f"as of position {one.position}"
    then = log[20].recorded_at
    for place in (lived_world, elsewhere):
        found = await place.reading.search(place.caller, {"query": "deploys", "known_at": then})
        assert made["second"] in [hit.memory.id for hit in found.hits]
    histories = [
        [
            entry.event
            for entry in (
                await place.reading.history(
                    place.caller, {"memory_id": made["first"], "known_at": log[3].recorded_at}
                )
            ).entries
        ]
        for place in (lived_world, elsewhere)
    ]
    assert histories[0] == histories[1] and len(histories[0]) == 1


async def test_twice_is_once_and_what_was_added_since_goes_on(lived_world, elsewhere, archive, tmp_path):
    world = lived_world
    await bring_in(elsewhere, archive)
    head = await elsewhere.engine.log.head()
    again = await bring_in(elsewhere, archive)
    assert again.count("imported", "continued", "refused", "erased", "duplicate") == 0
    assert again.count("present") > 20 and await elsewhere.engine.log.head() == head

    added = await world.remember("Something new")
    await world.commands.archive(world.caller, {"memory_id": added})
    known = await world.search("moon cheese")
    await world.commands.pin(world.caller, {"memory_id": known[0]})
    later = await bring_in(elsewhere, await export(world, tmp_path / "later.jsonl"))
    assert later.counts["memory"] | {"present": 0} == {"imported": 1, "continued": 1, "present": 0}
    assert (await elsewhere.get(added)).status == "archived" and (await elsewhere.get(known[0])).pinned


async def test_what_lives_again_where_it_comes_from_comes_in_only_below_the_cap(world, elsewhere, tmp_path):
    ended = await world.remember("lives again")
    await world.commands.archive(world.caller, {"memory_id": ended})
    await bring_in(elsewhere, await export(world, tmp_path / "ended.jsonl"))
    await world.commands.restore(world.caller, {"memory_id": ended})
    restored = await export(world, tmp_path / "restored.jsonl")
    await elsewhere.remember("the only one")
    policies = Policies(elsewhere.engine)
    await policies.change(elsewhere.caller, {"live_memories": 1})
    with pytest.raises(QuotaExceeded):
        await bring_in(elsewhere, restored)
    assert (await elsewhere.get(ended)).status == "archived"
    await policies.change(elsewhere.caller, {"live_memories": 2})
    await bring_in(elsewhere, restored)
    assert (await elsewhere.get(ended)).status == "active"


async def test_a_dry_run_says_what_would_come_and_changes_nothing(elsewhere, archive):
    head = await elsewhere.engine.log.head()
    expected = await bring_in(elsewhere, archive, dry_run=True)
    assert await elsewhere.engine.log.head() == head
    async with elsewhere.engine.database.connection() as connection:
        cursor = await connection.execute("select count(*) from lethelog.directory")
        assert await cursor.fetchone() == (0,), "a dry run gives no name an id"
    assert {one.action for one in expected.items} == {"imported"}
    real = await bring_in(elsewhere, archive)
    assert real.counts == expected.counts


async def test_f08_what_was_erased_stays_erased_and_the_import_goes_on(lived_world, made, archive):
    world = lived_world
    await destroy_key(world, made["moved"])
    before = await world.engine.log.head()
    result = await bring_in(world, archive)
    assert result.counts["memory"]["erased"] == 1
    assert [(one.id, one.action) for one in result.items] == [(made["moved"], "erased")]
    assert await world.engine.log.head() == before, "nothing else was new"
    assert b"green tea" in archive.read_bytes()


async def test_names_are_resolved_anew_where_a_person_is_erased_between_a_plan_and_its_storing(
    world, elsewhere, tmp_path, monkeypatch
):
    first, second, third = [await world.remember(f"Note {n}", user_id="ada") for n in range(3)]
    archive = await export(world, tmp_path / "a.jsonl")
    monkeypatch.setattr("lethelog.handlers.archive.importing._EVENTS", 1)
    tenant, planned, plan = elsewhere.caller.tenant, [], Planner.plan
    before: list[UUID | None] = []

    async def plan_and_erase(self, batch):
        made = await plan(self, batch)
        planned.append(batch[0].stream)
        if planned[-1] == second and planned.count(second) == 1:
            before.append(await elsewhere.engine.directory.find(tenant, "subject", "ada"))
            erasures = Erasures(elsewhere.engine)
            preview = await erasures.preview(elsewhere.caller, {"subject": "ada"})
            done = await erasures.erase(elsewhere.caller, {"erasure_id": preview.id, "reason": "asked_for"})
            assert (done.phase, done.memories) == ("verified", 1)
        return made

    monkeypatch.setattr(Planner, "plan", plan_and_erase)
    await bring_in(elsewhere, archive)
    assert [planned.count(one) for one in (first, second, third)] == [1, 2, 1]
    with pytest.raises(Erased):
        await elsewhere.get(first)
    assert [(await elsewhere.get(one)).user_id for one in (second, third)] == ["ada", "ada"]
    assert before[0] is not None
    assert await elsewhere.engine.directory.find(tenant, "subject", "ada") not in (None, *before)


async def test_an_old_archive_revives_nothing_in_a_place_that_got_the_erased_skeleton(
    lived_world, elsewhere, made, archive, tmp_path
):
    world = lived_world
    await destroy_key(world, made["stale"])
    await bring_in(elsewhere, await export(world, tmp_path / "t1.jsonl"))
    result = await bring_in(elsewhere, archive)
    assert [(one.id, one.action) for one in result.items] == [(made["stale"], "erased")]
    with pytest.raises(Erased):
        await elsewhere.get(made["stale"])
    proposal = await elsewhere.engine.log.read_stream(elsewhere.caller.tenant, made["open"])
    assert proposal[0].event.quote is None


async def test_claims_hold_on_import_duplicates_are_named_and_refuted_text_waits(elsewhere, made, archive):
    here = await elsewhere.remember("lives in LISBON")
    wrong = await elsewhere.remember("Uses Python 3.8")
    await elsewhere.commands.refute(elsewhere.caller, {"memory_id": wrong})
    result = await bring_in(elsewhere, archive)
    others = {one.id: (one.action, one.holder) for one in result.items if one.kind == "memory"}
    assert others == {made["newer"]: ("duplicate", here)}
    refused = {one.id for one in result.items if one.kind == "proposal"}
    assert refused == {made["accepted"], made["rejected"]}, "about a memory that did not come"
    assert (await elsewhere.get(made["stale"])).status == "quarantined"
    again = await elsewhere.commands.remember(
        elsewhere.caller, {"topic": "t", "content": "likes green  tea", "scope": "work"}
    )
    assert again.deduplicated and again.memory.id == made["moved"]
    back = await elsewhere.commands.remember(
        elsewhere.caller, {"topic": "t", "content": "Orla works at Pell & co", "scope": "work"}
    )
    assert back.memory.status == "quarantined", "refuted there, so refuted here"


async def test_an_archive_of_some_memories_holds_those_and_what_is_about_them_only(
    lived_world, elsewhere, made, tmp_path
):
    world = lived_world
    archive = await export(world, tmp_path / "a.jsonl", user_id="ada")
    lines = lines_of(archive)
    assert lines[0]["filter"] == {"user_id": "ada"}
    streams = {line["stream"] for line in lines[1:-1]}
    facts = {line["stream"] for line in lines[1:-1] if line["data"].get("memory_id") == str(made["moved"])}
    assert streams - facts == {str(made["first"]), str(made["second"]), str(made["moved"])}
    result = await bring_in(elsewhere, archive)
    assert result.counts == {"memory": {"imported": 3}, "fact": {"imported": 2}} and len(facts) == 2
    decisions = await export(world, tmp_path / "d.jsonl", memory_types=["decision"])
    assert {line["stream"] for line in lines_of(decisions)[1:-1]} == {
        str(made[name]) for name in ("first", "second", "stale", "open")
    }
    with pytest.raises(InvalidInput, match="user_id"):
        await export(world, tmp_path / "x.jsonl", user_id="nobody")


async def test_a_skeleton_holds_no_text_and_no_name_and_is_not_read_in(lived_world, tmp_path):
    archive = await export(lived_world, tmp_path / "a.jsonl", content=False)
    text = archive.read_text()
    for personal in ("Deploys", '"ada"', "planner", "grace", "infra", "stopped", "Python 3.8", "Ünïcode"):
        assert personal not in text, personal
    assert '"memory.remembered"' in text and '"proposal.accepted"' in text
    with pytest.raises(InvalidInput, match="skeleton"):
        await bring_in(lived_world, archive)


async def test_a_file_that_was_cut_short_or_changed_is_refused_before_anything_comes_in(
    lived_world, elsewhere, archive, tmp_path
):
    compressed = await export(lived_world, tmp_path / "a.jsonl.gz")
    assert compressed.stat().st_mode & 0o777 == 0o600 and list(tmp_path.iterdir()) == [compressed]
    assert body_of(archive) == gzip.decompress(compressed.read_bytes()).partition(b"\n")[2]
    whole = archive.read_bytes()
    lines = whole.splitlines(keepends=True)
    damaged = [b"", b"{}\n", b"".join(lines[:-1]), b"".join(lines[:5] + lines[6:]), whole + lines[3]]
    damaged += [whole.replace(b"Heroku", b"Hetero"), whole.replace(b'"format":1', b'"format":99', 1)]
    damaged += [cut for one in (whole, compressed.read_bytes()) for cut in (one[: len(one) // 2], one[:-2])]
    head = await elsewhere.engine.log.head()
    for number, content in enumerate(damaged):
        broken = tmp_path / f"broken{number}"
        broken.write_bytes(content)
        with pytest.raises(InvalidInput, match="file"):
            await bring_in(elsewhere, broken)
    assert await elsewhere.engine.log.head() == head
    assert (await bring_in(elsewhere, compressed)).items == ()


async def test_events_that_were_moved_in_are_not_published_and_what_happens_next_is(
    elsewhere, made, archive, broker
):
    result = await bring_in(elsewhere, archive)
    assert result.count("imported") > 20
    await elsewhere.commands.pin(elsewhere.caller, {"memory_id": made["moved"]})
    head = await elsewhere.engine.log.head()
    relay = Relay(elsewhere.engine.database, elsewhere.engine.tail, broker)
    await relay.open()
    try:
        async with asyncio.timeout(30):
            await relay.reached(head)
        assert await relay.lag() == 0
    finally:
        await relay.close()
    carried = []
    async with contextlib.aclosing(follow(broker, start="all")) as events, asyncio.timeout(30):
        async for event in events:
            carried.append((event.name, event.stream))
            if event.position == head:
                break
    assert [name for name, _ in carried] == [
        "tenant.created",
        "archive.import_started",
        "archive.imported",
        "memory.pinned",
    ]
    told = (await elsewhere.engine.log.read_stream(elsewhere.caller.tenant, result.archive))[-1].event
    moved_in = await elsewhere.engine.log.read_page(
        told.first_position - 1, 1_000, told.last_position, only=Selection(elsewhere.caller.tenant)
    )
    assert len(moved_in) == result.events and {e.envelope.origin.archive for e in moved_in} == {result.archive}


async def test_an_import_that_was_broken_off_goes_on_where_it_stopped(
    lived_world, elsewhere, made, archive, tmp_path, monkeypatch
):
    monkeypatch.setattr(importing, "_EVENTS", 5)
    append, left = elsewhere.engine.log.append, [3]

    async def dies(unit):
        left[0] -= 1
        if left[0] < 0:
            raise Unavailable("killed")
        return await append(unit)

    with monkeypatch.context() as killed:
        killed.setattr(elsewhere.engine.log, "append", dies)
        with pytest.raises(Unavailable):
            await bring_in(elsewhere, archive)
    result = await bring_in(elsewhere, archive)
    assert 0 < result.count("present") < result.count("present", "imported") and result.items == ()
    assert body_of(archive) == body_of(await export(elsewhere, tmp_path / "b.jsonl"))
    names = [e.name for e in await elsewhere.engine.log.read_stream(elsewhere.caller.tenant, result.archive)]
    assert names == ["archive.import_started", "archive.imported"]
    await elsewhere.catch_up()
    assert await told(lived_world, made["first"]) == await told(elsewhere, made["first"])


async def test_f49_an_import_killed_again_and_again_ends_like_one_that_was_not(
    lived_world, elsewhere, made, archive, start, tmp_path
):
    tenant, actor = elsewhere.caller.tenant, elsewhere.caller.actor.id
    given = {"database_url": elsewhere.database_url, "tenant": tenant, "actor": actor, "archive": str(archive)}
    heads = [await elsewhere.engine.log.head()]
    for stop in ({"units": 4}, {"units": -1, "hold_at": "archive.imported"}):
        child = await start("import_archive", **stop, **given)
        await child.until(holding=True)
        await child.kill()
        heads.append(await elsewhere.engine.log.head())
    assert heads[0] + 5 < heads[1] < heads[2], "killed in the middle, and when all but the end was there"
    result = await bring_in(elsewhere, archive)
    assert result.items == () and result.count("imported") == 0 and result.count("present") > 20
    names = [one.name for one in await elsewhere.engine.log.read_stream(tenant, result.archive)]
    assert names == ["archive.import_started", "archive.imported"]
    assert body_of(archive) == body_of(await export(elsewhere, tmp_path / "b.jsonl"))
    assert await seen(lived_world, made) == await seen(elsewhere, made)
    head = await elsewhere.engine.log.head()
    assert (await bring_in(elsewhere, archive)).count("imported") == 0
    assert await elsewhere.engine.log.head() == head


async def test_exports_are_on_record_so_that_an_erasure_can_name_them(world, tmp_path):
    ada = await world.remember("Likes tea", user_id="ada")
    bob = await world.remember("Likes coffee", user_id="bob")
    await export(world, tmp_path / "all.jsonl")
    await export(world, tmp_path / "ada.jsonl", user_id="ada")
    await export(world, tmp_path / "shape.jsonl", content=False)
    later = await world.remember("Likes water", user_id="ada")
    head = await world.engine.log.head()
    exports = await Exports(world.engine).all(world.caller.tenant)
    holding = {
        one: [n for n, export in enumerate(exports) if export.may_hold(one, position)]
        for one, position in ((ada, 2), (bob, 3), (later, head))
    }
    assert holding == {ada: [0, 1], bob: [0], later: []}
    sha256 = hashlib.sha256((tmp_path / "ada.jsonl").read_bytes()).hexdigest()
    assert exports[1].digest == sha256 and exports[0].actor == world.caller.actor
    stored = await world.engine.log.read_stream(world.caller.tenant, exports[1].archive)
    # In quotes: an id may well hold these three letters.
    said = json.dumps([one.event.model_dump(mode="json") for one in stored])
    assert '"ada"' not in said, "opaque ids only"


@pytest.mark.parametrize("written", [4, 5])
async def test_an_erasure_is_told_of_every_export_however_many_there_are(world, tmp_path, monkeypatch, written):
    monkeypatch.setattr(records, "_PAGE", 2)
    await world.remember("Likes tea")
    for number in range(written):
        await export(world, tmp_path / f"{number}.jsonl")
    digests = [hashlib.sha256((tmp_path / f"{n}.jsonl").read_bytes()).hexdigest() for n in range(written)]
    assert [one.digest for one in await Exports(world.engine).all(world.caller.tenant)] == digests


async def test_an_export_that_fails_leaves_no_file(world, tmp_path, monkeypatch):
    await world.remember("Likes tea")
    target = tmp_path / "a.jsonl"

    async def fails(*_):
        raise Unavailable("away")

    with monkeypatch.context() as away:
        away.setattr(Exports, "finish", fails)
        with pytest.raises(Unavailable):
            await export(world, target)
    assert list(tmp_path.iterdir()) == []
    await export(world, target)
    with pytest.raises(InvalidInput, match="exists already"):
        await export(world, target)


async def test_moving_needs_the_rights_of_an_administrator(world, tmp_path):
    archive = await export(world, tmp_path / "a.jsonl")
    agent = replace(world, caller=replace(world.caller, permissions=frozenset({"memory:read", "memory:import"})))
    with pytest.raises(AccessDenied):
        await export(agent, tmp_path / "b.jsonl")
    with pytest.raises(AccessDenied):
        await bring_in(agent, archive)


async def test_an_item_that_breaks_a_rule_is_refused_by_itself_and_says_why(world, elsewhere, tmp_path):
    good = await world.remember("Likes tea")
    bad = [await world.remember(f"Number {n}") for n in range(4)]
    archive = await export(world, tmp_path / "a.jsonl")
    lines = lines_of(archive)
    for line in lines[1:-1]:
        number = bad.index(UUID(line["stream"])) if line["stream"] in map(str, bad) else None
        if number == 0:
            line["data"]["content"] = "x" * (IMPORT_CONTENT_LIMIT + 1)
        elif number == 1:
            line["recorded_at"] = "2999-01-01T00:00:00+00:00"
        elif number == 2:
            line["data"]["topic"] = "a\u0000b"
        elif number == 3:
            line["event"] = "token.issued"
    rewrite(archive, lines)
    result = await bring_in(elsewhere, archive)
    assert result.counts["memory"] == {"imported": 1, "refused": 3} and result.counts["token"] == {"refused": 1}
    said = {one.id: one.reason for one in result.items}
    assert set(said) == set(bad) and all("Number" not in (reason or "") for reason in said.values())
    assert "content" in said[bad[0]] and "future" in said[bad[1]] and "NUL" in said[bad[2]]
    assert (await elsewhere.get(good)).content == "Likes tea"


def rewrite(archive: Path, lines: list[dict]) -> None:
    """Somebody with an editor, who also counts the digest anew."""
    written = [json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n" for line in lines]
    lines[-1]["end"]["sha256"] = hashlib.sha256(b"".join(written[1:-1])).hexdigest()
    lines[-1]["end"]["memories"] = sum(line["event"] == "memory.remembered" for line in lines[1:-1])
    written[-1] = json.dumps(lines[-1]).encode() + b"\n"
    archive.write_bytes(b"".join(written))
