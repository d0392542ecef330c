"""Facts: written with their memory, told for two times, gone with their memory (behaviour.md 1.10; A11, A12)."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from lethelog.domain import events as e
from lethelog.domain.errors import Conflict, InvalidInput
from lethelog.domain.fact import decide_undo, evolve_fact
from lethelog.handlers.access.caller import ALL_PERMISSIONS
from lethelog.handlers.erasure.erasures import Erasures
from lethelog.handlers.facts import Facts
from lethelog.handlers.memories import Retry
from lethelog.projections.rebuild import Rebuilder
from lethelog.streams.folding import fold_stream
from lethelog.streams.log import Appended, NewEvent, Unit
from lethelog.streams.payloads import Envelope

from .archives import bring_in, export

PORTO = {"subject": "Ada", "predicate": "lives in", "value": "Porto"}
LISBON = PORTO | {"value": "Lisbon"}
JANUARY, FEBRUARY, MARCH = (datetime(2026, month, 1, tzinfo=UTC) for month in (1, 2, 3))


async def remember(world, content: str, *facts: dict[str, Any], key: str | None = None, **fields: Any):
    said = {"topic": "t", "content": content, "facts": list(facts), **fields}
    return await world.commands.remember(world.caller, said, Retry(key))


async def get(world, **asked: Any):
    await world.catch_up()
    return await Facts(world.engine).get(world.caller, asked)


async def values(world, **asked: Any) -> list[str]:
    return [one.value for one in (await get(world, **asked)).facts]


async def accepted(world, memory_id: UUID, **said: Any) -> UUID:
    """A fact that came of a proposal, as accepting one writes it."""
    fact = e.FactAsserted(**{"memory_id": memory_id, **PORTO, "valid_from": JANUARY, "proposal": uuid4(), **said})
    fact_id = uuid4()
    await append(world, fact_id, 1, fact)
    return fact_id


async def append(world, stream: UUID, version: int, event: e.Event) -> None:
    envelope = Envelope(world.caller.actor, cause=uuid4(), correlation=uuid4(), policy=1)
    outcome = await world.engine.log.append(
        Unit(world.caller.tenant, stream, [NewEvent(stream, version, event)], envelope)
    )
    assert isinstance(outcome, Appended)


async def take_back(world, fact_id: UUID, *, again: bool = False) -> None:
    recorded = await world.engine.log.read_stream(world.caller.tenant, fact_id)
    fact = fold_stream(recorded, evolve_fact)
    assert fact is not None
    [event] = decide_undo(fact, effect=recorded[0].event_id, undo=uuid4(), again=again)
    await append(world, fact_id, fact.version + 1, event)


async def test_facts_come_with_their_memory_in_one_unit(world):
    before = await world.engine.log.head()
    since = LISBON | {"valid_from": JANUARY, "valid_to": MARCH, "confidence": 0.25}
    written = await remember(world, "Ada moved from Lisbon to Porto", PORTO, since)
    assert written.position == before + 3 and len(written.fact_ids) == 2
    page = await get(world, valid_at=FEBRUARY)
    [fact] = page.facts
    assert (fact.id, fact.memory_id, page.total) == (written.fact_ids[1], written.memory.id, 1)
    assert (fact.subject, fact.predicate, fact.value, fact.confidence) == ("Ada", "lives in", "Lisbon", 0.25)
    assert (fact.valid_from, fact.valid_to, fact.proposal) == (JANUARY, MARCH, None)
    [open_one] = (await get(world)).facts
    assert open_one.value == "Porto" and open_one.valid_from == written.memory.occurred_at
    [memory, *facts] = await world.engine.log.read_page(before, 10)
    assert {one.recorded_at for one in facts} == {memory.recorded_at} == {fact.recorded_at}
    assert len({one.envelope.cause for one in (memory, *facts)}) == 1


async def test_17_facts_are_invalid_and_nothing_is_written(world):
    """facts with remember: 17 facts → invalid; facts on revise → invalid; validTo without validFrom → invalid."""
    written = await remember(world, "Ada lives in Porto")
    head = await world.engine.log.head()
    with pytest.raises(InvalidInput) as many:
        await remember(world, "Ada lives in many places", *[PORTO] * 17)
    with pytest.raises(InvalidInput) as open_end:
        await remember(world, "Ada lived in Porto", PORTO | {"valid_to": MARCH})
    for verb in ("revise", "revise_imported"):
        with pytest.raises(InvalidInput) as revised:
            about = {"memory_id": written.memory.id, "content": "Ada lives in Lisbon", "facts": [LISBON]}
            await getattr(world.commands, verb)(world.caller, about)
        assert revised.value.field == "facts" and "revise" in revised.value.problem
    assert (many.value.field, open_end.value.field) == ("facts", "facts.0")
    assert await world.engine.log.head() == head and await values(world) == []


async def test_a_memory_that_is_found_instead_of_written_gets_no_facts_and_says_so(world):
    first = await remember(world, "Ada lives in Porto", PORTO)
    again = await remember(world, "Ada lives in Porto", LISBON)
    assert (again.deduplicated, again.memory.id, again.fact_ids) == (True, first.memory.id, ())
    assert await values(world) == ["Porto"]


async def test_a_repeated_command_gives_the_same_facts_and_writes_none(world):
    first = await remember(world, "Ada lives in Porto", PORTO, LISBON, key="k1")
    head = await world.engine.log.head()
    again = await remember(world, "Ada lives in Porto", PORTO, LISBON, key="k1")
    assert again.fact_ids == first.fact_ids and len(first.fact_ids) == 2
    found = await remember(world, "Ada lives in Porto", PORTO, key="k2")
    repeated = await remember(world, "Ada lives in Porto", PORTO, key="k2")
    assert found.deduplicated and found.fact_ids == repeated.fact_ids == ()
    assert await world.engine.log.head() == head


async def test_a11_a_fact_is_told_by_its_window_and_by_when_it_was_recorded(world):
    """A11: valid [Jan 1, Mar 1), recorded later: absent at its end, before it was recorded, present from then on.

    Bi-temporal facts: half-open windows, recorded_at axis.
    """
    await remember(world, "something else")
    before = await world.engine.log.head()
    await remember(world, "Ada lived in Porto", PORTO | {"valid_from": JANUARY, "valid_to": MARCH})
    recorded = await world.engine.log.recorded_at(before + 2)
    moment = timedelta(microseconds=1)
    assert await values(world, valid_at=MARCH) == []
    assert await values(world, valid_at=MARCH - moment) == ["Porto"]
    assert await values(world, valid_at=JANUARY) == ["Porto"]
    assert await values(world, valid_at=JANUARY - moment) == []
    assert await values(world, valid_at=FEBRUARY, known_at=recorded - moment) == []
    assert await values(world, valid_at=FEBRUARY, known_at=recorded) == ["Porto"]
    assert await values(world, valid_at=FEBRUARY, known_at=before) == []
    assert await values(world, valid_at=FEBRUARY, known_at=before + 2) == ["Porto"]
    # Without an instant of the world: those with no known end.
    assert await values(world) == [] and await values(world, known_at=before + 2) == []


@pytest.mark.parametrize("asked", [{"as_of": {}}, {"valid_at": {}}, {"known_at": {}}, {"valid_at": ""}])
async def test_a12_an_empty_moment_is_invalid(world, asked):
    """A12: asOf {} → invalid_input. Time travel: {} rejected."""
    with pytest.raises(InvalidInput) as refused:
        await get(world, **asked)
    assert refused.value.code == "invalid_input" and refused.value.field in asked


async def test_a_later_fact_closes_no_earlier_one(world):
    """CONTRADICTION of 1.10: fact writes only insert; several open facts may coexist.

    Bi-temporal facts: insert-only.
    """
    await remember(world, "Ada lives in Porto", PORTO)
    await remember(world, "Ada lives in Lisbon", LISBON)
    assert await values(world, subject="Ada", predicate="lives in") == ["Lisbon", "Porto"]


async def test_facts_are_found_by_subject_and_predicate_whatever_the_writing(world):
    await remember(world, "Ada lives in Porto", PORTO, {"subject": "Bo", "predicate": "uses", "value": "Vim"})
    assert await values(world, subject=" ADA ") == ["Porto"]
    assert await values(world, predicate="Lives  IN", subject="ａｄａ") == ["Porto"]
    assert await values(world, subject="Ad") == [] and await values(world, predicate="uses") == ["Vim"]
    long = "ﷺ" * 256
    await remember(world, "long ones", {"subject": long, "predicate": long, "value": "v"})
    assert await values(world, subject=long, predicate=long) == ["v"]


async def test_pages_of_facts_go_on_where_the_last_one_ended(world):
    ids = []
    for n in range(5):
        two = [{"subject": f"s{n}", "predicate": "p", "value": f"v{n}.{m}"} for m in range(2)]
        ids += (await remember(world, f"memory {n}", *two)).fact_ids
    seen: list[Any] = []
    cursor = None
    while True:
        page = await get(world, limit=3, cursor=cursor)
        assert page.total == 10 and len(page.facts) == min(3, 10 - len(seen))
        seen += page.facts
        cursor = page.next_cursor
        if cursor is None:
            break
        with pytest.raises(InvalidInput, match="another question"):
            await get(world, limit=3, cursor=cursor, predicate="other")
    assert {one.id for one in seen} == set(ids)
    keys = [(-one.recorded_at.timestamp(), one.id) for one in seen]
    assert keys == sorted(keys), "recorded_at descending, id ascending"


async def test_facts_of_a_superseded_memory_stay_and_those_of_one_that_was_never_true_do_not(world):
    superseded = await remember(world, "Ada lives in Porto", PORTO)
    await world.commands.revise(
        world.caller, {"memory_id": superseded.memory.id, "content": "Ada lives in Lisbon"}
    )
    wrong = await remember(world, "Ada lives in Faro", PORTO | {"value": "Faro"})
    there = await world.engine.log.head()
    refuted = await world.commands.refute(world.caller, {"memory_id": wrong.memory.id})
    assert await values(world) == ["Porto"]
    assert await values(world, known_at=there) == ["Faro", "Porto"], "that is what was on record then"
    # Said again, it waits for a person, and so do its facts (F09).
    back = await remember(world, "Ada lives in Faro", PORTO | {"value": "Faro again"})
    assert back.memory.status == "quarantined" and await values(world) == ["Porto"]
    await world.commands.release(world.caller, {"memory_id": back.memory.id, "reason": "it is so"})
    assert await values(world) == ["Faro again", "Porto"]
    assert await values(world, known_at=refuted.position) == ["Porto"]


async def test_an_accepted_fact_that_is_taken_back_is_absent_until_it_is_put_back(world):
    memory = await world.remember("Ada lives in Porto")
    fact = await accepted(world, memory)
    heads = [await world.engine.log.head()]
    for again in (False, True, False):
        await take_back(world, fact, again=again)
        heads.append(await world.engine.log.head())
    told = [await values(world, known_at=head) for head in heads]
    assert told == [["Porto"], [], ["Porto"], []] and await values(world) == []
    compared = await rebuilt(world)
    assert compared.equal and compared.differences[0].rows == 2
    with pytest.raises(Conflict):
        said = await remember(world, "Bo uses Vim", {"subject": "Bo", "predicate": "uses", "value": "Vim"})
        await take_back(world, said.fact_ids[0])


async def rebuilt(world):
    engine = world.engine
    return await Rebuilder(engine.database, engine.log, engine.tail, engine.facts).compare()


async def test_another_tenant_sees_none_of_them(world):
    await remember(world, "Ada lives in Porto", PORTO)
    other = await world.another_caller()
    await world.catch_up()
    assert (await Facts(world.engine).get(other, {})).total == 0
    assert await values(world) == ["Porto"], "the positive control"


async def test_facts_equal_their_rebuild_and_a_second_application_changes_nothing(world, database_url):
    for n in range(12):
        memory = await remember(world, f"memory {n}", *[PORTO | {"value": f"v{n}.{m}"} for m in range(n % 4)])
        fact = await accepted(world, memory.memory.id, value=f"accepted {n}")
        if n % 3 == 0:
            await take_back(world, fact)
        if n % 6 == 0:
            await take_back(world, fact, again=True)
    await world.catch_up()
    compared = await rebuilt(world)
    assert compared.equal and compared.differences[0].rows == 18 + 12 + 2
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("update lethelog_views.tracking set position = 0 where name = 'facts'")
    await world.catch_up()
    assert (await rebuilt(world)).equal


async def test_erasing_a_memory_erases_its_facts(world, tmp_path):
    """Facts of an erased memory are gone: from every read, and from the log."""
    canary = "zqfacterased"
    kept = await remember(world, "Bo uses Vim", {"subject": "Bo", "predicate": "uses", "value": "Vim"})
    gone = await remember(world, "Ada lives somewhere", PORTO | {"value": canary})
    head = await world.catch_up()
    erasures = Erasures(world.engine)
    caller = replace(world.caller, permissions=ALL_PERMISSIONS)
    preview = await erasures.preview(caller, {"memory_id": gone.memory.id})
    assert preview.places["facts"] == 1
    done = await erasures.erase(caller, {"erasure_id": preview.id, "reason": "asked_for"})
    assert {one.place: (one.before, one.found) for one in done.places}["facts"] == (1, 0)
    assert await values(world) == await values(world, known_at=head) == ["Vim"]
    [asserted] = await world.engine.log.read_stream(world.caller.tenant, gone.fact_ids[0])
    assert isinstance(asserted.event, e.FactAsserted) and asserted.event.value is asserted.event.subject is None
    [other] = await world.engine.log.read_stream(world.caller.tenant, kept.fact_ids[0])
    assert isinstance(other.event, e.FactAsserted) and other.event.value == "Vim", "the positive control"
    assert (await rebuilt(world)).equal


async def test_facts_move_with_their_memories(world, elsewhere, tmp_path):
    """An archive carries them, with the instants at which they were recorded; also what was taken back."""
    said = await remember(world, "Ada lives in Porto", PORTO | {"confidence": 0.5}, scope="work")
    back = await accepted(world, said.memory.id, value="Lisbon")
    await take_back(world, back)
    await remember(world, "Bo uses Vim", {"subject": "Bo", "predicate": "uses", "value": "Vim"})
    there = await get(world)
    part = await export(world, tmp_path / "part.jsonl", scope="work")
    whole = await export(world, tmp_path / "whole.jsonl")
    came = await bring_in(elsewhere, part)
    assert came.counts["fact"] == {"imported": 2} and await values(elsewhere) == ["Porto"]
    came = await bring_in(elsewhere, whole)
    assert came.counts["fact"] == {"imported": 1, "present": 2}
    assert (await get(elsewhere)).facts == there.facts
    at = next(one.recorded_at for one in there.facts if one.value == "Porto")
    assert await values(elsewhere, known_at=at) == ["Porto"]
    compared = await rebuilt(elsewhere)
    assert compared.equal and compared.differences[0].rows == 3


async def test_a_fact_of_a_memory_that_does_not_come_in_does_not_come_in_either(world, elsewhere, tmp_path):
    await remember(world, "Ada lives in Porto", PORTO)
    await remember(world, "Bo uses Vim", {"subject": "Bo", "predicate": "uses", "value": "Vim"})
    await elsewhere.remember("ada lives in PORTO")
    came = await bring_in(elsewhere, await export(world, tmp_path / "archive.jsonl"))
    assert came.counts["memory"] == {"duplicate": 1, "imported": 1}
    assert came.counts["fact"] == {"refused": 1, "imported": 1} and await values(elsewhere) == ["Vim"]


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ({"subject": "s" * 257}, "subject"),
        ({"confidence": 7}, "confidence"),
        ({"value": None}, "value"),
        ({"valid_to": "2020-01-01T00:00:00Z"}, "valid_to"),
    ],
)
async def test_an_imported_fact_that_breaks_a_rule_is_refused_by_itself(world, elsewhere, tmp_path, damage, says):
    await remember(world, "Ada lives in Porto", PORTO, LISBON)
    path = await export(world, tmp_path / "archive.jsonl")
    rewrite(path, lambda data: data | damage)
    came = await bring_in(elsewhere, path)
    assert came.counts["fact"] == {"refused": 1, "imported": 1} and await values(elsewhere) == ["Lisbon"]
    [refused] = [one for one in came.items if one.action == "refused"]
    assert says in (refused.reason or "")


def rewrite(path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Change what the file says of Porto, as somebody who can compute a digest would."""
    header, *events, _end = path.read_text().splitlines()
    lines: list[str] = []
    for event in map(json.loads, events):
        if event["data"].get("value") == "Porto":
            event["data"] = {name: value for name, value in change(event["data"]).items() if value is not None}
        lines.append(json.dumps(event) + "\n")
    body = "".join(lines)
    digest = hashlib.sha256(body.encode()).hexdigest()
    memories = sum('"memory.remembered"' in line for line in lines)
    end = {"end": {"events": len(lines), "memories": memories, "sha256": digest}}
    path.write_text(f"{header}\n{body}{json.dumps(end)}\n")
