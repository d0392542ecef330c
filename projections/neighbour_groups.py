"""Computes and stores the lists of one group: as a whole, or only what a change can have touched."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ..domain.policy import PAIR_TYPES
from ..streams.database import Connection
from .live_memory import LIVE
from .nearest import Group, Lists, Places, merged
from .words import READ_CHARACTERS, Rarity, WordCounts

PAGE = 500
"""Memories whose texts are held at once."""
_TEXT = f"left(topic || E'\\n' || content, {READ_CHARACTERS})"


@dataclass(frozen=True, slots=True)
class GroupKey:
    """Within which memories are compared: one tenant, one type, one scope."""

    tenant: UUID
    memory_type: str
    scope: str

    @property
    def values(self) -> tuple[UUID, str, str]:
        return (self.tenant, self.memory_type, self.scope)


@dataclass(frozen=True, slots=True)
class _Written:
    """Lists to store. ``words`` is None where they stand already."""

    ids: Sequence[UUID]
    words: Sequence[bytes] | None
    pair: "_Entries"
    single: "_Entries"


@dataclass(frozen=True, slots=True)
class _Entries:
    """List entries, sorted by owner and best first. ``owners`` are indices into the ids that are written."""

    owners: Places
    places: Places
    scores: NDArray[np.int64]
    similarities: NDArray[np.float64]


async def refresh_whole(
    connection: Connection, schema: str, key: GroupKey, pair_count: int, single_count: int
) -> int:
    """Count the group's words anew and make every list. Returns how many memories it has."""
    ids: list[UUID] = []
    projects: list[UUID | None] = []
    vectors: list[bytes | None] = []
    counted: list[WordCounts] = []
    async with connection.cursor(name="whole_group", binary=True) as cursor:
        await cursor.execute(
            (
                f"select memory_id, project, public.halfvec_send(embedding), {_TEXT} from {schema}.live_memory "
                f"where tenant = %s and memory_type = %s and scope = %s and {LIVE} order by occurred_at, memory_id"
            ).encode(),
            key.values,
        )
        while page := await cursor.fetchmany(PAGE):
            ids += [row[0] for row in page]
            projects += [row[1] for row in page]
            vectors += [row[2] for row in page]
            counted.append(await asyncio.to_thread(WordCounts.of, [row[3] for row in page]))
    where = "tenant = %s and memory_type = %s and scope = %s"
    await connection.execute(f"delete from {schema}.candidate_neighbours where {where}", key.values)
    await connection.execute(f"delete from {schema}.candidate_groups where {where}", key.values)
    if not ids:
        return 0

    def compute() -> tuple[Rarity, _Written]:
        counts = WordCounts.joined(counted)
        rarity = Rarity.of(counts)
        words = rarity.vectors(counts)
        group = Group(vectors, words, _numbered(projects))
        rows = np.arange(group.size)
        pair, single = _lists(group, rows, key.memory_type, pair_count, single_count)
        return rarity, _Written(ids, words, _entries(group, rows, pair), _entries(group, rows, single))

    rarity, written = await asyncio.to_thread(compute)
    await connection.execute(
        f"insert into {schema}.candidate_groups (tenant, memory_type, scope, members, changes, words, occurrences) "
        "values (%s, %s, %s, %s, 0, %s, %s)",
        (*key.values, len(ids), rarity.words.tobytes(), rarity.occurrences.tobytes()),
    )
    return await _store(connection, schema, key, ids, written)


