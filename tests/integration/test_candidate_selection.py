"""Candidate selection on a real engine: remembered through the commands, blocked and reopened by real events.

behaviour.md 1.16 with settlements 5 to 10; A16, A21, A22, A23, A28, A34; F20, F25, F31.
"""

import asyncio
import itertools
import random
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import pytest
from lethelog.domain import events as e
from lethelog.domain.errors import NotCaughtUp
from lethelog.domain.policy import PAIR_TYPES, STALE_TYPES, ForgettingPolicy
from lethelog.handlers.access.caller import Caller
from lethelog.handlers.engine import Engine, open_engine
from lethelog.handlers.memories import MemoryCommands
from lethelog.projections.candidates import SelectedItem, Selection, select_candidates
from lethelog.projections.embedders import Embedder, open_embedder
from lethelog.projections.live_memory import LIVE
from lethelog.projections.nearest import PRODUCT_WEIGHTS
from lethelog.projections.neighbours import RefreshReport, clear, refresh
from lethelog.projections.runner import ProjectionRunner, ensure_tables
from lethelog.projections.words import READ_CHARACTERS, SCALE, WORD, Rarity, WordCounts
from lethelog.streams.log import Appended, NewEvent, Unit
from lethelog.streams.master_keys import Keyring
from lethelog.streams.payloads import Actor, Envelope

LATER = timedelta(days=31)
"""Proposals and reaffirmations get the store's own time, so tests look back from later on."""


@dataclass
class Store:
    """One tenant of a real engine."""

    engine: Engine
    tenant: UUID = field(default_factory=uuid4)
    policy: ForgettingPolicy = field(default_factory=ForgettingPolicy)
    floor: float = -1.0
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    last: RefreshReport | None = None

    def __post_init__(self) -> None:
        self.caller = Caller(self.tenant, Actor("person", uuid4()))
        self.commands = MemoryCommands(self.engine)
        self._numbers = itertools.count()

    async def remember(self, content: str | None = None, *, days: float = 60, **more: Any) -> UUID:
        """A memory said so many days before now; a plain text of its own unless one is given."""
        given = {
            "memory_type": "fact",
            "topic": "topic",
            "content": content or f"The service listens on port {8000 + next(self._numbers)}",
            "occurred_at": self.now - timedelta(days=days),
        }
        return (await self.commands.remember(self.caller, given | more)).memory.id

    async def do(self, verb: str, memory_id: UUID, **more: Any) -> Any:
        return await getattr(self.commands, verb)(self.caller, {"memory_id": memory_id, **more})

    async def append(self, stream: UUID, version: int, event: e.Event) -> None:
        envelope = Envelope(Actor("worker", uuid4()), cause=uuid4(), correlation=uuid4())
        unit = Unit(
            tenant=self.tenant, subject=stream, events=[NewEvent(stream, version, event)], envelope=envelope
        )
        assert isinstance(await self.engine.log.append(unit), Appended)

    async def judged(
        self,
        memory_id: UUID,
        action: Any = "keep",
        related: UUID | None = None,
        *,
        with_newer: UUID | None = None,
        becomes: str = "dismissed",
    ) -> UUID:
        """A verdict on a memory and what became of it: dismissed, proposed, applied, rejected or withdrawn."""
        proposal = uuid4()
        said: dict[str, Any] = {
            "pass_id": uuid4(),
            "ref": "s0",
            "rule": "pair" if with_newer else "single",
            "action": action,
            "memory_id": memory_id,
            "related_id": related,
            "probability": 0.9,
            "probabilities": {action: 0.9},
            "judged_pair": (memory_id, with_newer) if with_newer else None,
            "judge": "stated:1",
            "model": "stated:1",
            "seen": {},
            "verdict_event": uuid4(),
        }
        if becomes == "dismissed":
            reason = "keep" if action == "keep" else "below_threshold"
            await self.append(proposal, 1, e.ProposalDismissed(**said, reason=reason))
            return proposal
        await self.append(proposal, 1, e.ProposalStaged(**said, threshold=0.85))
        if becomes == "applied":
            await self.append(proposal, 2, e.ProposalAccepted(memory_id=memory_id))
        elif becomes == "rejected":
            await self.append(proposal, 2, e.ProposalRejected(memory_id=memory_id))
        elif becomes == "withdrawn":
            await self.append(proposal, 2, e.ProposalWithdrawn(memory_id=memory_id, reason="stale"))
        return proposal

    async def catch_up(self) -> int:
        head = await self.engine.log.head()
        for projection in self.engine.projections:
            runner = ProjectionRunner(self.engine.database, self.engine.log, self.engine.tail, projection)
            await runner.catch_up(head)
        return head

    async def refresh(self) -> RefreshReport:
        head = await self.catch_up()
        neighbours = self.policy.pair_neighbours
        self.last = await refresh(self.engine.database, self.tenant, upto_position=head, neighbours=neighbours)
        return self.last

    async def select(self, now: datetime | None = None) -> Selection:
        await self.refresh()
        return await select_candidates(
            self.engine.database, self.tenant, self.policy, now=now or self.now, floor=self.floor
        )

    async def asked(self, later: timedelta = timedelta(0)) -> list[tuple[UUID, ...]]:
        """What would be asked: (memory,) for a single, (older, newer) for a pair."""
        items = (await self.select(self.now + later)).items
        return [(item.memory_id, *item.newer) if item.kind == "pair" else (item.memory_id,) for item in items]

    def only_singles(self) -> None:
        self.policy = self.policy.model_copy(update={"pairs_cap": 0})

    def only_pairs(self) -> None:
        self.policy = self.policy.model_copy(update={"singles_cap": 0})


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return open_embedder()


