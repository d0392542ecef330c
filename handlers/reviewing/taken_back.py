"""Whether what accepting a proposal did still holds: by which undo it was taken back, when and by whom."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from ...projections.generations import tenant_read_models
from ..access.caller import NAMED_KINDS
from ..engine import Engine


class TakenBack(NamedTuple):
    """The undo that took it back."""

    undo_id: UUID
    at: datetime
    by: str


async def taken_back(engine: Engine, tenant: UUID, proposals: Sequence[UUID]) -> Mapping[UUID, TakenBack]:
    """By proposal; those of which nothing is taken back are absent."""
    if not proposals:
        return {}
    async with tenant_read_models(engine.doors, tenant) as connection:
        cursor = await connection.execute(
            "select distinct on (proposal_id) proposal_id, last_undo, last_undo_at from effects "
            "where tenant = %s and proposal_id = any(%s) and undone order by proposal_id, last_undo_at desc",
            (tenant, list(proposals)),
        )
        rows = await cursor.fetchall()
    requests = await engine.log.read_beginnings(tenant, {row[1] for row in rows})
    actors = {one: recorded.envelope.actor for one, recorded in requests.items()}
    names = await engine.directory.names(
        tenant, {actor.id for actor in actors.values() if actor.kind in NAMED_KINDS}
    )
    return {
        proposal: TakenBack(undo, at, who(actors[undo].kind, names.get(actors[undo].id)))
        for proposal, undo, at in rows
    }


def who(kind: str, name: str | None) -> str:
    """Kind and name, such as ``person:ada``; the kind alone once the name is erased."""
    return kind if name is None else f"{kind}:{name}"
