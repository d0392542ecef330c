"""Replacing a tenant's key while everything runs (design.md 4: rotation of tenant keys online, with progress).

A new key is put in front; from that moment every append must wrap under it. The data keys of before are wrapped
anew in pages, while readers open both. Once nothing is wrapped under the old key, it is destroyed. One that was
broken off, at any point, goes on with the next; several at once do one work. What is sealed never changes.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from . import sealing
from .arrays import ByteaArray, UuidArray
from .database import Connection, Database
from .vault import Vault
from .wrapping import KEPT_PURPOSES, TenantKeys, Wrapper, binding, key_id_of_purpose, unwrap

PAGE = 1_000
"""Data keys that are wrapped anew in one transaction."""
NAMED = 10
"""Keys that do not open which an error names."""
_UNTOUCHED_SECONDS = 0.2
"""How long to wait where others hold the last keys."""
_FIRST = UUID(int=0)
_OLDER = (
    "case octet_length(wrapped) when 64 then substr(wrapped, 1, 4) else int4send(1) end <> int4send(%(newest)s)"
)
Report = Callable[[int, int], None]


class Rotated(NamedTuple):
    """A tenant's key that was replaced."""

    tenant: UUID
    generation: int
    """Of the new key; a tenant's first key is 1."""
    data_keys: int
    """How many were wrapped anew by this call; a rotation that was broken off before did some already."""


