"""Computes the lists of one group: as a whole, or only those that a change can have touched."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ..domain.policy import PAIR_TYPES
from ..streams.database import Connection
from .live_memory import LIVE
from .nearest import Entering, Found, Group, Lists, Newcomers, Places, Weights, find, merged
from .neighbour_lists import Entries, Present, read_lists, write_lists
from .words import READ_CHARACTERS, Rarity, WordCounts

MEMBERS_AT_ONCE = 20_000
"""Members of several small groups that are read by one query."""
PAGE = 500
"""Memories whose texts are held at once."""
SINGLE_NEIGHBOURS = 3
"""Neighbours a stale single is shown with (behaviour.md 1.16)."""

_TEXT = f"left(topic || E'\\n' || content, {READ_CHARACTERS})"


@dataclass(frozen=True, slots=True)
class GroupKey:
    """Within which memories are compared: one tenant, one type, one scope."""

    tenant: UUID
    memory_type: str
    scope: str
    pair_neighbours: int
    weights: Weights

    @property
    def values(self) -> tuple[UUID, str, str]:
        return (self.tenant, self.memory_type, self.scope)

    @property
    def pair_count(self) -> int:
        """Length of the pair lists; types that make no pairs have none."""
        return self.pair_neighbours if self.memory_type in PAIR_TYPES else 0


@dataclass(frozen=True, slots=True)
class Patch:
    """A group of which a little changed."""

    key: GroupKey
    members: int
    """How many it had when its words were counted."""
    changes: int
    """How many came and went since then."""


async def refresh_whole(connection: Connection, schema: str, key: GroupKey) -> int:
    """Count the group's words anew and make every list. Returns how many memories the group has."""
    ids: list[UUID] = []
    projects: list[UUID | None] = []
    vectors: list[bytes | None] = []
    pages: list[WordCounts] = []
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
            pages.append(await asyncio.to_thread(WordCounts.of, [row[3] for row in page]))
    where = "tenant = %s and memory_type = %s and scope = %s"
    await connection.execute(f"delete from {schema}.candidate_neighbours where {where}", key.values)
    await connection.execute(f"delete from {schema}.candidate_groups where {where}", key.values)
    if not ids:
        return 0

    def compute() -> tuple[Rarity, list[bytes], Entries, Entries]:
        counted = WordCounts.joined(pages)
        rarity = Rarity.of(counted)
        words = rarity.vectors(counted)
        group = Group(vectors, words, _numbered(projects), key.weights)
        rows = np.arange(group.size)
        found = find(group, rows, key.pair_count, SINGLE_NEIGHBOURS)
        return rarity, words, _entries(group, rows, found.pair), _entries(group, rows, found.single)

    rarity, words, pair, single = await asyncio.to_thread(compute)
    await connection.execute(
        f"insert into {schema}.candidate_groups "
        "(tenant, memory_type, scope, members, changes, words, occurrences) values (%s, %s, %s, %s, 0, %s, %s)",
        (*key.values, len(ids), rarity.words.tobytes(), rarity.occurrences.tobytes()),
    )
    await write_lists(connection, schema, key.tenant, ids, words, pair, single, ids)
    return len(ids)


async def refresh_changed(
    connection: Connection, schema: str, patches: Sequence[Patch], removed: Sequence[UUID]
) -> int:
    """Make the lists of new members and of those that lost an entry, and let new ones into the others' lists.

    ``removed`` are memories that left any group. Returns how many memories' lists were written.
    """
    written = 0
    waiting = list(patches)
    while waiting:
        portion = [waiting.pop()]
        while waiting and sum(patch.members for patch in portion) + waiting[-1].members <= MEMBERS_AT_ONCE:
            portion.append(waiting.pop())
        members = await _read_members(connection, schema, portion, removed)
        for patch in portion:
            rows = members.get((patch.key.memory_type, patch.key.scope), [])
            written += await _patch(connection, schema, patch, rows)
    return written


async def _read_members(
    connection: Connection, schema: str, patches: Sequence[Patch], removed: Sequence[UUID]
) -> dict[tuple[str, str], list[tuple[Any, ...]]]:
    """Present members of these groups in their order, with what is stored of them."""
    # All of it is needed, which the planner does not expect of lists that are new to it.
    await connection.execute("set local enable_nestloop = off")
    async with connection.cursor(binary=True) as cursor:
        await cursor.execute(
            _MEMBERS.format(schema=schema).encode(),
            {
                "tenant": patches[0].key.tenant,
                "types": [patch.key.memory_type for patch in patches],
                "scopes": [patch.key.scope for patch in patches],
                "removed": list(removed),
                "pairs": patches[0].key.pair_neighbours,
                "singles": SINGLE_NEIGHBOURS,
            },
        )
        rows = await cursor.fetchall()
    await connection.execute("set local enable_nestloop = on")
    groups: dict[tuple[str, str], list[tuple[Any, ...]]] = defaultdict(list)
    for row in rows:
        groups[(row[8], row[9])].append(row)
    return groups