@pytest.fixture
async def engine(database_url: str, embedder: Embedder) -> AsyncGenerator[Engine]:
    opened = await open_engine(database_url, Keyring.of(b"m" * 32), embedder)
    await ensure_tables(opened.database, opened.projections)
    yield opened
    await opened.close()


@pytest.fixture
async def store(engine: Engine) -> Store:
    opened = Store(engine)
    await engine.tenants.ensure(opened.tenant, opened.caller.actor)
    return opened


def single_of(selection: Selection, memory_id: UUID) -> SelectedItem:
    return next(item for item in selection.items if item.kind == "single" and item.memory_id == memory_id)


# --- which memories qualify ---------------------------------------------------------------------------------------


async def test_freshness_exactly_at_the_window_is_not_stale(store: Store):
    """A21 and behaviour.md 6.3: strictly less than now - 30 d."""
    memory = await store.remember(days=30)
    assert await store.asked() == []
    assert await store.asked(timedelta(microseconds=1)) == [(memory,)]


async def test_of_70_stale_singles_the_60_oldest_are_asked(store: Store):
    """A22. Recalls do not exist here: only reaffirm, move and revise make fresh (F25).

    Forgetting candidates: singles.
    """
    made = [await store.remember(days=40 + n, scope=f"s{n}") for n in range(70)]
    selection = await store.select()
    assert [item.memory_id for item in selection.items] == made[:9:-1]
    assert selection.stale_singles == 70


async def test_events_and_notes_are_in_neither_stream(store: Store):
    """Note/event excluded: a 40-day-old note and event → never candidates."""
    for kind in ("event", "note", "pattern", "commitment"):
        await store.remember(memory_type=kind)
        await store.remember(memory_type=kind)
    selection = await store.select()
    assert (selection.items, selection.pairs, selection.stale_singles) == ((), 0, 0)


async def test_a_single_is_shown_with_its_three_nearest_newer_of_type_and_scope(store: Store):
    store.only_singles()
    memory = await store.remember("The billing service runs on Postgres 14", days=90)
    await store.remember("The billing service ran on Postgres 9", days=95)
    await store.remember("The billing service runs on Postgres 15", days=5, memory_type="decision")
    await store.remember("The billing service runs on Postgres 15", days=5, scope="work")
    await store.remember("Lunch is at noon", days=1)
    near = [
        await store.remember("The billing service runs on Postgres 16", days=80, project="billing"),
        await store.remember("The billing service runs on a Postgres cluster", days=20),
        await store.remember("The billing team runs a service desk", days=10),
    ]
    item = single_of(await store.select(), memory)
    assert item.newer == tuple(near) or set(item.newer) == set(near)
    assert list(item.similarity) != [] and all(0 < one <= 1 for one in item.similarity)
    assert item.seen == {memory: 1} | dict.fromkeys(near, 1)
    assert item.recorded().newer == item.newer


