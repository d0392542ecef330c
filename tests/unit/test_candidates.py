"""Which memories a run asks about, and what nearness is made of (behaviour.md 1.16)."""

import random
from datetime import UTC, datetime, timedelta
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lethelog.domain.candidates import Pair, Stale, choose
from lethelog.domain.policy import PAIR_TYPES, STALE_TYPES
from lethelog.projections import nearest
from lethelog.projections.nearest import PRODUCT_WEIGHTS, Group, merged
from lethelog.projections.words import SCALE, WORD, WORDS_PER_MEMORY, Rarity, WordCounts, words_of

NOW = datetime(2026, 3, 1, tzinfo=UTC)
TYPES = ("decision", "commitment", "blocker", "fact", "preference", "pattern", "note", "event")


def memory(number: int) -> UUID:
    return UUID(int=number)


def single(
    number: int, *, days: float = 40, kind: str = "fact", newer: tuple[int, ...] = (), guarded: bool = False
) -> Stale:
    return Stale(
        memory(number),
        kind,
        NOW - timedelta(days=days),
        guarded,
        tuple(map(memory, newer)),
        tuple(0.5 for _ in newer),
    )


def pair(
    older: int, newer: int, *, rank: int = 1, stale: bool = True, similarity: float = 0.5, kind: str = "fact"
) -> Pair:
    return Pair(memory(older), memory(newer), kind, stale, rank, similarity)


small = st.integers(0, 12)
singles = st.lists(
    st.builds(
        single,
        small,
        days=st.integers(0, 5),
        kind=st.sampled_from(TYPES),
        newer=st.lists(small, max_size=3, unique=True).map(tuple),
        guarded=st.booleans(),
    ),
    max_size=15,
)
pairs = st.lists(
    st.builds(
        pair,
        small,
        small,
        rank=st.integers(1, 3),
        stale=st.booleans(),
        similarity=st.sampled_from([0.1, 0.5, 0.9]),
        kind=st.sampled_from(TYPES),
    ),
    max_size=20,
)


@given(singles, pairs, st.integers(0, 8), st.integers(0, 8), st.randoms(use_true_random=False))
def test_a_choice_keeps_every_rule(
    some: list[Stale], others: list[Pair], singles_cap: int, pairs_cap: int, chance: random.Random
):
    chosen = choose(some, others, singles_cap=singles_cap, pairs_cap=pairs_cap)

    judged = [one.single.memory_id for one in chosen.singles]
    judged += [side for one in chosen.pairs for side in (one.pair.older, one.pair.newer)]
    assert len(judged) == len(set(judged)), "one judgment per memory and run"
    assert len(chosen.singles) <= singles_cap and len(chosen.pairs) <= pairs_cap
    assert all(one.single.memory_type in STALE_TYPES for one in chosen.singles)
    assert all(one.pair.memory_type in PAIR_TYPES for one in chosen.pairs), "no event, no note"
    assert all(
        one.single.newer for one in chosen.singles if one.single.memory_type == "blocker" or one.single.guarded
    )
    assert [one.ref for one in chosen.pairs] == [f"p{n}" for n in range(len(chosen.pairs))]
    assert [one.ref for one in chosen.singles] == [f"s{n}" for n in range(len(chosen.singles))]
    assert [one.pair for one in chosen.pairs] == sorted((one.pair for one in chosen.pairs), key=Pair.order)
    ages = [one.single.fresh_at for one in chosen.singles]
    assert ages == sorted(ages), "most stale first"


@given(singles, pairs, st.integers(0, 8), st.integers(0, 8), st.randoms(use_true_random=False))
def test_the_order_they_come_in_changes_nothing(
    some: list[Stale], others: list[Pair], singles_cap: int, pairs_cap: int, chance: random.Random
):
    some = list({one.memory_id: one for one in some}.values())
    others = list({(one.older, one.newer): one for one in others}.values())
    first = choose(some, others, singles_cap=singles_cap, pairs_cap=pairs_cap)
    chance.shuffle(some)
    chance.shuffle(others)
    assert choose(some, others, singles_cap=singles_cap, pairs_cap=pairs_cap) == first


