"""What other systems left behind comes in as an importer's words, twice is once, and nothing is dropped silently."""

import json

import pytest
from lethelog.domain.errors import InvalidInput
from lethelog.handlers.archive.foreign import TakingOver
from lethelog.handlers.erasure.erasures import Erasures

from .archives import bring_in
from .test_erasure import erase

MEM0 = {
    "results": [
        {
            "id": "m1",
            "memory": "Lives in Lisbon",
            "hash": "abc",
            "metadata": {"category": "home"},
            "categories": ["places"],
            "created_at": "2024-07-01T10:00:00-07:00",
            "updated_at": "2024-08-01T10:00:00-07:00",
            "user_id": "alex",
            "expiration_date": "2031-01-31",
        },
        {"id": "m2", "memory": "x" * 5_000, "created_at": "2024-07-02T10:00:00", "immutable": True},
        {"id": "m3", "memory": " lives  in LISBON", "created_at": "2024-07-03T10:00:00+00:00"},
        {"id": "m4", "memory": "", "created_at": "2024-07-03T10:00:00+00:00"},
    ],
    "history": [
        {"memory_id": "m1", "old_memory": None, "new_memory": "Lives in Porto", "event": "ADD",
         "created_at": "2024-07-01T10:00:00-07:00"},
        {"memory_id": "m1", "old_memory": "Lives in Porto", "new_memory": "Lives in Lisbon", "event": "UPDATE",
         "created_at": "2024-07-01T10:00:00-07:00", "updated_at": "2024-08-01T10:00:00-07:00"},
        {"memory_id": "m5", "old_memory": None, "new_memory": "Smokes", "event": "ADD",
         "created_at": "2024-07-01T10:00:00+00:00"},
        {"memory_id": "m5", "old_memory": "Smokes", "new_memory": None, "event": "DELETE",
         "created_at": "2024-07-09T10:00:00+00:00"},
    ],
}  # fmt: skip
MCP = [
    {"type": "entity", "name": "Ada", "entityType": "person", "observations": ["Likes tea", 7, "Speaks Ünïcode"]},
    {"type": "entity", "name": "Bob", "entityType": "person", "observations": ["Likes tea"]},
    {"type": "entity", "name": "Pell & Co", "entityType": "company", "observations": []},
    {"type": "relation", "from": "Ada", "to": "Pell & Co", "relationType": "works at"},
    {"type": "relation", "from": "Ada", "to": "", "relationType": "knows"},
]


async def take(world, source, path, *, dry_run=False):
    return await TakingOver(world.engine, world.commands).take_over(world.caller, source, path, dry_run=dry_run)


async def test_mem0_comes_in_with_owners_dates_and_what_was_said_before(world, tmp_path):
    file = tmp_path / "mem0.json"
    file.write_text(json.dumps(MEM0))
    head = await world.engine.log.head()
    expected = await take(world, "mem0", file, dry_run=True)
    assert await world.engine.log.head() == head and expected.dry_run
    assert expected.counts == {"imported": 3, "left_out": 2}, "duplicates within a file show when they meet"
    result = await take(world, "mem0", file)
    assert result.counts == {"imported": 2, "duplicate": 1, "left_out": 2}, "every memory of the file once"
    said = {(one.source, one.action): one.reason for one in result.items}
    assert said[("mem0 m5", "left_out")] == "it was deleted there"
    assert said[("mem0 m4", "left_out")] == "it has no text"
    remarks = {one.source: one.says for one in result.remarks}
    assert result.remarks_count == 2 and set(remarks) == {"mem0 m2", "field immutable"}
    assert "zone" in remarks["mem0 m2"] and remarks["field immutable"].endswith("memories that have it: 1")
    await world.catch_up()
    listed = (await world.reading.list(world.caller, {"status": "all"})).memories
    by_text = {one.content[:15]: one for one in listed}
    assert set(by_text) == {"Lives in Porto", "Lives in Lisbon", "x" * 15}
    porto, lisbon = by_text["Lives in Porto"], by_text["Lives in Lisbon"]
    assert (porto.superseded_by, lisbon.predecessor) == (lisbon.id, porto.id)
    assert (lisbon.user_id, lisbon.tags, lisbon.trust, lisbon.producer) == (
        "alex",
        ("places",),
        "imported",
        "system",
    )
    assert lisbon.metadata == {"mem0_id": "m1", "category": "home"}
    assert porto.occurred_at.isoformat() == "2024-07-01T17:00:00+00:00"
    assert lisbon.occurred_at.isoformat() == "2024-08-01T17:00:00+00:00"
    assert lisbon.expires_at.isoformat() == "2031-02-01T00:00:00+00:00"
    history = await world.reading.history(world.caller, {"memory_id": lisbon.id})
    assert history.entries[0].actor == "importer:mem0"
    head = await world.engine.log.head()
    again = await take(world, "mem0", file)
    assert again.counts == {"present": 3, "left_out": 2} and await world.engine.log.head() == head


