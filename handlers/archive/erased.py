"""What was erased here stays erased, whatever an older archive still holds (F08)."""

from collections.abc import Collection
from uuid import UUID

from ..engine import Engine


async def erased(engine: Engine, tenant: UUID, ids: Collection[UUID]) -> set[UUID]:
    """Those of these memories whose text was erased: they are on record, and their key is destroyed.

    Or the ledger says so, of memories that this log never held or does not hold any more.
    """
    if not ids:
        return set()
    listed = engine.erasure.ledger.erased(ids) if engine.erasure is not None else set[UUID]()
    names = await engine.log.stream_names(tenant, ids)
    known = {one for one, name in names.items() if name == "memory.remembered"}
    keys = await engine.vault.data_keys(tenant, known)
    return listed | (known - keys.known)