async def refresh_changed(
    connection: Connection,
    schema: str,
    key: GroupKey,
    pair_count: int,
    single_count: int,
    *,
    removed: Sequence[UUID],
    changes: int,
) -> int:
    """Make the lists of new members and of those that lost an entry, and let the new ones into others' lists.

    ``changes`` is how many members came and went since the words were counted. Returns how many memories' lists
    were written.
    """
    cursor = await connection.execute(
        f"update {schema}.candidate_groups set changes = %s "
        "where tenant = %s and memory_type = %s and scope = %s returning members, words, occurrences",
        (changes, *key.values),
    )
    frozen = await cursor.fetchone()
    assert frozen is not None
    rarity = Rarity(frozen[0], np.frombuffer(frozen[1], np.uint32), np.frombuffer(frozen[2], np.uint32))
    async with connection.cursor(binary=True) as reading:
        await reading.execute(
            _MEMBERS.format(schema=schema).encode(),
            {
                "tenant": key.tenant,
                "type": key.memory_type,
                "scope": key.scope,
                "removed": list(removed),
                "pairs": pair_count,
                "singles": single_count,
            },
        )
        members = await reading.fetchall()
    ids: list[UUID] = [row[0] for row in members]
    fresh = np.flatnonzero([row[3] is None for row in members])
    broken = np.flatnonzero([bool(row[6]) for row in members])
    rows = np.sort(np.concatenate([fresh, broken]))
    lowest = {
        "pair": np.array([_bound(row[4]) for row in members], np.int64),
        "single": np.array([_bound(row[5]) for row in members], np.int64),
    }

    def compute() -> tuple[Group, list[bytes], Lists, Lists, dict[str, tuple[Places, Places, Any]]]:
        new_words = rarity.vectors(WordCounts.of([members[at][7] for at in fresh]))
        words = [row[3] for row in members]
        for at, vector in zip(fresh, new_words, strict=True):
            words[at] = vector
        group = Group([row[2] for row in members], words, _numbered([row[1] for row in members]))
        pair, single = _lists(group, rows, key.memory_type, pair_count, single_count)
        entering = _entering(group, fresh, rows, lowest, pairs=key.memory_type in PAIR_TYPES)
        return group, words, pair, single, entering

    group, words, pair, single, entering = await asyncio.to_thread(compute)
    owners = np.unique(np.concatenate([entering["pair"][0], entering["single"][0]]))
    present = await _read_lists(connection, schema, key.tenant, [ids[at] for at in owners])

    def merge() -> tuple[_Written, _Written]:
        own = _Written(
            [ids[at] for at in rows],
            [words[at] for at in rows],
            _entries(group, rows, pair),
            _entries(group, rows, single),
        )
        place_of = {memory_id: place for place, memory_id in enumerate(ids)}
        others = _Written(
            [ids[at] for at in owners],
            None,
            _grown(group, owners, place_of, present, 0, entering["pair"], pair_count),
            _grown(group, owners, place_of, present, 2, entering["single"], single_count),
        )
        return own, others

    own, others = await asyncio.to_thread(merge)
    return await _store(connection, schema, key, ids, own, others)


def _lists(
    group: Group, rows: Places, memory_type: str, pair_count: int, single_count: int
) -> tuple[Lists, Lists]:
    """(pair lists, single lists) of these rows; types that make no pairs have empty pair lists."""
    if memory_type not in PAIR_TYPES:
        pair_count = 0
    pairs: list[Lists] = []
    singles: list[Lists] = []
    for block in group.blocks(rows):
        scores = group.scores(block)
        if group.one_project:
            both = group.nearest_newer(block, scores, max(pair_count, single_count), same_project=False)
            pairs.append(_head(both, pair_count))
            singles.append(_head(both, single_count))
        else:
            pairs.append(group.nearest_newer(block, scores, pair_count, same_project=True))
            singles.append(group.nearest_newer(block, scores, single_count, same_project=False))
    return _stacked(pairs, pair_count), _stacked(singles, single_count)


def _head(lists: Lists, count: int) -> Lists:
    return Lists(lists.places[:, :count], lists.scores[:, :count])


def _stacked(parts: Sequence[Lists], count: int) -> Lists:
    nothing = np.empty((0, count), np.int64)
    return Lists(
        np.concatenate([nothing, *(part.places for part in parts)]),
        np.concatenate([nothing, *(part.scores for part in parts)]),
    )


def _entering(
    group: Group, fresh: Places, rows: Places, lowest: dict[str, NDArray[np.int64]], *, pairs: bool
) -> dict[str, tuple[Places, Places, Any]]:
    """Per list kind (owner, new member, score) of new members that may enter the list of an older member.

    At equal score the newer one wins, which only merging can tell. Members in ``rows`` get whole lists anyway.
    """
    found: dict[str, list[tuple[Places, Places, Any]]] = {"pair": [], "single": []}
    places = np.arange(group.size)
    done = np.zeros(group.size, bool)
    done[rows] = True
    for block in group.blocks(fresh):
        scores = group.scores(block)
        older = (places < block[:, None]) & ~done
        for kind in ("pair", "single") if pairs else ("single",):
            enters = older & (scores >= lowest[kind])
            if kind == "pair" and not group.one_project:
                enters &= group.projects == group.projects[block, None]
            at, owners = np.nonzero(enters)
            found[kind].append((owners, block[at], scores[at, owners]))
    none = np.empty(0, np.int64)
    return {
        kind: tuple(np.concatenate([none, *(part[n] for part in parts)]) for n in range(3))  # type: ignore[misc]
        for kind, parts in found.items()
    }