async def test_the_memory_file_of_mcp_s_reference_server_comes_in_one_memory_per_observation(world, tmp_path):
    file = tmp_path / "memory.jsonl"
    file.write_text("\n".join(json.dumps(line, ensure_ascii=False) for line in MCP) + "\n\n")
    expected = await take(world, "mcp-memory", file, dry_run=True)
    result = await take(world, "mcp-memory", file)
    assert result.counts == expected.counts == {"imported": 5, "left_out": 2}
    assert {one.source for one in result.items} == {"line 1, observation 2", "line 5"}
    await world.catch_up()
    listed = (await world.reading.list(world.caller, {"status": "all"})).memories
    assert {one.content for one in listed} == {
        "Ada: Likes tea",
        "Ada: Speaks Ünïcode",
        "Bob: Likes tea",
        "Pell & Co (company)",
        "Ada works at Pell & Co",
    }
    again = await take(world, "mcp-memory", file)
    assert again.counts == {"present": 5, "left_out": 2}


async def test_what_was_erased_since_is_called_so_and_what_changed_there_too(world, tmp_path):
    file = tmp_path / "mem0.json"
    told = [{"id": name, "memory": f"Note of {name}", "user_id": name} for name in ("ada", "bob", "eve", "fay")]
    file.write_text(json.dumps(told[:3]))
    await take(world, "mem0", file)
    await world.catch_up()
    await erase(world, Erasures(world.engine), subject="ada")
    told[1]["memory"] = "Note of bob, as he sees it now"
    file.write_text(json.dumps(told))
    head = await world.engine.log.head()
    for dry_run in (True, False):
        assert dry_run or await world.engine.log.head() == head
        result = await take(world, "mem0", file, dry_run=dry_run)
        assert result.counts == {"erased": 1, "refused": 1, "present": 1, "imported": 1}
        said = {one.source: (one.action, one.reason) for one in result.items}
        assert said["mem0 ada"] == ("erased", "it was taken over before and erased here since; it stays so")
        action, reason = said["mem0 bob"]
        assert action == "refused" and "key" not in reason and "another text" in reason
    await world.catch_up()
    listed = (await world.reading.list(world.caller, {"status": "all"})).memories
    assert {one.content for one in listed} == {"Note of bob", "Note of eve", "Note of fay"}


@pytest.mark.parametrize("source", ["mem0", "mcp-memory", None])
async def test_a_file_of_another_system_than_named_is_refused_with_the_way_to_read_it(
    world, archive, tmp_path, source
):
    files = {"mem0": tmp_path / "pretty.json", "mcp-memory": tmp_path / "memory.jsonl", None: archive}
    files["mem0"].write_text(json.dumps(MEM0, indent=2))
    files["mcp-memory"].write_text("\n".join(json.dumps(line) for line in MCP))
    ways = {"mem0": "the format mem0", "mcp-memory": "the format mcp-memory", None: "without naming a format"}
    for wrong, file in files.items():
        if wrong == source:
            continue
        with pytest.raises(InvalidInput, match=ways[wrong]):
            await (bring_in(world, file) if source is None else take(world, source, file))


@pytest.mark.parametrize(
    ("source", "text"),
    [("mem0", "[1]"), ("mem0", "{}"), ("mem0", "no"), ("mcp-memory", "[]"), ("mcp-memory", "{}"), ("other", "{}")],
)
async def test_a_file_of_another_kind_is_refused(world, tmp_path, source, text):
    file = tmp_path / "file"
    file.write_text(text)
    with pytest.raises(InvalidInput, match=r"^(file|source):"):
        await take(world, source, file)
