"""Keys: one data key per memory, wrapped by its tenant's key, wrapped by the master key (design.md 4).

Destroying a data key makes everything sealed under it unreadable, in every copy. A missing key reads as a
tombstone, never as an error. What is remembered of keys is let go with every erasure (`recollection`).
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from ..domain.errors import Erased
from . import sealing
from .arrays import UuidArray
from .database import Connection, Database
from .leadership import lock_number
from .master_keys import Keyring
from .recollection import Recollection
from .wrapping import KEPT_PURPOSES, ROOT_PURPOSE, TenantKeys, binding, key_id_of_purpose, unwrap

REWRAP_PAGE = 500
ATTEMPTS = 3
"""How often keys are read that are wrapped under a tenant's key unknown here; one reading misses a replacement."""
_NEW_TENANT_KEYS = lock_number("new tenant keys")
CACHED_KEYS = 10_000
"""Data keys kept in memory per process; least recently used ones go first."""


class WrappedKey(NamedTuple):
    """A new data key on its way into the vault, with the append that first uses it."""

    key_id: UUID
    wrapped: bytes


class WrappedTenantKey(NamedTuple):
    """A generation of a tenant's key as it is stored; empty where the tenant was erased."""

    generation: int
    master: bytes | None
    wrapped: bytes


@dataclass(frozen=True, slots=True)
class DataKeys:
    """The data keys that were asked for, as far as they still exist."""

    usable: dict[UUID, bytes] = field(default_factory=dict[UUID, bytes])
    unusable: set[UUID] = field(default_factory=set[UUID])
    """Those that exist and do not open."""

    @property
    def known(self) -> set[UUID]:
        """Those that exist, whether they open or not."""
        return {*self.usable, *self.unusable}

    def get(self, key_id: UUID) -> bytes | None:
        """The key; None where it was destroyed. Raises `UnusableKey` for one that exists and does not open."""
        key = self.usable.get(key_id)
        if key is None and key_id in self.unusable:
            raise sealing.UnusableKey(
                f"the data key of {key_id} does not open: it, or its tenant's key, is damaged or wrapped under "
                "another key; put it back from a backup",
                key_id=key_id,
            )
        return key


