"""Selects what a forgetting pass will ask about, from the read models alone (behaviour.md 1.16).

Reads one snapshot: live memory, the neighbour cache (`neighbours.refresh` comes first), and the review queue for
what was asked before. What blocks a question, and what opens it again:

* a pair, once asked, until either side's freshness moves, whatever came of it (settlement 8);
* a pair that an edge was proposed between, or stands between, for ever (behaviour.md 1.16);
* a memory with an open proposal on it, and one that an open proposal names as the newer side, as a single;
* a memory whose proposal was rejected, as a single until its freshness moves, and as the older side of a pair
  with anything that was on record when it was rejected (settlement 9);
* a memory whose proposal was applied and that is live all the same, as a single until its freshness moves;
* a memory that was kept, as a single until its freshness moves or one recorded later is among its nearest
  (settlement 8).

A withdrawn proposal blocks nothing: it was taken back undecided so that the next pass may look again
(settlement 6).
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from ..domain.candidates import Chosen, Pair, Stale, choose
from ..domain.errors import NotCaughtUp
from ..domain.events import CandidateItem
from ..domain.policy import PAIR_TYPES, STALE_TYPES, ForgettingPolicy
from ..streams.database import Connection, Database
from .generations import read_models
from .live_memory import LIVE
from .neighbours import ensure
from .stale import stale


@dataclass(frozen=True, slots=True)
class SelectedItem:
    """One question. Of a pair, ``newer`` holds the one newer memory; of a single, up to three neighbours."""

    ref: str
    kind: Literal["pair", "single"]
    memory_id: UUID
    """The memory a verdict is about: of a pair, the older one."""
    newer: tuple[UUID, ...]
    similarity: tuple[float, ...]
    """Cosine of each newer memory."""
    rank: int | None
    """Of a pair: the newer memory's place among the nearest of the older one, from 1."""
    seen: dict[UUID, int]
    """State version of every memory shown (settlement 5)."""

    def recorded(self) -> CandidateItem:
        """As the pass's event keeps it."""
        return CandidateItem(
            ref=self.ref,
            memory_id=self.memory_id,
            newer=self.newer,
            similarity=self.similarity,
            seen=self.seen,
        )


@dataclass(frozen=True, slots=True)
class Selection:
    """What a run asks, pairs first, and how much there was to choose from."""

    items: tuple[SelectedItem, ...]
    stale_singles: int
    """Singles that qualified, before the cap and before pairs took some of them."""
    pairs: int
    """Pairs that qualified, before one judgment per memory and the cap."""
    position: int
    """Position of live memory that the neighbour lists were true for."""
    stale_before: datetime
    """Memories fresh before this instant, strictly, are stale."""


async def select_candidates(
    database: Database,
    tenant: UUID,
    policy: ForgettingPolicy,
    *,
    now: datetime,
    floor: float,
) -> Selection:
    """The questions of one run. ``floor`` is the cosine from which on a pair is worth asking about.

    Raises `NotCaughtUp` when the tenant's neighbours were never made, and `Unavailable`.
    """
    await ensure(database)
    stale_before = policy.stale_before(now)
    async with read_models(database, isolation="repeatable read") as connection:
        # The lists are new to the planner whenever they were just made; guessing them to be few, it would look
        # every neighbour up on its own.
        await connection.execute("set local enable_nestloop = off")
        cursor = await connection.execute("select position from candidate_marks where tenant = %s", (tenant,))
        mark = await cursor.fetchone()
        if mark is None:
            raise NotCaughtUp("the neighbours of this tenant were never made; refresh them first")
        found = _Found(connection, tenant, stale_before)
        pairs = await found.pairs(policy, floor)
        singles = await found.singles(policy.singles_cap + 2 * policy.pairs_cap)
    chosen = choose(singles, pairs, singles_cap=policy.singles_cap, pairs_cap=policy.pairs_cap)
    return Selection(
        items=_items(chosen, found.versions),
        stale_singles=found.stale_singles,
        pairs=found.qualified_pairs,
        position=mark[0],
        stale_before=stale_before,
    )


