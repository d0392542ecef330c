"""What other systems left behind comes in as an importer's words, twice is once, and nothing is dropped silently."""

import json

import pytest
from lethelog.domain.errors import InvalidInput
from lethelog.handlers.archive.foreign import TakingOver

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
    assert expected.counts == {"imported": 3, "left_out": 4}, "duplicates within a file show when they meet"
    result = await take(world, "mem0", file)
    assert result.counts == {"imported": 2, "duplicate": 1, "left_out": 4}
    said = {(one.source, one.action): one.reason for one in result.items}
    assert said[("mem0 m5", "left_out")] == "it was deleted there"
    assert said[("mem0 m4", "left_out")] == "it has no text"
    assert "zone" in said[("mem0 m2", "left_out")] and "1 memories" in said[("field immutable", "left_out")]
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
    assert again.counts == {"present": 3, "left_out": 4} and await world.engine.log.head() == head


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


@pytest.mark.parametrize(
    ("source", "text"),
    [("mem0", "[1]"), ("mem0", "{}"), ("mem0", "no"), ("mcp-memory", "[]"), ("mcp-memory", "{}"), ("other", "{}")],
)
async def test_a_file_of_another_kind_is_refused(world, tmp_path, source, text):
    file = tmp_path / "file"
    file.write_text(text)
    with pytest.raises(InvalidInput, match=r"^(file|source):"):
        await take(world, source, file)