@given(pairs, st.integers(0, 8))
def test_a_pair_left_out_meets_a_better_one_or_the_cap(others: list[Pair], cap: int):
    chosen = [one.pair for one in choose((), others, singles_cap=0, pairs_cap=cap).pairs]
    for left in others:
        if left in chosen or left.memory_type not in PAIR_TYPES or left.older == left.newer or len(chosen) == cap:
            continue
        better = [one for one in chosen if {one.older, one.newer} & {left.older, left.newer}]
        assert any(one.order() <= left.order() for one in better)


def test_of_70_stale_singles_the_60_oldest_are_judged():
    """A22."""
    some = [single(n, days=31 + n) for n in range(70)]
    chosen = choose(some, (), singles_cap=60, pairs_cap=40)
    assert [one.single for one in chosen.singles] == [single(n, days=31 + n) for n in range(69, 9, -1)]


def test_a_pair_that_shares_a_memory_waits_and_a_single_in_a_pair_is_judged_only_there():
    """A23. One judgment per run: greedy by rank."""
    chosen = choose(
        [single(1, days=90), single(6)],
        [pair(1, 2, rank=1), pair(2, 3, rank=2), pair(4, 5, rank=3)],
        singles_cap=60,
        pairs_cap=40,
    )
    assert [(one.ref, one.pair.older.int, one.pair.newer.int) for one in chosen.pairs] == [
        ("p0", 1, 2),
        ("p1", 4, 5),
    ]
    assert [(one.ref, one.single.memory_id.int) for one in chosen.singles] == [("s0", 6)]


def test_pairs_go_stale_first_then_by_rank_then_by_similarity_then_by_id():
    """Settlement 7."""
    ordered = [
        pair(1, 21, rank=1, similarity=0.5),
        pair(2, 22, rank=2, similarity=0.9),
        pair(3, 23, rank=2, similarity=0.8),
        pair(4, 24, rank=2, similarity=0.8),
        pair(5, 25, rank=1, similarity=0.99, stale=False),
    ]
    chosen = choose((), reversed(ordered), singles_cap=60, pairs_cap=40)
    assert [one.pair for one in chosen.pairs] == ordered


def test_what_can_only_conflict_is_not_judged_without_a_newer_neighbour():
    """Blocker rule: none without a newer neighbour."""
    chosen = choose(
        [
            single(1, kind="blocker"),
            single(2, kind="blocker", newer=(9,)),
            single(3, guarded=True),
            single(4, guarded=True, newer=(9,)),
        ],
        (),
        singles_cap=60,
        pairs_cap=40,
    )
    assert [one.single.memory_id.int for one in chosen.singles] == [2, 4]


# --- words ------------------------------------------------------------------------------------------------------


def test_words_are_cut_folded_and_read_in_scripts_without_spaces():
    assert words_of("Deployments DEPLOYING, re-deploy_ed ﬁve") == [
        "deploy",
        "deploy",
        "re",
        "deploy",
        "ed",
        "five",
    ]
    assert words_of("部署到东京") == ["部署", "署到", "到东", "东京"]
    assert words_of("株") == ["株"]
    assert words_of("Straße ΣΊΣΥΦΟΣ") == ["strass", "σίσυφο"]
    assert words_of(" \n—…🙂") == []


def read(vector: bytes) -> dict[int, int]:
    return {int(entry["word"]): int(entry["weight"]) for entry in np.frombuffer(vector, WORD)}


def test_a_word_vector_has_the_stated_length_and_favours_rare_words():
    counted = WordCounts.of(["common rare", "common", "common other", ""])
    vectors = [read(each) for each in Rarity.of(counted).vectors(counted)]
    assert [len(each) for each in vectors] == [2, 1, 2, 0]
    assert np.sqrt(sum(w * w for w in vectors[0].values())) == pytest.approx(SCALE, abs=2)
    assert sorted(vectors[0].values())[1] > 2 * sorted(vectors[0].values())[0]


def test_a_word_vector_depends_on_its_own_text_and_the_statistics_only():
    texts = [" ".join(f"w{n * k % 97}" for k in range(1, 90)) for n in range(1, 30)]
    counted = WordCounts.of(texts)
    rarity = Rarity.of(counted)
    together = rarity.vectors(counted)
    assert together == [rarity.vectors(WordCounts.of([text]))[0] for text in texts]
    assert together == rarity.vectors(WordCounts.joined([WordCounts.of(texts[:11]), WordCounts.of(texts[11:])]))
    assert max(len(read(each)) for each in together) == WORDS_PER_MEMORY


