"""The closest pairs among a tenant's live memories that nobody said anything about yet (behaviour.md 1.13).

Every live memory with a vector of the present model is compared with every other one, exactly and in blocks, so
that what a pass finds does not depend on an index. Where an earlier pass looked at everything, only memories that
changed since are compared with the others.

Left out are pairs that have an edge of any kind, in either direction, or had a consolidation proposal, whatever
became of it, so that a rejection is final (A16); and pairs that were put before a reviewer as something to forget.
"""

import asyncio
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ..domain.differences import LONGEST
from ..domain.fields import MemoryType
from ..streams.database import Database
from .generations import read_models
from .live_memory import LIVE
from .progress import read_progress

PAGE = 500
"""Memories, or pairs, that are read at once."""
BLOCK_CELLS = 4_000_000
"""Cosines held at once."""
MOST_PAIRS = 100_000
"""How many pairs from the floor on a pass looks at, the closest; the others wait until some are settled."""


@dataclass(frozen=True, slots=True)
class NearPair:
    """Two near memories, newer and older by (occurred_at, id) as everywhere (settlement 3)."""

    newer: UUID
    older: UUID
    similarity: float
    versions: tuple[int, int]
    """State versions of the newer and the older one."""
    types: tuple[MemoryType, MemoryType]
    guarded: tuple[bool, bool]
    """Which of them is pinned or verified."""


class Near(NamedTuple):
    """Two memories and the cosine of their vectors."""

    newer: UUID
    older: UUID
    similarity: float


@dataclass(frozen=True, slots=True)
class Compared:
    """What was compared, and the pairs from the floor on, the closest first."""

    position: int
    """Position of live memory that was compared."""
    whole: bool
    """No pair was cut off, and every live memory has a vector of this model."""
    near: Sequence[Near]


async def compare(
    database: Database, tenant: UUID, *, model: str, floor: float, changed_after: int | None
) -> Compared:
    """Compare a tenant's live memories; with ``changed_after``, those of them whose state is newer than this
    position with all others. Raises `Unavailable`."""
    ids: list[UUID] = []
    raw: list[bytes] = []
    changes: list[bool] = []
    async with read_models(database, isolation="repeatable read") as connection:
        position = (await read_progress(connection, "live_memory")).position
        cursor = await connection.execute(
            f"select exists (select from live_memory where tenant = %s and {LIVE} "
            "and embedding_model is distinct from %s)",
            (tenant, model),
        )
        unembedded = await cursor.fetchone()
        async with connection.cursor(name="near_pairs", binary=True) as vectors:
            await vectors.execute(
                (
                    "select memory_id, position > %s, public.halfvec_send(embedding) from live_memory "
                    f"where tenant = %s and {LIVE} and embedding_model = %s order by occurred_at, memory_id"
                ).encode(),
                (-1 if changed_after is None else changed_after, tenant, model),
            )
            while page := await vectors.fetchmany(PAGE):
                ids += [row[0] for row in page]
                changes += [row[1] for row in page]
                raw += [row[2] for row in page]
    found = _Closest()
    if any(changes):
        found = await asyncio.to_thread(_closest, raw, changes, floor)
    near = [
        Near(ids[later], ids[earlier], cosine)
        for cosine, later, earlier in zip(found.cosines, found.later, found.earlier, strict=True)
    ]
    return Compared(position, not found.cut and unembedded == (False,), near)


async def unsaid(database: Database, tenant: UUID, near: Sequence[Near]) -> list[NearPair]:
    """Those of some near pairs that nothing was said about, in the order given."""
    async with read_models(database) as connection:
        cursor = await connection.execute(
            _UNSAID,
            {
                "tenant": tenant,
                "newer": [one.newer for one in near],
                "older": [one.older for one in near],
                "place": list(range(len(near))),
            },
        )
        rows = await cursor.fetchall()
    return [_pair(near, row) for row in rows]


def _pair(near: Sequence[Near], row: Sequence[Any]) -> NearPair:
    place: int = row[0]
    return NearPair(*near[place], versions=(row[1], row[2]), types=(row[3], row[4]), guarded=(row[5], row[6]))


