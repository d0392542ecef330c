"""Brings the lists of groups up to date of which a little changed, touching only what that can have touched."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ..streams.database import Connection
from .live_memory import LIVE
from .nearest import Entering, Found, Group, Newcomers, Places, find, merged
from .neighbour_groups import SINGLE_NEIGHBOURS, TEXT, GroupKey, entries_of, numbered
from .neighbour_lists import Entries, Stored, Written, read_lists, write_lists
from .words import Rarity, WordCounts

MEMBERS_AT_ONCE = 20_000
"""Members of several small groups that are read by one query."""


@dataclass(frozen=True, slots=True)
class Patch:
    """A group of which a little changed."""

    key: GroupKey
    members: int
    """How many it had when its words were counted."""
    changes: int
    """How many came and went since then."""


@dataclass(frozen=True, slots=True)
class _Work:
    """A patched group, computed."""

    key: GroupKey
    ids: Sequence[UUID]
    words: Sequence[bytes]
    group: Group
    rows: Places
    """Members whose lists are made anew."""
    found: Found

    @property
    def owners(self) -> Places:
        """Members whose lists others may enter."""
        return np.unique(np.concatenate([self.found.into_pair.owners, self.found.into_single.owners]))

    def owner_ids(self) -> list[UUID]:
        """Their ids."""
        places: list[int] = self.owners.tolist()
        return [self.ids[place] for place in places]

    def made(self) -> Written:
        """The lists that were made anew."""
        rows: list[int] = self.rows.tolist()
        return Written(
            [self.ids[place] for place in rows],
            [self.words[place] for place in rows],
            entries_of(self.group, self.rows, self.found.pair),
            entries_of(self.group, self.rows, self.found.single),
            self.ids,
        )

    def grown(self, stored: Mapping[UUID, Stored]) -> Written:
        """The lists that others enter."""
        owners = self.owners
        named = self.owner_ids()
        place_of = {memory_id: place for place, memory_id in enumerate(self.ids)}
        lists = [stored[memory_id] for memory_id in named]
        pair = [(ids, scores) for ids, scores, _, _ in lists]
        single = [(ids, scores) for _, _, ids, scores in lists]
        return Written(
            named,
            None,
            _grown(self.group, owners, pair, place_of, self.found.into_pair, self.key.pair_count),
            _grown(self.group, owners, single, place_of, self.found.into_single, SINGLE_NEIGHBOURS),
            self.ids,
        )


async def refresh_changed(connection: Connection, patches: Sequence[Patch], removed: Sequence[UUID]) -> int:
    """Make the lists of new members and of those that lost an entry, and let new ones into the others' lists.

    ``removed`` are memories that left any group. Returns how many memories' lists were written.
    """
    written = 0
    waiting = list(patches)
    while waiting:
        portion = [waiting.pop()]
        while waiting and sum(patch.members for patch in portion) + waiting[-1].members <= MEMBERS_AT_ONCE:
            portion.append(waiting.pop())
        written += await _refresh_portion(connection, portion, removed)
    return written


async def _refresh_portion(connection: Connection, patches: Sequence[Patch], removed: Sequence[UUID]) -> int:
    tenant = patches[0].key.tenant
    counted = await _counted(connection, patches)
    members = await _read_members(connection, patches, removed)

    def compute() -> tuple[list[_Work], list[Written]]:
        works = [_compute(patch.key, members[patch.key.group], counted[patch.key.group]) for patch in patches]
        return works, [work.made() for work in works]

    works, made = await asyncio.to_thread(compute)
    owners = [memory_id for work in works for memory_id in work.owner_ids()]
    stored = await read_lists(connection, tenant, owners)
    grown = await asyncio.to_thread(lambda: [work.grown(stored) for work in works])
    return await write_lists(connection, tenant, made, words=True) + await write_lists(
        connection, tenant, grown, words=False
    )


def _compute(key: GroupKey, members: Sequence[tuple[Any, ...]], rarity: Rarity) -> _Work:
    fresh = np.flatnonzero([row[3] is None for row in members])
    rows = np.flatnonzero([row[3] is None or row[6] for row in members])
    newcomers = Newcomers(fresh, _bounds([row[4] for row in members]), _bounds([row[5] for row in members]))
    words: list[bytes] = [row[3] for row in members]
    texts = WordCounts.of([members[place][7] for place in fresh.tolist()])
    for place, vector in zip(fresh.tolist(), rarity.vectors(texts), strict=True):
        words[place] = vector
    group = Group([row[2] for row in members], words, numbered([row[1] for row in members]), key.weights)
    found = find(group, rows, key.pair_count, SINGLE_NEIGHBOURS, newcomers)
    return _Work(key, [row[0] for row in members], words, group, rows, found)


async def _counted(connection: Connection, patches: Sequence[Patch]) -> dict[tuple[str, str], Rarity]:
    """The groups' word statistics as they were counted; notes how much has changed since."""
    cursor = await connection.execute(
        "update candidate_groups g set changes = s.changes "
        "from unnest(%s::text[], %s::text[], %s::int[]) s(memory_type, scope, changes) "
        "where g.tenant = %s and g.memory_type = s.memory_type and g.scope = s.scope "
        "returning g.memory_type, g.scope, g.members, g.words, g.occurrences",
        (
            [patch.key.memory_type for patch in patches],
            [patch.key.scope for patch in patches],
            [patch.changes for patch in patches],
            patches[0].key.tenant,
        ),
    )
    return {
        (row[0], row[1]): Rarity(row[2], np.frombuffer(row[3], np.uint32), np.frombuffer(row[4], np.uint32))
        for row in await cursor.fetchall()
    }


