"""Live memories that were derived from one that was superseded, refuted or erased, and never reviewed for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from ..streams.database import Database
from .generations import read_models
from .live_memory import LIVE

Ended = Literal["superseded", "refuted", "erased"]


@dataclass(frozen=True, slots=True)
class Dependent:
    """A live memory and one that it rests on and that ended."""

    memory_id: UUID
    state_version: int
    source: UUID
    ended: Ended
    """How it ended; ``erased`` for one that is not there, be it that it never was."""


async def dependents(
    database: Database, tenant: UUID, *, sources: Sequence[UUID] | None, after: tuple[UUID, UUID], limit: int
) -> list[Dependent]:
    """The next ones by (memory, source), those of some sources or of all.

    The successor of what ended does not count: it says in its stead what it says.
    """
    async with read_models(database) as connection:
        cursor = await connection.execute(
            _DEPENDENTS if sources is None else _DEPENDENTS_OF,
            {
                "tenant": tenant,
                "after_memory": after[0],
                "after_source": after[1],
                "limit": limit,
                "sources": None if sources is None else list(sources),
                "texts": None if sources is None else [str(one) for one in sources],
            },
        )
        return [Dependent(*row) for row in await cursor.fetchall()]


def _dependents(chosen: str) -> str:
    return f"""
        select m.memory_id, m.state_version, d.source, case when s.memory_id is null then 'erased'
            when s.refuted then 'refuted' else 'superseded' end
        from (
            select memory_id, state_version, derived_from, predecessor from live_memory
            where tenant = %(tenant)s and derived_from <> '[]' and {LIVE}
                and memory_id >= %(after_memory)s {chosen}
        ) m
            cross join lateral (select id::uuid as source from jsonb_array_elements_text(m.derived_from) x(id)) d
            left join live_memory s on s.tenant = %(tenant)s and s.memory_id = d.source
        where (s.memory_id is null or s.refuted or s.successor is not null)
            and m.predecessor is distinct from d.source and s.successor is distinct from m.memory_id
            and (%(sources)s::uuid[] is null or d.source = any(%(sources)s::uuid[]))
            and (m.memory_id, d.source) > (%(after_memory)s, %(after_source)s)
            and not exists (
                select from review_queue q where q.tenant = %(tenant)s and q.memory_id = m.memory_id
                and q.related_id = d.source and q.kind = 'dependency')
        order by m.memory_id, d.source limit %(limit)s
    """


_DEPENDENTS = _dependents("")
_DEPENDENTS_OF = _dependents("and derived_from ?| %(texts)s")