async def test_what_can_only_conflict_is_not_asked_alone(store: Store):
    """Blocker rule: stale blocker alone → no judge item."""
    blocker, pinned = await store.remember(memory_type="blocker"), await store.remember(pinned=True, scope="work")
    assert await store.asked() == []
    newer = await store.remember(days=1, memory_type="blocker")
    await store.remember(days=1, scope="work", project="other")
    assert sorted(await store.asked()) == sorted([(blocker,), (pinned,)])
    await store.do("archive", newer)
    assert await store.asked() == [(pinned,)]


async def test_pairs_need_the_same_type_scope_and_project(store: Store):
    """No project equals no project, and no project is not some project.

    Forgetting candidates: pairs: null project pairs with null project; null with "x" does not.
    """
    store.only_pairs()
    alone = await store.remember(days=50)
    with_project = await store.remember(days=49, project="x")
    await store.remember(days=48, memory_type="preference")
    await store.remember(days=47, scope="work")
    await store.remember(days=46, project="y")
    assert await store.asked() == []
    newer, newer_in_x = await store.remember(days=20), await store.remember(days=19, project="x")
    assert sorted(await store.asked()) == sorted([(alone, newer), (with_project, newer_in_x)])


async def test_blockers_make_no_pairs(store: Store):
    store.only_pairs()
    for days in (50, 40):
        await store.remember(days=days, memory_type="blocker")
    assert await store.asked() == []


async def test_one_judgment_per_memory_and_run(store: Store):
    """A23. One judgment per run."""
    chain = [await store.remember(f"The cache holds entries for {n} minutes", days=90 - n) for n in (5, 10, 15)]
    selection = await store.select()
    asked = [
        one
        for item in selection.items
        for one in ((item.memory_id, *item.newer) if item.kind == "pair" else (item.memory_id,))
    ]
    assert sorted(asked) == sorted(chain) and len(set(asked)) == 3
    assert (selection.pairs, selection.stale_singles) == (3, 3)
    assert [item.ref for item in selection.items] == ["p0", "s0"]


async def test_the_older_side_stale_goes_first_then_rank(store: Store):
    store.only_pairs()
    store.policy = store.policy.model_copy(update={"pairs_cap": 1})
    fresh = (
        await store.remember("Deploys go out on Tuesday", days=10, scope="a"),
        await store.remember("Deploys go out on Tuesdays", days=9, scope="a"),
    )
    stale = (
        await store.remember("Backups are kept for a year", days=50, scope="b"),
        await store.remember("Logs live in the cellar", days=9, scope="b"),
    )
    selection = await store.select()
    assert [(item.memory_id, *item.newer) for item in selection.items] == [stale]
    assert selection.items[0].rank == 1 and selection.pairs == 2
    store.policy = store.policy.model_copy(update={"pairs_cap": 2})
    assert await store.asked() == [stale, fresh]


async def test_the_floor_cuts_pairs_at_equality_and_never_a_singles_neighbours(store: Store):
    older, newer = (
        await store.remember("Deploys go out on Tuesday"),
        await store.remember("Cats sleep a lot", days=1),
    )
    store.only_pairs()
    [item] = (await store.select()).items
    store.floor = item.similarity[0]
    assert await store.asked() == [(older, newer)]
    store.floor += 1e-6
    assert await store.asked() == []
    store.policy = ForgettingPolicy()
    assert single_of(await store.select(), older).newer == (newer,)


async def test_an_old_statement_that_arrives_late_is_the_older_side(store: Store):
    """F20: newer is by when it was said, not by when it was stored."""
    store.only_pairs()
    newer = await store.remember("Kiran moved to Electronic City", days=35)
    late = await store.remember("Kiran lives in Whitefield", days=39)
    assert await store.asked() == [(late, newer)]