async def _read_members(
    connection: Connection, patches: Sequence[Patch], removed: Sequence[UUID]
) -> dict[tuple[str, str], list[tuple[Any, ...]]]:
    """Present members of these groups in their order, with what is stored of them."""
    # All of it is needed, which the planner does not expect of lists that are new to it.
    await connection.execute("set local enable_nestloop = off")
    async with connection.cursor(binary=True) as cursor:
        await cursor.execute(
            _MEMBERS.encode(),
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


def _grown(
    group: Group,
    owners: Places,
    lists: Sequence[tuple[Sequence[UUID], Sequence[int]]],
    place_of: Mapping[UUID, int],
    entering: Entering,
    count: int,
) -> Entries:
    """These lists of these owners with what enters them."""
    kept = np.repeat(np.arange(len(owners)), np.array([len(ids) for ids, _ in lists], np.int64))
    of, places, scores = merged(
        np.concatenate([kept, np.searchsorted(owners, entering.owners)]),
        np.concatenate([np.array([place_of[one] for ids, _ in lists for one in ids], np.int64), entering.places]),
        np.concatenate([np.array([one for _, scores in lists for one in scores], np.int64), entering.scores]),
        count,
    )
    return Entries(of, places, scores, group.similarities(owners[of], places))


def _bounds(last: Sequence[int | None]) -> NDArray[np.int64]:
    """The score a newcomer must reach; a list that is not full takes any."""
    lowest = np.iinfo(np.int64).min
    return np.array([lowest if score is None else score for score in last], np.int64)


_MEMBERS = f"""
    select l.memory_id, l.project, public.halfvec_send(l.embedding), n.words,
        n.pair_scores[%(pairs)s], n.single_scores[%(singles)s],
        n.pair_ids && %(removed)s::uuid[] or n.single_ids && %(removed)s::uuid[],
        case when n.memory_id is null then {TEXT} end, l.memory_type, l.scope
    from (
        select memory_id, memory_type, scope, project, embedding, occurred_at, topic, content
        from live_memory where tenant = %(tenant)s and {LIVE} and (memory_type, scope) in
            (select * from unnest(%(types)s::text[], %(scopes)s::text[]))
    ) l left join candidate_neighbours n on n.tenant = %(tenant)s and n.memory_id = l.memory_id
    order by l.occurred_at, l.memory_id
"""
