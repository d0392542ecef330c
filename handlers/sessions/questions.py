"""Which commitments are asked about after a session, and what a judge is shown of each.

The source asks about those that the session was briefed on (S3). Briefings here go by no session, so it is those
that one could have told of where the session wrote: open or waiting, on a live memory of the same scope and
project as something that was written after the commitment was made, and of no other user than the session.
"""

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from ...domain.closing import COMMITMENTS_ASKED, WRITES_SHOWN, ResolutionItem
from ...domain.commitment import DUE as STILL_DUE
from ...domain.commitment import Commitment
from ...domain.events import MemoryRemembered
from ...domain.session import Session
from ...projections.commitments import DUE, PRESENT
from ...projections.generations import tenant_read_models
from ...projections.live_memory import LIVE
from ..commitments.riding import Commitments
from ..engine import Engine
from ..forgetting.questions import shown_memory
from ..memories import MemoryCommands

WRITES_READ = 200
"""Memories of a session that are compared with commitments, the newest."""


@dataclass(frozen=True, slots=True)
class Found:
    """A commitment to ask about, and what was written after it, the nearest first."""

    commitment: UUID
    written: tuple[UUID, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """The same, read anew from the log."""

    commitment: Commitment
    item: ResolutionItem


async def find_commitments(engine: Engine, tenant: UUID, session: Session, upto: int) -> list[Found]:
    """Those nearest to what was written first. The read models must be up to the position ``upto``."""
    values = {
        "tenant": tenant,
        "run": session.id,
        "remembered": MemoryRemembered.NAME,
        "after": session.looked_upto,
        "upto": upto,
        "user": session.user,
        "settled": list(session.settled),
        "now": engine.clock(),
    }
    async with tenant_read_models(engine.doors, tenant) as connection:
        cursor = await connection.execute(_FOUND, values)
        return [Found(row[0], tuple(row[1])) for row in await cursor.fetchall()]


async def read_asked(engine: Engine, tenant: UUID, found: Found) -> Asked | None:
    """The commitment and what is shown of it as they stand now; None where there is nothing left to ask."""
    commitment = await Commitments(engine.log, engine.directory).load(tenant, found.commitment)
    if commitment is None or commitment.status not in STILL_DUE:
        return None
    now = engine.clock()
    wanted = [commitment.memory_id, *found.written]
    memories = await MemoryCommands(engine).load_many(tenant, wanted)
    live = {one: state for one, state in memories.items() if state.live and not state.expired(now)}
    written = [live[one] for one in found.written if one in live]
    if commitment.memory_id not in live or not written:
        return None
    projects = await engine.directory.names(tenant, {one.project for one in live.values()})
    item = ResolutionItem(
        ref="c0",
        commitment=shown_memory(live[commitment.memory_id], projects),
        status=commitment.status,
        due_at=commitment.due_at,
        written=tuple(shown_memory(one, projects) for one in written),
    )
    return Asked(commitment, item)


async def unchanged(engine: Engine, tenant: UUID, asked: Asked, shown: Collection[UUID]) -> Commitment | None:
    """The commitment as it stands now; None where it, or a memory that was shown, is not as it was."""
    commitment = await Commitments(engine.log, engine.directory).load(tenant, asked.commitment.id)
    if (
        commitment is None
        or commitment.status not in STILL_DUE
        or commitment.moved_at != asked.commitment.moved_at
    ):
        return None
    memories = await MemoryCommands(engine).load_many(tenant, list(shown))
    for memory_id in shown:
        state = memories.get(memory_id)
        if state is None or not state.live or state.state_version != asked.item.shown[memory_id]:
            return None
    return commitment


_FOUND = f"""
    with written as (
        select memory_id, scope, project, user_ref, recorded_at, embedding, embedding_model from live_memory
        where tenant = %(tenant)s and {LIVE} and (expires_at is null or expires_at > %(now)s)
        and memory_id in (select memory_id from memory_history where tenant = %(tenant)s and session = %(run)s
            and name = %(remembered)s and position > %(after)s and position <= %(upto)s
            order by position desc limit {WRITES_READ})
    ), near as (
        select c.commitment_id, w.memory_id, w.recorded_at, coalesce(
            case when m.embedding_model = w.embedding_model then m.embedding operator(public.<=>) w.embedding end,
            2) as distance
        from commitments c join live_memory m on m.tenant = c.tenant and m.memory_id = c.memory_id
            join written w on w.scope = m.scope and w.project is not distinct from m.project
            and w.memory_id <> m.memory_id and w.recorded_at > c.opened_at
            and (w.user_ref is null or m.user_ref is null or w.user_ref = m.user_ref)
        where c.tenant = %(tenant)s and {PRESENT} and {DUE} and {LIVE} and c.commitment_id <> all(%(settled)s)
            and (m.expires_at is null or m.expires_at > %(now)s)
            and (%(user)s::uuid is null or m.user_ref is null or m.user_ref = %(user)s)
    ), placed as (
        select commitment_id, memory_id, min(distance) over (partition by commitment_id) as nearest,
            row_number() over (partition by commitment_id order by distance, recorded_at desc, memory_id) as place
        from near
    )
    select commitment_id, array_agg(memory_id order by place) from placed where place <= {WRITES_SHOWN}
    group by 1 order by min(nearest), 1 limit {COMMITMENTS_ASKED}
"""
"""The nearest by the vectors of live memory; where one is missing, the newest."""
