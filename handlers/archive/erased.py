"""What was erased here stays erased, whatever an older archive still holds (F08)."""

from collections.abc import Collection
from uuid import UUID

from ..engine import Engine


async def erased(engine: Engine, tenant: UUID, ids: Collection[UUID]) -> set[UUID]:
    """Those of these memories whose text was erased: they are on record, and their key is destroyed."""
    if not ids:
        return set()
    names = await engine.log.stream_names(tenant, ids)
    known = {one for one, name in names.items() if name == "memory.remembered"}
    keys = await engine.vault.data_keys(tenant, known)
    return known - set(keys.usable) - keys.unusable
