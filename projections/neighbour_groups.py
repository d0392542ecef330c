"""A group of memories that are compared with each other, and all its lists made at once."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np

from ..domain.policy import PAIR_TYPES
from ..streams.database import Connection
from .live_memory import LIVE
from .nearest import Group, Lists, Places, Weights, find
from .neighbour_lists import Entries, Written, write_lists
from .words import READ_CHARACTERS, Rarity, WordCounts

PAGE = 500
"""Memories whose texts are held at once."""
SINGLE_NEIGHBOURS = 3
"""Neighbours a stale single is shown with (behaviour.md 1.16)."""

TEXT = f"left(topic || E'\\n' || content, {READ_CHARACTERS})"


@dataclass(frozen=True, slots=True)
class GroupKey:
    """Within which memories are compared: one tenant, one type, one scope."""

    tenant: UUID
    memory_type: str
    scope: str
    pair_neighbours: int
    weights: Weights

    @property
    def group(self) -> tuple[str, str]:
        """Within its tenant."""
        return (self.memory_type, self.scope)

    @property
    def values(self) -> tuple[UUID, str, str]:
        return (self.tenant, self.memory_type, self.scope)

    @property
    def pair_count(self) -> int:
        """Length of the pair lists; types that make no pairs have none."""
        return self.pair_neighbours if self.memory_type in PAIR_TYPES else 0


async def refresh_whole(connection: Connection, key: GroupKey) -> int:
    """Count the group's words anew and make every list. Returns how many memories the group has."""
    ids: list[UUID] = []
    projects: list[UUID | None] = []
    vectors: list[bytes | None] = []
    pages: list[WordCounts] = []
    async with connection.cursor(name="whole_group", binary=True) as cursor:
        await cursor.execute(
            (
                f"select memory_id, project, public.halfvec_send(embedding), {TEXT} from live_memory "
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
    await connection.execute(f"delete from candidate_neighbours where {where}", key.values)
    await connection.execute(f"delete from candidate_groups where {where}", key.values)
    if not ids:
        return 0

    def compute() -> tuple[Rarity, Written]:
        counted = WordCounts.joined(pages)
        rarity = Rarity.of(counted)
        words = rarity.vectors(counted)
        group = Group(vectors, words, numbered(projects), key.weights)
        rows = np.arange(group.size)
        found = find(group, rows, key.pair_count, SINGLE_NEIGHBOURS)
        pair, single = entries_of(group, rows, found.pair), entries_of(group, rows, found.single)
        return rarity, Written(ids, words, pair, single, ids)

    rarity, written = await asyncio.to_thread(compute)
    await connection.execute(
        "insert into candidate_groups "
        "(tenant, memory_type, scope, members, changes, words, occurrences) values (%s, %s, %s, %s, 0, %s, %s)",
        (*key.values, len(ids), rarity.words.tobytes(), rarity.occurrences.tobytes()),
    )
    return await write_lists(connection, key.tenant, [written], words=True)


def entries_of(group: Group, rows: Places, lists: Lists) -> Entries:
    """Lists of these rows as entries, with their similarities."""
    owners, columns = np.nonzero(lists.places >= 0)
    places = lists.places[owners, columns]
    return Entries(owners, places, lists.scores[owners, columns], group.similarities(rows[owners], places))


def numbered(projects: Sequence[UUID | None]) -> list[int]:
    """Equal numbers for equal projects; no project is one of its own."""
    numbers: dict[UUID | None, int] = {}
    return [numbers.setdefault(project, len(numbers)) for project in projects]