async def _patch(connection: Connection, schema: str, patch: Patch, members: Sequence[tuple[Any, ...]]) -> int:
    key = patch.key
    rarity = await _counted(connection, schema, patch)
    ids: list[UUID] = [row[0] for row in members]
    fresh = np.flatnonzero([row[3] is None for row in members])
    rows = np.flatnonzero([row[3] is None or row[6] for row in members])
    newcomers = Newcomers(fresh, _bounds([row[4] for row in members]), _bounds([row[5] for row in members]))

    def compute() -> tuple[Group, list[bytes], Found]:
        words: list[bytes] = [row[3] for row in members]
        counted = WordCounts.of([members[place][7] for place in fresh.tolist()])
        for place, vector in zip(fresh.tolist(), rarity.vectors(counted), strict=True):
            words[place] = vector
        group = Group([row[2] for row in members], words, _numbered([row[1] for row in members]), key.weights)
        return group, words, find(group, rows, key.pair_count, SINGLE_NEIGHBOURS, newcomers)

    group, words, found = await asyncio.to_thread(compute)
    into_pair, into_single = found.into_pair, found.into_single
    if len(rows):
        await write_lists(
            connection,
            schema,
            key.tenant,
            [ids[place] for place in rows.tolist()],
            [words[place] for place in rows.tolist()],
            _entries(group, rows, found.pair),
            _entries(group, rows, found.single),
            ids,
        )
    owners: Places = np.unique(np.concatenate([into_pair.owners, into_single.owners]))
    if len(owners):
        named: list[UUID] = [ids[place] for place in owners.tolist()]
        place_of = {memory_id: place for place, memory_id in enumerate(ids)}
        pairs, singles = await read_lists(connection, schema, key.tenant, named, place_of)
        await write_lists(
            connection,
            schema,
            key.tenant,
            named,
            None,
            _grown(group, owners, pairs, into_pair, key.pair_count),
            _grown(group, owners, singles, into_single, SINGLE_NEIGHBOURS),
            ids,
        )
    return len(rows) + len(owners)


async def _counted(connection: Connection, schema: str, patch: Patch) -> Rarity:
    """The group's word statistics as they were counted; notes how much has changed since."""
    cursor = await connection.execute(
        f"update {schema}.candidate_groups set changes = %s "
        "where tenant = %s and memory_type = %s and scope = %s returning members, words, occurrences",
        (patch.changes, *patch.key.values),
    )
    row = await cursor.fetchone()
    assert row is not None
    return Rarity(row[0], np.frombuffer(row[1], np.uint32), np.frombuffer(row[2], np.uint32))


def _entries(group: Group, rows: Places, lists: Lists) -> Entries:
    owners, columns = np.nonzero(lists.places >= 0)
    places = lists.places[owners, columns]
    return Entries(owners, places, lists.scores[owners, columns], group.similarities(rows[owners], places))


def _grown(group: Group, owners: Places, present: Present, entering: Entering, count: int) -> Entries:
    """The lists of these owners with what enters them."""
    of, places, scores = merged(
        np.concatenate([present.owners, np.searchsorted(owners, entering.owners)]),
        np.concatenate([present.places, entering.places]),
        np.concatenate([present.scores, entering.scores]),
        count,
    )
    return Entries(of, places, scores, group.similarities(owners[of], places))


def _bounds(last: Sequence[int | None]) -> NDArray[np.int64]:
    """The score a newcomer must reach; a list that is not full takes any."""
    lowest = np.iinfo(np.int64).min
    return np.array([lowest if score is None else score for score in last], np.int64)


def _numbered(projects: Sequence[UUID | None]) -> list[int]:
    numbers: dict[UUID | None, int] = {}
    return [numbers.setdefault(project, len(numbers)) for project in projects]


_MEMBERS = f"""
    select l.memory_id, l.project, public.halfvec_send(l.embedding), n.words,
        n.pair_scores[%(pairs)s], n.single_scores[%(singles)s],
        n.pair_ids && %(removed)s::uuid[] or n.single_ids && %(removed)s::uuid[],
        case when n.memory_id is null then {_TEXT} end, l.memory_type, l.scope
    from (
        select memory_id, memory_type, scope, project, embedding, occurred_at, topic, content
        from {{schema}}.live_memory where tenant = %(tenant)s and {LIVE} and (memory_type, scope) in
            (select * from unnest(%(types)s::text[], %(scopes)s::text[]))
    ) l left join {{schema}}.candidate_neighbours n on n.tenant = %(tenant)s and n.memory_id = l.memory_id
    order by l.occurred_at, l.memory_id
"""