class Rotation:
    """Replaces keys of tenants."""

    def __init__(self, database: Database, vault: Vault) -> None:
        self._database = database
        self._vault = vault

    async def rotate(self, tenant: UUID, report: Report) -> Rotated:
        """Replace a tenant's key, or finish what was begun. ``report`` is told (done, all) in data keys.

        Raises `Erased` for a tenant whose key was destroyed, and `UnusableKey` where a data key does not open: the
        old key then stays, since with it that one may be put back.
        """
        self._vault.forget_tenant_keys(tenant)
        keys = await self._begun(tenant)
        older = min(keys.generations)
        done = 0
        async with self._database.connection() as connection:
            total = await self._count(connection, tenant, keys.newest)
            report(0, total)
            while not await self._ended(connection, tenant, older):
                before = done
                async with aclosing(self._pages(connection, tenant, keys)) as pages:
                    async for rewrapped in pages:
                        done += rewrapped
                        report(done, max(total, done))
                if done == before:
                    await asyncio.sleep(_UNTOUCHED_SECONDS)
        self._vault.forget()
        return Rotated(tenant, keys.newest, done)

    async def tenants(self, made_before: datetime | None = None) -> list[UUID]:
        """Tenants with a key of before an instant, or any; those whose rotation was broken off come first."""
        async with self._database.connection() as connection:
            cursor = await connection.execute(
                "select tenant from lethelog_vault.tenant_keys where wrapped <> '' group by tenant "
                "having count(*) > 1 or %(before)s::timestamptz is null "
                "or coalesce(max(made_at), '-infinity') < %(before)s order by count(*) desc, tenant",
                {"before": made_before},
            )
            return [tenant for (tenant,) in await cursor.fetchall()]

    async def unfinished(self) -> int:
        """How many tenants have a key that is being replaced, or whose replacement was broken off."""
        async with self._database.connection() as connection:
            cursor = await connection.execute(
                "select count(*) from "
                "(select from lethelog_vault.tenant_keys group by tenant having count(*) > 1) x"
            )
            [number] = await cursor.fetchone() or (0,)
            return number

    async def _begun(self, tenant: UUID) -> TenantKeys:
        """The tenant's keys once there is a new one in front: made here, or by somebody else meanwhile."""
        first = (await self._vault.tenant_keys(tenant)).newest
        while True:
            rows = await self._vault.read_tenant_keys(tenant)
            present = await self._vault.open_tenant_keys(tenant, rows)
            if len(present.generations) < len(rows):
                raise sealing.UnusableKey(
                    "the tenant's old key does not open, nor what is wrapped under it; put it back from a backup"
                )
            if len(rows) > 1 or present.newest > first:
                return present
            await self._begin(tenant, present)

    async def _begin(self, tenant: UUID, present: TenantKeys) -> None:
        fresh = Wrapper(present.newest + 1, key := sealing.new_key())
        kept: dict[UUID, bytes] = {}
        if present.newest == 1:
            for purpose in KEPT_PURPOSES:
                key_id = key_id_of_purpose(purpose)
                derived = await self._vault.purpose_key(tenant, purpose)
                kept[key_id] = fresh.wrap(derived, binding(tenant, key_id))
        async with self._database.transaction() as connection:
            master, wrapped = await self._vault.wrap_tenant_key(connection, tenant, key)
            await connection.execute(
                "select lethelog.begin_tenant_key(%s, %s, %s, %s, %s, %s)",
                (tenant, present.newest, master, wrapped, UuidArray(list(kept)), ByteaArray(list(kept.values()))),
            )

    async def _count(self, connection: Connection, tenant: UUID, newest: int) -> int:
        cursor = await connection.execute(
            f"select count(*) from lethelog_vault.data_keys where tenant = %(tenant)s and {_OLDER}",
            {"tenant": tenant, "newest": newest},
        )
        [number] = await cursor.fetchone() or (0,)
        return number

    async def _pages(self, connection: Connection, tenant: UUID, keys: TenantKeys) -> AsyncGenerator[int]:
        """Wrap every data key anew that is not under the newest key; how many, page by page."""
        wrapper = keys.wrapper
        openers = {generation: sealing.Opener(key) for generation, key in keys.generations.items()}
        last, closed = _FIRST, list[UUID]()
        while True:
            cursor = await connection.execute(
                "select key_id, wrapped from lethelog_vault.data_keys "
                f"where tenant = %(tenant)s and key_id > %(last)s and {_OLDER} order by key_id limit {PAGE}",
                {"tenant": tenant, "last": last, "newest": keys.newest},
            )
            rows: list[tuple[UUID, bytes]] = await cursor.fetchall()
            if not rows:
                break
            fresh = [_rewrapped(openers, wrapper, tenant, *row) for row in rows]
            closed += [key_id for (key_id, _), key in zip(rows, fresh, strict=True) if key is None]
            again = [(*row, key) for row, key in zip(rows, fresh, strict=True) if key is not None]
            if again:
                yield await _store(connection, tenant, again)
            last = rows[-1][0]
        if closed:
            named = ", ".join(str(one) for one in closed[:NAMED])
            raise sealing.UnusableKey(
                f"{len(closed)} data keys do not open and could not be wrapped anew ({named}); put them back from "
                "a backup and run it again: until then the tenant's old key stays",
                keys=len(closed),
            )

    async def _ended(self, connection: Connection, tenant: UUID, older: int) -> bool:
        cursor = await connection.execute("select lethelog.end_tenant_key(%s, %s)", (tenant, older))
        return await cursor.fetchone() == (True,)


async def _store(connection: Connection, tenant: UUID, again: Sequence[tuple[UUID, bytes, bytes]]) -> int:
    ids, known, fresh = zip(*again, strict=True)
    cursor = await connection.execute(
        "select lethelog.rewrap_data_keys(%s, %s, %s, %s)",
        (tenant, UuidArray(ids), ByteaArray(known), ByteaArray(fresh)),
    )
    [done] = await cursor.fetchone() or (0,)
    return done


def _rewrapped(
    openers: dict[int, sealing.Opener], wrapper: Wrapper, tenant: UUID, key_id: UUID, wrapped: bytes
) -> bytes | None:
    """The key wrapped under the newest one; None where it does not open."""
    generation, sealed = unwrap(wrapped)
    opener = openers.get(generation)
    if opener is None:
        return None
    bound_to = binding(tenant, key_id)
    try:
        return wrapper.wrap(opener.open(sealed, bound_to), bound_to)
    except sealing.SealBroken:
        return None