async def read_texts(database: Database, tenant: UUID, ids: Collection[UUID]) -> dict[UUID, str]:
    """Topic and content of these memories, those that are too long to be compared cut behind what tells so."""
    async with read_models(database) as connection:
        cursor = await connection.execute(
            "select memory_id, topic || E'\\n' || left(content, %s) from live_memory "
            "where tenant = %s and memory_id = any(%s)",
            (LONGEST + 1, tenant, list(ids)),
        )
        return dict(await cursor.fetchall())


@dataclass(slots=True)
class _Closest:
    """Pairs of places, closest first."""

    cosines: Sequence[float] = ()
    later: Sequence[int] = ()
    earlier: Sequence[int] = ()
    cut: bool = False


def _closest(raw: Sequence[bytes], changes: Sequence[bool], floor: float) -> _Closest:
    vectors, changed = _unit_vectors(raw), np.array(changes, bool)
    cosines, later, earlier = np.empty(0, np.float32), np.empty(0, np.int64), np.empty(0, np.int64)
    least, cut = floor, False
    for start, end in _blocks(len(vectors)):
        rows = vectors[start:end] @ vectors[:end].T
        # Rounded as it is told: a pair at the very floor is not lost to the last bit.
        found = np.round(rows, 6) >= np.float32(least)
        found &= np.arange(end) < np.arange(start, end)[:, None]
        found &= changed[start:end, None] | changed[:end]
        at, before = np.nonzero(found)
        cosines = np.concatenate([cosines, rows[at, before]])
        later, earlier = np.concatenate([later, at + start]), np.concatenate([earlier, before])
        if len(cosines) > MOST_PAIRS:
            best = np.lexsort((earlier, later, -cosines))[:MOST_PAIRS]
            cosines, later, earlier = cosines[best], later[best], earlier[best]
            least, cut = float(cosines[-1]), True
    order = np.lexsort((earlier, later, -cosines))
    told: list[float] = np.round(cosines[order].astype(np.float64), 6).tolist()
    return _Closest(told, later[order].tolist(), earlier[order].tolist(), cut)


def _blocks(size: int) -> Iterator[tuple[int, int]]:
    at_once = max(1, BLOCK_CELLS // max(1, size))
    for start in range(0, size, at_once):
        yield start, min(size, start + at_once)


def _unit_vectors(raw: Sequence[bytes]) -> NDArray[np.float32]:
    """halfvec_send: dimensions and a spare field of 16 bits each, then the halves, all big-endian."""
    joined = b"".join(one[4:] for one in raw)
    vectors = np.frombuffer(joined, ">f2").reshape(len(raw), -1).astype(np.float32)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    vectors /= lengths
    return vectors


_UNSAID = f"""
    with live as (select * from live_memory where tenant = %(tenant)s and {LIVE})
    select p.place, n.state_version, o.state_version, n.memory_type, o.memory_type,
        n.pinned or n.verified, o.pinned or o.verified
    from unnest(%(place)s::int[], %(newer)s::uuid[], %(older)s::uuid[]) p(place, newer, older)
        join live n on n.memory_id = p.newer join live o on o.memory_id = p.older
    where not (n.links ? p.older::text or o.links ? p.newer::text)
        and n.predecessor is distinct from p.older and o.predecessor is distinct from p.newer
        and not (n.derived_from ? p.older::text or o.derived_from ? p.newer::text)
        and not exists (
            select from review_queue q where q.tenant = %(tenant)s
            and (q.memory_id, q.related_id) in ((p.newer, p.older), (p.older, p.newer))
            and (q.kind = 'consolidation' or q.status in ('proposed', 'applied', 'rejected')))
        and not exists (
            select from review_queue q where q.tenant = %(tenant)s and q.pair_older is not null
            and least(q.pair_older, q.pair_newer) = least(p.newer, p.older)
            and greatest(q.pair_older, q.pair_newer) = greatest(p.newer, p.older)
            and q.status in ('proposed', 'applied', 'rejected'))
    order by p.place
"""