class Vault:
    """Gives and makes keys. One per process; safe for many tasks of one event loop."""

    def __init__(self, database: Database, keyring: Keyring) -> None:
        self._database = database
        self.keyring = keyring
        self.recollection = Recollection()
        """Of this process: what it may remember, and the epoch it knows of."""
        self._tenants: dict[UUID, TenantKeys] = {}
        self._purposes: dict[tuple[UUID, str], bytes] = {}
        # By numbers of tenant and key: the hash of a UUID is computed in Python.
        self._keys: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self.recollection.register(self.forget)

    async def tenant_keys(self, tenant: UUID) -> TenantKeys:
        """The tenant's key, made at first use. Raises `Erased` where it was destroyed."""
        known = self._tenants.get(tenant)
        if known is None:
            turn = self.recollection.turn()
            known = await self._load_or_make_tenant_keys(tenant)
            if self.recollection.may_keep(turn):
                self._tenants[tenant] = known
        return known

    async def tenants(self) -> list[UUID]:
        """Every tenant that was not erased: each has a key before it has an event, so that no log need be read."""
        async with self._database.connection() as connection:
            cursor = await connection.execute(
                "select distinct tenant from lethelog_vault.tenant_keys where wrapped <> '' order by 1"
            )
            return [row[0] for row in await cursor.fetchall()]

    async def purpose_key(self, tenant: UUID, purpose: str) -> bytes:
        """The tenant's key for one purpose, such as ``claims`` or ``directory-name``; it never changes.

        It is derived from the tenant's first key, and kept like a data key once that is replaced, so that digests
        stay what they are. Raises `UnusableKey`, and `Erased`.
        """
        known = self._purposes.get((tenant, purpose))
        if known is None:
            turn = self.recollection.turn()
            known = await self._read_purpose_key(tenant, purpose)
            if self.recollection.may_keep(turn):
                self._purposes[(tenant, purpose)] = known
        return known

    async def _read_purpose_key(self, tenant: UUID, purpose: str) -> bytes:
        if purpose not in KEPT_PURPOSES:
            return sealing.derive(await self.purpose_key(tenant, ROOT_PURPOSE), purpose)
        keys = await self.tenant_keys(tenant)
        if keys.newest == 1:
            return sealing.derive(keys.generations[1], purpose)
        key_id = key_id_of_purpose(purpose)
        key = (await self.data_keys(tenant, [key_id])).get(key_id)
        if key is None:
            raise sealing.UnusableKey(
                "a key that this tenant's digests are made with is missing; put it back from a backup",
                key_id=key_id,
            )
        return key

    async def new_data_keys(
        self, tenant: UUID, ids: Collection[UUID]
    ) -> tuple[dict[UUID, bytes], list[WrappedKey]]:
        """Fresh data keys, and their wrapped form, which the append stores in the same transaction."""
        wrap = (await self.tenant_keys(tenant)).wrapper.wrap
        keys = dict(zip(ids, sealing.new_keys(len(ids)), strict=True))
        return keys, [WrappedKey(key_id, wrap(key, binding(tenant, key_id))) for key_id, key in keys.items()]

    def forget_tenant_keys(self, tenant: UUID) -> None:
        """Read them anew at the next use: they were replaced."""
        self._tenants.pop(tenant, None)

    def remember(self, tenant: UUID, key_id: UUID, key: bytes, turn: int) -> None:
        """Keep a key, if that is allowed still; ``turn`` is of before it was read, or before its append."""
        if not self.recollection.may_keep(turn):
            return
        place = (tenant.int, key_id.int)
        self._keys[place] = key
        self._keys.move_to_end(place)
        while len(self._keys) > CACHED_KEYS:
            self._keys.popitem(last=False)

    async def data_keys(self, tenant: UUID, ids: Iterable[UUID]) -> DataKeys:
        """The data keys that still exist; destroyed ones are absent. One query for those not cached.

        One that does not open spoils none but itself.
        """
        found = DataKeys()
        missing: list[UUID] = []
        for key_id in ids:
            place = (tenant.int, key_id.int)
            cached = self._keys.get(place)
            if cached is None:
                missing.append(key_id)
            else:
                self._keys.move_to_end(place)
                found.usable[key_id] = cached
        for attempt in range(1, ATTEMPTS + 1):
            if not missing:
                break
            missing = await self._find(tenant, missing, found)
            if missing and attempt < ATTEMPTS:
                self.forget_tenant_keys(tenant)
        found.unusable.update(missing)
        return found

    async def _find(self, tenant: UUID, ids: Sequence[UUID], found: DataKeys) -> list[UUID]:
        """Read these keys, and return those wrapped under a tenant's key that was not there when it was read."""
        turn = self.recollection.turn()
        openers = await self._openers(tenant)
        strange: list[UUID] = []
        for key_id, wrapped in await self._read_wrapped(tenant, ids):
            generation, sealed = unwrap(wrapped)
            opener = openers.get(generation)
            if opener is None and openers:
                strange.append(key_id)
                continue
            key = None if opener is None else _opened(opener, sealed, binding(tenant, key_id))
            if key is None:
                found.unusable.add(key_id)
                continue
            self.remember(tenant, key_id, key, turn)
            found.usable[key_id] = key
        return strange

    async def _read_wrapped(self, tenant: UUID, ids: Sequence[UUID]) -> list[tuple[UUID, bytes]]:
        """Those of these keys that exist, as they are stored."""
        rows = await self._database.doors.rows(
            tenant,
            # By their places among those asked for: to make an id of what comes back takes as long as to open it.
            "select x.n, k.wrapped from unnest(%s) with ordinality x(key_id, n) "
            "join lethelog_vault.data_keys k on k.tenant = %s and k.key_id = x.key_id",
            (UuidArray(ids), tenant),
            binary=True,
        )
        return [(ids[n - 1], wrapped) for n, wrapped in rows]

    async def _openers(self, tenant: UUID) -> dict[int, sealing.Opener]:
        """What opens the keys of a tenant, by generation; none where its own do not, which concerns it alone."""
        try:
            keys = await self.tenant_keys(tenant)
            return {generation: sealing.Opener(key) for generation, key in keys.generations.items()}
        except (sealing.UnusableKey, Erased):
            return {}

    def forget(self) -> None:
        """Drop every key this process remembers."""
        self._keys.clear()
        self._tenants.clear()
        self._purposes.clear()

    async def rewrap_tenant_keys(self, report: Callable[[int, int], None]) -> int:
        """Wrap every tenant's key under the newest master key; returns how many were not yet.

        Runs beside everything else, goes on where one that was broken off stopped, and may run twice at once.
        """
        await asyncio.to_thread(self.keyring.reload)
        done = 0
        async with self._database.connection() as connection:
            left = "from lethelog_vault.tenant_keys where wrapped <> '' and master is distinct from %s"
            cursor = await connection.execute(f"select count(*) {left}", (self.keyring.newest,))
            [total] = await cursor.fetchone() or (0,)
            report(0, total)
            while True:
                cursor = await connection.execute(
                    f"select tenant, master, wrapped {left} order by tenant limit {REWRAP_PAGE}",
                    (self.keyring.newest,),
                )
                rows = await cursor.fetchall()
                if not rows:
                    return done
                again = [self._rewrapped(*row) for row in rows]
                await connection.execute(
                    # A row that another process wrapped meanwhile is as good.
                    "update lethelog_vault.tenant_keys k set master = x.master, wrapped = x.wrapped "
                    "from unnest(%s::uuid[], %s::bytea[], %s::bytea[], %s::bytea[]) "
                    "x(tenant, before, master, wrapped) where k.tenant = x.tenant and k.wrapped = x.before",
                    [list(column) for column in zip(*again, strict=True)],
                )
                done += len(rows)
                report(done, max(total, done))

    def _rewrapped(self, tenant: UUID, master: bytes | None, wrapped: bytes) -> tuple[UUID, bytes, bytes, bytes]:
        bound_to = binding(tenant, tenant)
        return (tenant, wrapped, *self.keyring.wrap(self.keyring.unwrap(master, wrapped, bound_to), bound_to))

    async def master_keys_in_use(self) -> dict[bytes | None, int]:
        """Fingerprint of each master key that wraps tenants' keys, and how many."""
        async with self._database.connection() as connection:
            cursor = await connection.execute(
                "select master, count(distinct tenant) from lethelog_vault.tenant_keys where wrapped <> '' "
                "group by master order by master"
            )
            return dict(await cursor.fetchall())

    @asynccontextmanager
    async def no_new_tenant_keys(self) -> AsyncGenerator[None]:
        """While inside, no process wraps a new tenant's key, so a master key that wraps nothing may be let go."""
        async with self._database.doors.transaction() as connection:
            await connection.execute("select pg_advisory_xact_lock(%s)", (_NEW_TENANT_KEYS,))
            yield

    async def _load_or_make_tenant_keys(self, tenant: UUID) -> TenantKeys:
        rows = await self.read_tenant_keys(tenant)
        return await self.open_tenant_keys(tenant, rows or await self._make_tenant_key(tenant))

    async def read_tenant_keys(self, tenant: UUID) -> list[WrappedTenantKey]:
        """A tenant's keys as they are stored: one, two while it is being replaced, none before its first use."""
        rows = await self._database.doors.rows(tenant, _TENANT_KEYS, (tenant,))
        return [WrappedTenantKey(*row) for row in rows]

    async def open_tenant_keys(self, tenant: UUID, rows: Sequence[WrappedTenantKey]) -> TenantKeys:
        """A tenant's keys from their rows. Raises `Erased`, and `UnusableKey` where the newest does not open."""
        if not all(row.wrapped for row in rows):
            # Destroyed, and never to be made again: a new one would let its tenant live on.
            raise Erased("the tenant was erased; nothing brings it back", tenant=tenant)
        if not all(self.keyring.knows(row.master) for row in rows):
            await asyncio.to_thread(self.keyring.reload)
        newest = max(row.generation for row in rows)
        keys: dict[int, bytes] = {}
        for row in rows:
            try:
                keys[row.generation] = self.keyring.unwrap(row.master, row.wrapped, binding(tenant, tenant))
            except sealing.UnusableKey:
                if row.generation == newest:
                    raise
        return TenantKeys(keys)

    async def _make_tenant_key(self, tenant: UUID) -> list[WrappedTenantKey]:
        async with self._database.doors.tenant(tenant) as connection:
            master, wrapped = await self.wrap_tenant_key(connection, tenant, sealing.new_key())
            await connection.execute("select lethelog.first_tenant_key(%s, %s, %s)", (tenant, master, wrapped))
            rows = await (await connection.execute(_TENANT_KEYS, (tenant,))).fetchall()
        return [WrappedTenantKey(*row) for row in rows]

    async def wrap_tenant_key(self, connection: Connection, tenant: UUID, key: bytes) -> tuple[bytes, bytes]:
        """(fingerprint of the master key, the key wrapped under it), good for the transaction that stores it."""
        await connection.execute("select pg_advisory_xact_lock_shared(%s)", (_NEW_TENANT_KEYS,))
        # Under a key that was taken away meanwhile nobody else could open it.
        await asyncio.to_thread(self.keyring.reload)
        return self.keyring.wrap(key, binding(tenant, tenant))


def _opened(opener: sealing.Opener, sealed: bytes, bound_to: bytes) -> bytes | None:
    try:
        return opener.open(sealed, bound_to)
    except sealing.SealBroken:
        return None


_TENANT_KEYS = "select generation, master, wrapped from lethelog_vault.tenant_keys where tenant = %s"