def _items(chosen: Chosen, versions: dict[UUID, int]) -> tuple[SelectedItem, ...]:
    items: list[SelectedItem] = []
    for one in chosen.pairs:
        pair = one.pair
        seen = {memory_id: versions[memory_id] for memory_id in (pair.older, pair.newer)}
        items.append(SelectedItem(one.ref, "pair", pair.older, (pair.newer,), (pair.similarity,), pair.rank, seen))
    for one in chosen.singles:
        single = one.single
        seen = {memory_id: versions[memory_id] for memory_id in (single.memory_id, *single.newer)}
        items.append(
            SelectedItem(one.ref, "single", single.memory_id, single.newer, single.similarity, None, seen)
        )
    return tuple(items)


class _Found:
    """Runs the two queries inside one snapshot and gathers what they say beside the candidates."""

    def __init__(self, connection: Connection, tenant: UUID, stale_before: datetime) -> None:
        self._connection = connection
        self._tenant = tenant
        self._stale_before = stale_before
        self.versions: dict[UUID, int] = {}
        self.stale_singles = 0
        self.qualified_pairs = 0

    async def pairs(self, policy: ForgettingPolicy, floor: float) -> list[Pair]:
        """The best pairs in order, as many as may be needed to fill the cap."""
        limit = max(1, policy.pairs_cap * policy.pair_neighbours * 4)
        while True:
            cursor = await self._connection.execute(
                _PAIRS,
                {
                    "tenant": self._tenant,
                    "types": list(PAIR_TYPES),
                    "neighbours": policy.pair_neighbours,
                    "floor": floor,
                    "stale_before": self._stale_before,
                    "limit": limit,
                },
            )
            rows = await cursor.fetchall()
            self.qualified_pairs = rows[0][-1] if rows else 0
            pairs = [Pair(*row[:6]) for row in rows]
            # Pairs that share a memory fall out, so the first rows may not do; more of them can only follow.
            filled = len(choose((), pairs, singles_cap=0, pairs_cap=policy.pairs_cap).pairs) == policy.pairs_cap
            if filled or len(rows) == self.qualified_pairs:
                for row in rows:
                    self.versions |= {row[0]: row[6], row[1]: row[7]}
                return pairs
            limit *= 4

    async def singles(self, limit: int) -> list[Stale]:
        """The most stale singles, most stale first."""
        cursor = await self._connection.execute(
            _SINGLES,
            {
                "tenant": self._tenant,
                "types": list(STALE_TYPES),
                "stale_before": self._stale_before,
                "limit": max(1, limit),
            },
        )
        rows = await cursor.fetchall()
        self.stale_singles = rows[0][-1] if rows else 0
        for row in rows:
            self.versions |= {row[0]: row[6]}
            self.versions |= dict(zip(row[4] or (), row[7] or (), strict=True))
        return [Stale(row[0], row[1], row[2], row[3], tuple(row[4] or ()), tuple(row[5] or ())) for row in rows]


_LIVE_ROWS = f"""
    live as materialized (
        select memory_id, memory_type, scope, project, state_version, fresh_at, recorded_at, occurred_at,
            pinned or verified as guarded, derived_from, predecessor, links
        from live_memory where tenant = %(tenant)s and memory_type = any(%(types)s) and {LIVE}
    )"""

