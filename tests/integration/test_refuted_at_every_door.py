"""What was refuted, or erased for good, comes back live through no door (settlement 4, F09; ADR 14)."""

import json
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from lethelog import LethelogStore, Mem0Memory
from lethelog.domain.errors import Conflict

from .mem0_script import Model, served
from .opened import OfTenant, Opened, opened_memory

TEXT = '{"married": true}'
"""A text that every door can write: as JSON it is the value of an item."""
UNRELATED = '{"married": "never said"}'
IN = ("people",)


@dataclass
class World:
    """One tenant, and another whose archives it takes."""

    memory: OfTenant
    origin: OfTenant
    model: Model
    folder: Path

    def __post_init__(self) -> None:
        self.store, self.mem0 = LethelogStore(self.memory), Mem0Memory(self.memory)

    def moved(self, text: str) -> str:
        """What becomes here of a memory of the origin, which keeps its id."""
        path = self.folder / f"{uuid4()}.jsonl"
        self.origin.export_archive(path)
        self.memory.import_archive(path)
        [one] = [one for one in self.origin.list(status="active").memories if one.content == text]
        return self.memory.get(one.id).status


@pytest.fixture(scope="module")
def opened(servers, world_template: str, drop, tmp_path_factory) -> Generator[Opened]:
    with opened_memory(servers, world_template, drop, tmp_path_factory.mktemp("doors")) as opened:
        yield opened


@pytest.fixture
def make(opened: Opened, tmp_path: Path) -> Generator[Callable[[], World]]:
    with served() as model:
        yield lambda: World(opened.tenant(), opened.tenant(), model, tmp_path)


# --- the doors ------------------------------------------------------------------------------------------------------
# Each writes a text, and says what it became: a status, or that it was refused.


def remembered(world: World, text: str) -> str:
    return world.memory.remember(text).memory.status


def remembered_of_somebody(world: World, text: str) -> str:
    return world.memory.remember(text, user_id="bob", agent_id="bot", scope="of-bob").memory.status


def remembered_in_bulk(world: World, text: str) -> str:
    [item] = world.memory.remember_many([{"content": text, "scope": "bulk"}]).items
    assert item.memory_id is not None
    return world.memory.get(item.memory_id).status


def taken_over(world: World, text: str) -> str:
    return world.memory.import_memory(text, scope="taken-over").memory.status


def revised(world: World, text: str) -> str:
    other = world.memory.remember(f"Before {text}", scope="revised").memory.id
    return refusing(lambda: world.memory.revise(other, text).memory.status)


def moved_plain(world: World, text: str) -> str:
    world.origin.remember(text, scope="moved")
    return world.moved(text)


def added(world: World, text: str, user: str = "ada") -> str:
    [made] = world.mem0.add(text, user_id=user, infer=False)["results"]
    return made.get("status", "active")


def inferred(world: World, text: str) -> str:
    world.model.answers = [json.dumps({"facts": [text]})]
    with Mem0Memory(world.memory, llm={"model": "m", "base_url": world.model.url}) as mem0:
        [made] = mem0.add("Something was said", user_id="ada")["results"]
    return made.get("status", "active")


def updated(world: World, text: str) -> str:
    [made] = world.mem0.add(f"Before {text}", user_id="ada", infer=False)["results"]

    return refusing(lambda: world.memory.get(world.mem0.update(made["id"], text)["successor"]).status)


def moved_of_mem0(world: World, text: str) -> str:
    Mem0Memory(world.origin).add(text, user_id="ada", infer=False)
    return world.moved(text)


def put(world: World, text: str, key: str = "ada") -> str:
    def write() -> str:
        world.store.put(IN, key, json.loads(text))
        assert world.store.get(IN, key).value == json.loads(text)
        return "active"

    return refusing(write)


def put_over(world: World, text: str) -> str:
    world.store.put(IN, "ada", {"before": text})
    return put(world, text)


def moved_item(world: World, text: str) -> str:
    LethelogStore(world.origin).put(IN, "ada", json.loads(text))
    return world.moved(text)


def added_of_another(world: World, text: str) -> str:
    return added(world, text, "eve")


def put_under_another(world: World, text: str) -> str:
    return put(world, text, "eve")


def refusing(write: Callable[[], str]) -> str:
    try:
        return write()
    except Conflict as refused:
        assert "refuted" in refused.message
        return "refused"


Door = Callable[[World, str], str]
PLAIN: dict[Door, str] = {
    remembered: "quarantined",
    remembered_of_somebody: "quarantined",
    remembered_in_bulk: "quarantined",
    taken_over: "quarantined",
    revised: "refused",
    moved_plain: "quarantined",
}
OF_ADA: dict[Door, str] = {
    added: "quarantined",
    inferred: "quarantined",
    updated: "refused",
    moved_of_mem0: "quarantined",
}
UNDER_THE_NAME: dict[Door, str] = {put: "refused", put_over: "refused", moved_item: "quarantined"}
OF_OTHERS: dict[Door, str] = {added_of_another: "quarantined"}
UNDER_OTHERS: dict[Door, str] = {put_under_another: "refused"}
EVERY = {**PLAIN, **OF_ADA, **OF_OTHERS, **UNDER_THE_NAME, **UNDER_OTHERS}
"""What each door makes of a text that is barred to it."""
TOGETHER: tuple[tuple[Door, ...], ...] = (
    (*PLAIN, updated, added, *OF_OTHERS, put, put_over, *UNDER_OTHERS),
    (inferred, moved_item),
    (moved_of_mem0,),
)
"""The doors that are tried in one tenant, one after the other: what one wrote keeps no other from writing."""