async def test_ended_memories_leave_every_list_and_expired_ones_stay(store: Store):
    older = await store.remember(days=90)
    newer = [await store.remember(days=80 - n) for n in range(5)]
    await store.refresh()
    await store.do("archive", newer[0])
    await store.do("refute", newer[1])
    await store.do(
        "revise", newer[2], content="The service listens on a socket", occurred_at=store.now - timedelta(days=100)
    )
    await store.do("suppress", newer[3], plan_id=uuid4(), approver="ann", reason="low value")
    store.only_singles()
    assert single_of(await store.select(), older).newer == (newer[4],)
    expired = await store.remember(days=85, expires_at=store.now - timedelta(days=1))
    assert set(single_of(await store.select(), older).newer) == {newer[4], expired}
    await store.do("restore", newer[0])
    assert set(single_of(await store.select(), older).newer) == {newer[0], newer[4], expired}


async def test_another_tenants_memories_are_never_seen(store: Store, engine: Engine):
    store.only_pairs()
    other = Store(engine)
    await engine.tenants.ensure(other.tenant, other.caller.actor)
    await store.remember("Deploys go out on Tuesday")
    await other.remember("Deploys go out on Thursday", days=1)
    assert await store.asked() == [] == await other.asked()
    with pytest.raises(NotCaughtUp):
        await select_candidates(engine.database, uuid4(), store.policy, now=store.now, floor=0)


# --- what was asked before ----------------------------------------------------------------------------------------


async def two(store: Store) -> tuple[UUID, UUID]:
    store.only_pairs()
    return await store.remember(days=60), await store.remember(days=50)


@pytest.mark.parametrize("becomes", ["dismissed", "proposed", "applied", "rejected"])
async def test_a_pair_asked_once_is_not_asked_again_until_a_side_is_fresh(store: Store, becomes: str):
    """A16, and the second run of F31: whatever came of it. Fresh on *both* sides counts from the later one."""
    older, newer = await two(store)
    assert await store.asked() == [(older, newer)]
    await store.judged(older, "conflict", newer, with_newer=newer, becomes=becomes)
    assert await store.asked() == [] == await store.asked(LATER)
    if becomes != "proposed":
        await store.do("reaffirm", newer)
        blocked = becomes == "rejected"  # settlement 9: only with what comes after the rejection
        assert await store.asked(LATER) == ([] if blocked else [(older, newer)])
        await store.do("reaffirm", older)
        assert await store.asked(LATER) == [(older, newer)]


async def test_a_pair_is_the_same_pair_in_either_order(store: Store):
    """Settlement 8: a late statement may turn the two round."""
    older, newer = await two(store)
    await store.judged(newer, "keep", with_newer=older)
    assert await store.asked() == []


async def test_a_withdrawn_proposal_was_not_decided_and_may_be_asked_again(store: Store):
    """Settlement 6."""
    older, newer = await two(store)
    await store.judged(older, "supersede", newer, with_newer=newer, becomes="withdrawn")
    assert await store.asked() == [(older, newer)]
    store.policy = ForgettingPolicy(pairs_cap=0)
    assert (older,) in await store.asked()


@pytest.mark.parametrize("becomes", ["dismissed", "proposed", "rejected"])
async def test_a_single_verdict_that_names_the_newer_one_counts_for_the_pair(store: Store, becomes: str):
    older, newer = await two(store)
    await store.judged(older, "supersede", newer, becomes=becomes)
    assert await store.asked() == []
    third = await store.remember(days=1)
    await store.do("archive", newer)
    assert await store.asked() == [(older, third)]


async def test_a_memory_derived_from_another_makes_no_pair_with_it(store: Store):
    """An edge between the two exists already (behaviour.md 1.16)."""
    store.only_pairs()
    older = await store.remember(days=60)
    await store.remember(days=50, derived_from=[older])
    assert await store.asked() == []


async def test_a_revision_replaces_its_predecessor_without_being_asked(store: Store):
    older = await store.remember(days=60)
    await store.do("revise", older, content="The service listens on a socket")
    assert await store.asked() == []