# --- nearness ---------------------------------------------------------------------------------------------------

DIMENSIONS = 8


def halves(vector: list[float]) -> bytes:
    return b"\0\x08\0\0" + np.array(vector, ">f2").tobytes()


def expected_score(a: tuple[bytes | None, bytes], b: tuple[bytes | None, bytes]) -> int:
    """Nearness in plain whole numbers of Python."""

    def whole(vector: bytes | None) -> list[int]:
        values = np.zeros(DIMENSIONS) if vector is None else np.frombuffer(vector[4:], ">f2").astype(np.float32)
        length = np.linalg.norm(values[None].astype(np.float32), axis=1)[0]
        return [int(v) for v in np.rint(values.astype(np.float32) * np.float32(SCALE / (length or 1)))]

    words_a, words_b = read(a[1]), read(b[1])
    cosine = sum(x * y for x, y in zip(whole(a[0]), whole(b[0]), strict=True))
    return cosine + PRODUCT_WEIGHTS.words * sum(weight * words_b.get(word, 0) for word, weight in words_a.items())


texts = st.lists(st.sampled_from(["alpha", "beta", "gamma", "delta", "epsilon", "zeta"]), max_size=5).map(" ".join)
vectors = st.one_of(
    st.none(),
    st.lists(st.sampled_from([-1.0, 0.0, 0.25, 1.0]), min_size=DIMENSIONS, max_size=DIMENSIONS).map(halves),
)
groups = st.lists(st.tuples(vectors, texts, st.integers(0, 2)), min_size=1, max_size=14)


@settings(max_examples=150, deadline=None)
@given(groups, st.integers(0, 6), st.booleans(), st.integers(1, 60))
def test_the_nearest_newer_are_those_of_a_plain_computation(
    members: list[tuple[bytes | None, str, int]], count: int, same_project: bool, cells: int
):
    counted = WordCounts.of([text for _, text, _ in members])
    words = Rarity.of(counted).vectors(counted)
    group = Group([vector for vector, _, _ in members], words, [project for _, _, project in members])
    before, nearest.BLOCK_CELLS = nearest.BLOCK_CELLS, cells
    try:
        found = []
        for rows in group.blocks(np.arange(group.size)):
            first = int(rows[0]) + 1
            lists = group.nearest_newer(
                rows, group.scores(rows, first), count, first=first, same_project=same_project
            )
            found += zip(lists.places.tolist(), lists.scores.tolist(), strict=True)
    finally:
        nearest.BLOCK_CELLS = before
    for row, (places, scores) in enumerate(found):
        expected = sorted(
            (-expected_score((members[row][0], words[row]), (members[at][0], words[at])), -at)
            for at in range(row + 1, len(members))
            if not same_project or members[at][2] == members[row][2]
        )[:count]
        assert [at for at in places if at >= 0] == [-at for _, at in expected]
        assert [score for at, score in zip(places, scores, strict=True) if at >= 0] == [
            -score for score, _ in expected
        ]


def test_similarity_is_the_cosine_and_zero_where_there_is_no_vector():
    one, other = halves([3, 4, 0, 0, 0, 0, 0, 0]), halves([4, 3, 0, 0, 0, 0, 0, 0])
    group = Group([one, other, None], [b"", b"", b""], [0, 0, 0])
    assert group.similarities(np.array([0, 0, 1]), np.array([0, 1, 2])).tolist() == [1.0, 0.96, 0.0]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 99), st.integers(0, 5)), unique_by=lambda one: one[:2]),
    st.integers(0, 4),
)
def test_merging_keeps_the_best_of_each_owner(entries: list[tuple[int, int, int]], count: int):
    owners, places, scores = (np.array([one[n] for one in entries], np.int64) for n in range(3))
    kept = list(zip(*(column.tolist() for column in merged(owners, places, scores, count)), strict=True))
    expected = []
    for owner in range(4):
        own = sorted((one for one in entries if one[0] == owner), key=lambda one: (-one[2], -one[1]))
        expected += own[:count]
    assert kept == expected
