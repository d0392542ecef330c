"""From states and rows to answers: opaque references become outside names again."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import UUID

from ..domain.fields import LinkEdge
from ..domain.memory import Memory
from ..projections.rows import MemoryRow
from .engine import Engine
from .operating.views import LinkView, MemoryView

NAMED = (
    "project",
    "project_before",
    "user",
    "agent",
    "run",
    "session",
    "subject",
    "approver",
    "owner",
    "reviewer",
)
"""Fields of events that hold an opaque id in the place of an outside name."""


async def present_memory(
    engine: Engine, tenant: UUID, memory: Memory, position: int, *, now: datetime | None = None
) -> MemoryView:
    """A memory's state as an answer, at ``now``; for whoever has it from the log and not from the view."""
    owners = memory.owners
    row = MemoryRow(
        memory_id=memory.id,
        version=memory.version,
        state_version=memory.state_version,
        position=position,
        memory_type=memory.memory_type,
        scope=memory.scope,
        project=memory.project,
        topic=memory.topic or "",
        content=memory.content or "",
        tags=list(memory.tags or ()),
        metadata=memory.metadata,
        user_ref=owners.user,
        agent_ref=owners.agent,
        run_ref=owners.run,
        session_ref=owners.session,
        subject_ref=owners.subject,
        producer=memory.producer,
        trust=memory.trust,
        core=memory.core,
        pinned=memory.pinned,
        verified=memory.verified,
        occurred_at=memory.occurred_at,
        recorded_at=memory.recorded_at,
        fresh_at=memory.fresh_at,
        valid_from=memory.valid_from,
        valid_to=memory.valid_to,
        expires_at=memory.expires_at,
        derived_from=[str(one) for one in memory.derived_from],
        links=_edges(memory.links),
        predecessor=memory.predecessor,
        earlier=memory.earlier,
        successor=memory.successor,
        edge=memory.edge,
        held_until=memory.held_until,
        archived=memory.archived,
        suppressed=memory.suppressed,
        refuted=memory.refuted,
        quarantined=memory.quarantined,
    )
    [view] = await present_rows(engine, tenant, [row], now or engine.clock())
    return view


async def present_rows(engine: Engine, tenant: UUID, rows: Sequence[MemoryRow], now: datetime) -> list[MemoryView]:
    """Rows of the live view as answers, names looked up by one query."""
    names = await engine.directory.names(tenant, _references(rows))

    def name(one: UUID | None) -> str | None:
        return None if one is None else names.get(one)

    return [
        MemoryView(
            id=row.memory_id,
            memory_type=row.memory_type,
            topic=row.topic,
            content=row.content,
            status=row.status(now),
            current=row.current(now),
            scope=row.scope,
            project=name(row.project),
            tags=tuple(row.tags),
            metadata=row.metadata,
            user_id=name(row.user_ref),
            agent_id=name(row.agent_ref),
            run_id=name(row.run_ref),
            session_id=name(row.session_ref),
            subject=name(row.subject_ref),
            producer=row.producer,
            trust=row.trust,
            core=row.core,
            pinned=row.pinned,
            verified=row.verified,
            occurred_at=row.occurred_at,
            recorded_at=row.recorded_at,
            fresh_at=row.fresh_at,
            valid_from=row.valid_from,
            valid_to=row.valid_to,
            expires_at=row.expires_at,
            derived_from=tuple(UUID(one) for one in row.derived_from),
            links=tuple(
                LinkView(memory_id=UUID(one), edge=edge) for one, edges in row.links.items() for edge in edges
            ),
            predecessor=row.predecessor,
            earlier=row.earlier,
            superseded_by=row.successor,
            edge=row.edge,
            held_until=row.held_until,
            version=row.state_version,
            position=row.position,
        )
        for row in rows
    ]


def _edges(links: Iterable[tuple[UUID, LinkEdge]]) -> dict[str, list[LinkEdge]]:
    found: dict[str, list[LinkEdge]] = {}
    for memory_id, edge in links:
        found.setdefault(str(memory_id), []).append(edge)
    return found


def _references(rows: Iterable[MemoryRow]) -> set[UUID]:
    return {one for row in rows for one in row.references() if one is not None}