async def test_kept_until_reaffirmed_and_stale_again(store: Store):
    """A28. Reaffirm; reopening: freshness moves."""
    memory = await store.remember()
    await store.judged(memory)
    assert await store.asked() == [] == await store.asked(LATER)
    await store.do("reaffirm", memory)
    assert await store.asked() == []
    assert await store.asked(LATER) == [(memory,)]


@pytest.mark.parametrize("action", ["keep", "archive"])
async def test_kept_or_unsure_is_reopened_by_a_newer_neighbour_recorded_afterwards(store: Store, action: str):
    """Settlement 8: among its three nearest, and recorded after the verdict."""
    store.only_singles()
    memory = await store.remember("The billing service runs on Postgres 14", days=90)
    for n in range(3):
        await store.remember(f"The billing service runs on Postgres {15 + n}", days=20 - n)
    await store.judged(memory, action)
    assert (memory,) not in await store.asked()
    await store.remember("Cats sleep a lot", days=1)
    assert (memory,) not in await store.asked(), "newer, but not near"
    await store.remember("The billing service runs on Postgres 14 no more", days=10)
    assert (memory,) in await store.asked()


async def test_a_pair_that_was_kept_settles_the_older_one_as_a_single_too(store: Store):
    older, newer = await store.remember(days=60), await store.remember(days=1)
    await store.judged(older, "keep", with_newer=newer)
    assert await store.asked() == []


@pytest.mark.parametrize("action", ["archive", "supersede"])
async def test_a_rejected_single_is_not_reopened_by_a_newer_memory_but_meets_it_as_a_pair(
    store: Store, action: str
):
    """A34 and settlement 9: rejected archive, no single supersede; a pair only with what was recorded since.

    Reopening: reject, then add newer neighbour → no single; pair possible.
    """
    older, newer = await store.remember(days=60), await store.remember(days=50)
    await store.judged(older, action, newer if action == "supersede" else None, becomes="rejected")
    assert await store.asked() == [(newer,)]
    third = await store.remember(days=1)
    await store.do("archive", newer)
    assert await store.asked() == [(older, third)]
    store.only_singles()
    assert (older,) not in await store.asked(LATER)
    await store.do("reaffirm", older)
    assert (older,) in await store.asked(LATER)


async def test_the_newer_side_of_an_open_proposal_is_not_asked_alone(store: Store):
    store.only_singles()
    older, newer = await store.remember(days=60), await store.remember(days=50)
    proposal = await store.judged(older, "conflict", newer, with_newer=newer, becomes="proposed")
    assert await store.asked() == []
    await store.append(proposal, 2, e.ProposalAccepted(memory_id=older))
    assert await store.asked() == [(newer,)], "an applied conflict settles the judged one until it is fresh"
    await store.do("reaffirm", older)
    assert (older,) in await store.asked(LATER)


async def test_an_open_proposal_blocks_even_a_memory_that_became_fresh_and_stale_again(store: Store):
    store.only_singles()
    memory = await store.remember()
    await store.judged(memory, "archive", becomes="proposed")
    await store.do("reaffirm", memory)
    assert await store.asked(LATER) == []


# --- keeping the lists ----------------------------------------------------------------------------------------------


async def read_lists(store: Store) -> dict[UUID, dict[str, Any]]:
    async with store.engine.database.connection() as connection:
        cursor = await connection.execute(
            "select memory_id, pair_ids, pair_similarities, single_ids, single_similarities "
            "from lethelog_views.candidate_neighbours where tenant = %s",
            (store.tenant,),
        )
        return {row[0]: {"pair": (row[1], row[2]), "single": (row[3], row[4])} for row in await cursor.fetchall()}