def _entries(group: Group, rows: Places, lists: Lists) -> _Entries:
    owners, columns = np.nonzero(lists.places >= 0)
    places = lists.places[owners, columns]
    return _Entries(owners, places, lists.scores[owners, columns], group.similarities(rows[owners], places))


def _grown(
    group: Group,
    owners: Places,
    place_of: dict[UUID, int],
    present: dict[UUID, tuple[list[UUID], list[int], list[UUID], list[int]]],
    at: int,
    entering: tuple[Places, Places, Any],
    count: int,
) -> _Entries:
    """The lists of these owners with what enters them. ``at`` says where a list stands in ``present``."""
    ids = list(place_of)
    kept_owners: list[int] = []
    kept_places: list[int] = []
    kept_scores: list[int] = []
    for number, owner in enumerate(owners.tolist()):
        listed = present[ids[owner]]
        kept_owners += [number] * len(listed[at])
        kept_places += [place_of[one] for one in listed[at]]  # type: ignore[index]
        kept_scores += listed[at + 1]  # type: ignore[arg-type]
    of, places, scores = merged(
        np.concatenate([np.array(kept_owners, np.int64), np.searchsorted(owners, entering[0])]),
        np.concatenate([np.array(kept_places, np.int64), entering[1]]),
        np.concatenate([np.array(kept_scores, np.int64), entering[2]]),
        count,
    )
    return _Entries(of, places, scores, group.similarities(owners[of], places))


def _bound(score: int | None) -> int:
    """The score a newcomer must reach; a list that is not full takes any."""
    return np.iinfo(np.int64).min if score is None else score


def _numbered(projects: Sequence[UUID | None]) -> list[int]:
    numbers: dict[UUID | None, int] = {}
    return [numbers.setdefault(project, len(numbers)) for project in projects]


async def _read_lists(
    connection: Connection, schema: str, tenant: UUID, ids: Sequence[UUID]
) -> dict[UUID, tuple[list[UUID], list[int], list[UUID], list[int]]]:
    if not ids:
        return {}
    async with connection.cursor(binary=True) as cursor:
        await cursor.execute(
            f"select memory_id, pair_ids, pair_scores, single_ids, single_scores from {schema}.candidate_neighbours "
            "where tenant = %s and memory_id = any(%s)".encode(),
            (tenant, list(ids)),
        )
        return {row[0]: (row[1], row[2], row[3], row[4]) for row in await cursor.fetchall()}


async def _store(
    connection: Connection, schema: str, key: GroupKey, ids: Sequence[UUID], *portions: _Written
) -> int:
    """Write lists through a staging table, filing them as live memory has it. Returns how many memories."""
    await connection.execute(_STAGING)
    names = [str(one) for one in ids]
    async with connection.cursor() as cursor, cursor.copy(b"copy fresh_candidates from stdin") as copy:
        for written in portions:
            await copy.write(await asyncio.to_thread(_lines, written, names))
    await connection.execute(_UPSERT.format(schema=schema), (key.tenant,))
    return sum(len(written.ids) for written in portions)


def _lines(written: _Written, names: Sequence[str]) -> str:
    """Rows for COPY; ids, numbers and hexadecimal digits only, so nothing needs escaping."""
    columns: list[Iterable[str]] = [map(str, written.ids)]
    columns.append(["\\N"] * len(written.ids) if written.words is None else ["\\\\x" + w.hex() for w in written.words])
    for entries in (written.pair, written.single):
        ends = np.searchsorted(entries.owners, np.arange(len(written.ids)), side="right").tolist()
        starts = [0, *ends[:-1]]
        for values in (
            [names[at] for at in entries.places.tolist()],
            list(map(str, entries.scores.tolist())),
            list(map(repr, entries.similarities.tolist())),
        ):
            columns.append("{" + ",".join(values[a:b]) + "}" for a, b in zip(starts, ends, strict=False))
    return "".join("\t".join(row) + "\n" for row in zip(*columns, strict=True))


_STAGING = """
    create temporary table if not exists fresh_candidates (memory_id uuid, words bytea,
        pair_ids uuid[], pair_scores int[], pair_similarities double precision[],
        single_ids uuid[], single_scores int[], single_similarities double precision[]) on commit drop;
    truncate fresh_candidates
"""