_PAIRS = f"""
    with {_LIVE_ROWS}, listed as (
        select memory_id as older, unnest(pair_ids) as newer, unnest(pair_similarities) as similarity,
            generate_subscripts(pair_ids, 1) as rank
        from candidate_neighbours where tenant = %(tenant)s and memory_type = any(%(types)s)
    ), asked as (
        select least(a, b) as one, greatest(a, b) as other, max(created_at) as at,
            bool_or(status = 'proposed' or kind = 'consolidation') as settled
        from (
            select coalesce(pair_older, memory_id) as a, coalesce(pair_newer, related_id) as b, created_at, status,
                kind
            from review_queue
            where tenant = %(tenant)s and status <> 'withdrawn' and kind <> 'dependency'
        ) q where b is not null group by 1, 2
    ), rejected as (
        select memory_id, max(decided_at) as at from review_queue
        where tenant = %(tenant)s and status = 'rejected' and kind = 'retention' group by memory_id
    )
    select o.memory_id, w.memory_id, o.memory_type, {stale("o")}, rank, similarity,
        o.state_version, w.state_version, count(*) over ()
    from listed join live o on o.memory_id = older join live w on w.memory_id = newer
        left join asked a on a.one = least(older, newer) and a.other = greatest(older, newer)
        left join rejected r on r.memory_id = older and r.at > o.fresh_at
    where rank <= %(neighbours)s and similarity >= %(floor)s
        and w.memory_type = o.memory_type and w.scope = o.scope and w.project is not distinct from o.project
        and (a.at is null or not (a.settled or a.at > greatest(o.fresh_at, w.fresh_at)))
        and (r.at is null or w.recorded_at > r.at)
        and w.predecessor is distinct from older and o.predecessor is distinct from newer
        and not (w.derived_from ? older::text or o.derived_from ? newer::text)
        and not (w.links ? older::text or o.links ? newer::text)
    order by 4 desc, rank, similarity desc, older, newer
    limit %(limit)s
"""


def _near(memories: str) -> str:
    """SQL of the nearest newer neighbours of the memories that a query names, one row each."""
    return f"""
        select memory_id, unnest(single_ids) as newer, unnest(single_similarities) as similarity,
            generate_subscripts(single_ids, 1) as rank
        from candidate_neighbours where tenant = %(tenant)s and memory_id in ({memories})"""


_SINGLES = f"""
    with {_LIVE_ROWS}, stale as (
        select * from live where {stale("live")}
            and not exists (
                select from review_queue q where q.tenant = %(tenant)s and q.memory_id = live.memory_id
                    and (q.status = 'proposed' or q.status in ('rejected', 'applied') and q.kind = 'retention'
                        and q.decided_at > fresh_at))
            and not exists (
                select from review_queue q
                where q.tenant = %(tenant)s and q.related_id = live.memory_id and q.status = 'proposed')
    ), kept as (
        select memory_id, max(created_at) as at from review_queue
        where tenant = %(tenant)s and status = 'dismissed' group by memory_id
    ), waiting as (
        select s.memory_id, s.memory_type, s.scope, k.at as kept_at from stale s left join kept k
            on k.memory_id = s.memory_id and k.at > s.fresh_at
        where k.at is not null or s.guarded or s.memory_type = 'blocker'
    ), reopened as (
        select m.memory_id from waiting m join ({_near("select memory_id from waiting")}) l using (memory_id)
            join live w on w.memory_id = l.newer and w.memory_type = m.memory_type and w.scope = m.scope
        group by m.memory_id, m.kept_at having m.kept_at is null or max(w.recorded_at) > m.kept_at
    ), best as (
        select stale.*, count(*) over () as qualified from stale left join waiting using (memory_id)
            left join reopened using (memory_id)
        where waiting.memory_id is null or reopened.memory_id is not null
        order by fresh_at, memory_id limit %(limit)s
    )
    select b.memory_id, b.memory_type, b.fresh_at, b.guarded, near.ids, near.similarities, b.state_version,
        near.versions, b.qualified
    from best b left join (
        select m.memory_id, array_agg(w.memory_id order by rank) as ids,
            array_agg(similarity order by rank) as similarities,
            array_agg(w.state_version order by rank) as versions
        from best m join ({_near("select memory_id from best")}) l using (memory_id)
            join live w on w.memory_id = l.newer and w.memory_type = m.memory_type and w.scope = m.scope
        group by m.memory_id
    ) near using (memory_id)
    order by b.fresh_at, b.memory_id
"""