async def expected_lists(store: Store) -> dict[UUID, dict[str, Any]]:
    """Every list by a plain computation over live memory, with the word statistics as they were counted."""
    async with store.engine.database.connection() as connection:
        cursor = await connection.execute(
            "select memory_id, memory_type, scope, project, topic || E'\\n' || content, embedding::text "
            "from lethelog_views.live_memory where tenant = %s and memory_type = any(%s) "
            f"and {LIVE} order by occurred_at, memory_id",
            (store.tenant, list(STALE_TYPES)),
        )
        rows = await cursor.fetchall()
        cursor = await connection.execute(
            "select memory_type, scope, members, words, occurrences from lethelog_views.candidate_groups where tenant = %s",
            (store.tenant,),
        )
        rarities = {
            row[:2]: Rarity(row[2], np.frombuffer(row[3], np.uint32), np.frombuffer(row[4], np.uint32))
            for row in await cursor.fetchall()
        }
    lists: dict[UUID, dict[str, Any]] = {}
    for group, members in itertools.groupby(sorted(rows, key=lambda row: row[1:3]), key=lambda row: row[1:3]):
        lists |= expected_group(
            list(members), rarities[group], store.policy.pair_neighbours if group[0] in PAIR_TYPES else 0
        )
    return lists


def expected_group(rows: list[Any], rarity: Rarity, pair_count: int) -> dict[UUID, dict[str, Any]]:
    counted = WordCounts.of([row[4][:READ_CHARACTERS] for row in rows])
    words = [dict(np.frombuffer(each, WORD).tolist()) for each in rarity.vectors(counted)]
    vectors = np.array([[float(one) for one in row[5].strip("[]").split(",")] for row in rows])
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    whole = np.rint(unit * SCALE).astype(int)

    def nearest(at: int, to: list[int], count: int) -> tuple[list[UUID], Any]:
        def key(other: int) -> tuple[int, int]:
            shared = sum(weight * words[other].get(word, 0) for word, weight in words[at].items())
            return (int(whole[at] @ whole[other]) + PRODUCT_WEIGHTS.words * shared, other)

        best = sorted(to, key=key, reverse=True)[:count]
        return [rows[other][0] for other in best], pytest.approx(
            [unit[at] @ unit[other] for other in best], abs=1e-5
        )

    lists: dict[UUID, dict[str, Any]] = {}
    for at, row in enumerate(rows):
        newer = list(range(at + 1, len(rows)))
        same_project = [other for other in newer if rows[other][3] == row[3]]
        lists[row[0]] = {"pair": nearest(at, same_project, pair_count), "single": nearest(at, newer, 3)}
    return lists


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_lists_kept_up_to_date_equal_lists_made_anew(store: Store, seed: int):
    """Whatever comes, goes, moves and comes back, in groups that are counted again and in ones that are not."""
    chance = random.Random(seed)
    store.policy = store.policy.model_copy(update={"pair_neighbours": 2})
    words = [f"word{n}" for n in range(40)]
    alive: list[UUID] = []
    ended: list[UUID] = []

    async def another() -> None:
        alive.append(
            await store.remember(
                " ".join(chance.sample(words, 6)) + f" {len(alive) + len(ended)}",
                days=chance.randint(1, 50),
                memory_type=chance.choice(["fact", "fact", "decision", "blocker", "note"]),
                **({"project": chance.choice("xy")} if chance.random() < 0.6 else {}),
            )
        )

    for _ in range(70):
        await another()
    whole = changed = 0
    for _ in range(7):
        report = await store.refresh()
        whole, changed = whole + report.groups_whole, changed + report.groups_changed
        assert await read_lists(store) == await expected_lists(store)
        assert (await store.refresh()).lists_written == 0
        for _ in range(chance.randint(1, 3)):
            verb = chance.choice(["remember", "archive", "restore", "move", "reaffirm", "pin", "refute", "revise"])
            one = chance.choice(alive)
            if verb == "remember":
                await another()
            elif verb in ("archive", "refute"):
                await store.do(verb, one)
                alive.remove(one)
                ended += [one] if verb == "archive" else []
            elif verb == "restore" and ended:
                await store.do("restore", ended[-1])
                alive.append(ended.pop())
            elif verb == "move":
                await store.do(
                    "move", one, **({"project": "x"} if chance.random() < 0.5 else {"no_project": True})
                )
            elif verb in ("reaffirm", "pin"):
                await store.do(verb, one)
            elif verb == "revise":
                alive.remove(one)
                alive.append((await store.do("revise", one, content=" ".join(chance.sample(words, 7)))).memory.id)
    assert whole > 3 and changed > 0