def tried(ready: Callable[[], World], text: str) -> dict[str, str]:
    """What becomes of a text at every door, each time in a tenant that is ready for it."""
    found: dict[str, str] = {}
    for doors in TOGETHER:
        world = ready()
        found |= {door.__name__: door(world, text) for door in doors}
    return found


def table(barred: dict[Door, str]) -> dict[str, str]:
    """What is to become of it."""
    return {door.__name__: barred.get(door, "active") for door in EVERY}


def by_plain(world: World) -> UUID:
    return world.memory.remember(TEXT).memory.id


def by_mem0(world: World, user: str = "ada") -> UUID:
    [made] = world.mem0.add(TEXT, user_id=user, infer=False)["results"]
    return UUID(made["id"])


def by_store(world: World) -> UUID:
    world.store.put(IN, "ada", json.loads(TEXT))
    [item] = world.memory.list(scope="langgraph", status="active").memories
    return item.id


Written = Callable[[World], UUID]


def refute(world: World, memory: UUID) -> None:
    world.memory.refute(memory)


def erase(world: World, memory: UUID) -> None:
    asked = world.memory.preview_erasure(memory_id=memory)
    assert world.memory.erase(asked.id, reason="never_true", re_entry="block").phase == "verified"


def release(world: World, memory: UUID) -> None:
    """Let a memory in again, and put it away, so that it keeps no other out."""
    assert world.memory.get(memory).status == "quarantined"
    world.memory.release(memory, reason="They are")
    world.memory.archive(memory)


def refute_and_erase(world: World, memory: UUID) -> None:
    refute(world, memory)
    erase(world, memory)


End = Callable[[World, UUID], None]
BARRED: dict[tuple[Written, End], dict[Door, str]] = {
    (by_plain, refute): EVERY,
    (by_plain, erase): EVERY,
    # What is true of one user is so of no other, and a value under one name says nothing of another name.
    (by_mem0, refute): {**PLAIN, **OF_ADA},
    (by_store, refute): {**PLAIN, **UNDER_THE_NAME},
    # Whoever is erased may come back as another user.
    (by_mem0, erase): EVERY,
    (by_mem0, refute_and_erase): EVERY,
    (by_store, erase): {**PLAIN, **UNDER_THE_NAME},
}


@pytest.mark.parametrize(("written", "end"), BARRED)
def test_a_text_is_barred_at_every_door_and_another_text_at_none(
    make: Callable[[], World], written: Written, end: End
):
    def ready() -> World:
        world = make()
        end(world, written(world))
        return world

    assert tried(ready, TEXT) == table(BARRED[written, end])
    world = ready()
    assert remembered(world, UNRELATED) == added(world, UNRELATED) == put(world, UNRELATED) == "active"


def test_without_a_refutation_the_text_is_live_through_each(make: Callable[[], World]):
    assert tried(make, TEXT) == table({})


@pytest.mark.parametrize(
    ("refuted_by", "released_by"),
    [(by_plain, by_mem0), (by_mem0, by_plain), (by_mem0, by_mem0), (by_store, by_plain)],
)
def test_what_a_person_lets_in_again_is_let_in_through_every_door(
    make: Callable[[], World], refuted_by: Written, released_by: Written
):
    def ready() -> World:
        world = make()
        refute(world, refuted_by(world))
        release(world, released_by(world))
        return world

    assert tried(ready, TEXT) == table({})


def test_a_release_lifts_what_was_a_bar_to_it_and_no_other_refutation(make: Callable[[], World]):
    world = make()
    for user in ("ada", "eve"):
        refute(world, by_mem0(world, user))
    release(world, by_mem0(world))
    assert (added(world, TEXT), added(world, TEXT, "eve")) == ("active", "quarantined")
    assert remembered(world, TEXT) == "quarantined"


@pytest.mark.parametrize("refuted_by", [by_mem0, by_store])
@pytest.mark.parametrize("released", [False, True])
def test_an_archive_takes_refutations_and_releases_along_for_every_door(
    make: Callable[[], World], tmp_path: Path, refuted_by: Written, released: bool
):
    world = make()
    refute(world, refuted_by(world))
    if released:
        release(world, by_plain(world))
    world.memory.export_archive(tmp_path / "moving.jsonl")

    def ready() -> World:
        there = make()
        there.memory.import_archive(tmp_path / "moving.jsonl")
        return there

    assert tried(ready, TEXT) == table({} if released else BARRED[refuted_by, refute])