async def test_a_cache_that_was_dropped_comes_back_the_same(store: Store):
    for n in range(12):
        await store.remember(days=60 - n, memory_type=("fact", "decision")[n % 2])
    first = await store.refresh()
    before = await read_lists(store)
    assert (first.reset, first.added, first.groups_whole, first.lists_written) == (True, 12, 2, 12)
    await clear(store.engine.database, store.tenant)
    assert await read_lists(store) == {}
    assert (await store.refresh()).reset
    assert await read_lists(store) == before


async def test_other_settings_make_every_list_anew(store: Store):
    store.only_pairs()
    for n in range(6):
        await store.remember(days=60 - n)
    await store.refresh()
    store.policy = store.policy.model_copy(update={"pair_neighbours": 1})
    assert (await store.refresh()).reset
    assert {len(lists["pair"][0]) for lists in (await read_lists(store)).values()} == {0, 1}


async def test_an_erased_memory_leaves_no_list_and_no_word_count_behind(store: Store):
    made = [await store.remember(f"Fact {n} of many", days=60 - n) for n in range(30)]
    gone = await store.remember("Xylophone", days=1)
    await store.refresh()
    async with store.engine.database.transaction() as connection:
        # What erasure does to the row; the event that leads to it is not part of this.
        await connection.execute(
            "delete from lethelog_views.live_memory where tenant = %s and memory_id = %s", (store.tenant, gone)
        )
    report = await store.refresh()
    assert (report.removed, report.groups_whole, report.groups_changed) == (1, 1, 0)
    lists = await read_lists(store)
    assert set(lists) == set(made)
    assert all(gone not in one["pair"][0] + one["single"][0] for one in lists.values())
    async with store.engine.database.connection() as connection:
        cursor = await connection.execute(
            "select members from lethelog_views.candidate_groups where tenant = %s", (store.tenant,)
        )
        assert await cursor.fetchall() == [(30,)]


async def test_a_vector_that_comes_later_enters_the_lists_without_any_event(store: Store):
    """While it lacks one, a memory is found by its words and never passes for similar."""
    store.only_pairs()
    older, newer = (
        await store.remember("Deploys go out on Tuesday"),
        await store.remember("Deploys go out on Friday", days=1),
    )
    await store.catch_up()
    async with store.engine.database.transaction() as connection:
        await connection.execute(
            "update lethelog_views.live_memory set embedding = null, embedding_model = null where tenant = %s and memory_id = %s",
            (store.tenant, newer),
        )
    [item] = (await store.select()).items
    assert (item.memory_id, item.newer, item.similarity) == (older, (newer,), (0.0,))
    assert await store.engine.live_memory.fill_vectors(store.engine.database) == 1
    [item] = (await store.select()).items
    assert item.similarity[0] > 0.5


async def test_two_refreshes_at_once_do_the_work_once(store: Store):
    for n in range(8):
        await store.remember(days=60 - n)
    head = await store.catch_up()
    both = await asyncio.gather(
        *(refresh(store.engine.database, store.tenant, upto_position=head, neighbours=5) for _ in range(2))
    )
    assert sorted(report.lists_written for report in both) == [0, 8]
    assert await read_lists(store) == await expected_lists(store)


async def test_lists_are_not_made_for_a_position_that_live_memory_has_not_reached(store: Store):
    await store.remember()
    await store.refresh()
    await store.remember()
    head = await store.engine.log.head()
    with pytest.raises(NotCaughtUp):
        await refresh(store.engine.database, store.tenant, upto_position=head, neighbours=5)


async def test_a_memory_without_any_word_takes_part(store: Store):
    older = await store.remember("🙂", topic="…")
    assert await store.asked() == [(older,)]
    for n in range(11):
        await store.remember(days=30 - n)
    await store.refresh()
    await store.remember("🙃", topic="…", days=1)
    await store.refresh()
    assert len((await read_lists(store))[older]["single"][0]) == 3
    assert (await read_lists(store)).keys() == (await expected_lists(store)).keys()
