"""Keys: one data key per memory, wrapped by its tenant's key, wrapped by the master key (design.md 4).

Destroying a data key makes everything sealed under it unreadable, in every copy. A missing key reads as a
tombstone, never as an error. Erasing, rotation and a vault of its own database come later; this module is
their seam.
"""

import base64
import os
import stat
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from ..domain.errors import Misconfigured
from . import sealing
from .database import Database

CACHED_KEYS = 10_000
"""Data keys kept in memory per process; least recently used ones go first."""


def load_master_key(path: Path, *, create: bool = False) -> bytes:
    """The master key from its file, which nobody but its owner may read.

    With ``create`` a missing file is made, with mode 0600, exactly once even if several processes try.
    Raises `Misconfigured` when it is missing, readable by others, or not a key.
    """
    if create and not path.exists():
        _write_master_key(path)
    try:
        mode = path.stat().st_mode
        text = path.read_text()
    except FileNotFoundError:
        raise Misconfigured(
            f"the master key file {path} is missing; put it back from your backup: without it nothing can be read"
        ) from None
    except (PermissionError, UnicodeDecodeError) as error:
        raise Misconfigured(f"the master key file {path} cannot be read: {type(error).__name__}") from None
    if stat.S_IMODE(mode) & 0o077:
        raise Misconfigured(f"the master key file {path} is open to others; run: chmod 600 '{path}'")
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except ValueError:
        key = b""
    if len(key) != sealing.KEY_BYTES:
        raise Misconfigured(f"the master key file {path} does not hold a base64 key of 32 bytes")
    return key


def _write_master_key(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        os.write(descriptor, base64.b64encode(sealing.new_key()) + b"\n")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    # Without this a power cut may lose the name of a key under which the database is sealed already.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@dataclass(frozen=True, slots=True)
class WrappedKey:
    """A new data key on its way into the vault, with the append that first uses it."""

    key_id: UUID
    wrapped: bytes


class Vault:
    """Gives and makes keys. One per process; safe for many tasks of one event loop."""

    def __init__(self, database: Database, master_key: bytes) -> None:
        self._database = database
        self._master = master_key
        self._tenants: dict[UUID, bytes] = {}
        self._keys: OrderedDict[tuple[UUID, UUID], bytes] = OrderedDict()

    async def tenant_key(self, tenant: UUID) -> bytes:
        """The tenant's key, made at first use."""
        known = self._tenants.get(tenant)
        if known is None:
            known = await self._load_or_make_tenant_key(tenant)
            self._tenants[tenant] = known
        return known

    async def purpose_key(self, tenant: UUID, purpose: str) -> bytes:
        """A key derived from the tenant's for one purpose, such as ``claims`` or ``directory-name``."""
        return sealing.derive(await self.tenant_key(tenant), purpose)

    async def new_data_key(self, tenant: UUID, key_id: UUID) -> tuple[bytes, WrappedKey]:
        """A fresh data key, and its wrapped form, which the append stores in the same transaction."""
        key = sealing.new_key()
        wrapped = sealing.seal(await self.tenant_key(tenant), key, _binding(tenant, key_id))
        return key, WrappedKey(key_id, wrapped)

    def remember(self, tenant: UUID, key_id: UUID, key: bytes) -> None:
        """Cache a key whose append succeeded."""
        self._keys[(tenant, key_id)] = key
        self._keys.move_to_end((tenant, key_id))
        while len(self._keys) > CACHED_KEYS:
            self._keys.popitem(last=False)

    async def data_keys(self, tenant: UUID, ids: Iterable[UUID]) -> dict[UUID, bytes]:
        """The data keys that still exist; destroyed ones are absent. One query for those not cached."""
        found: dict[UUID, bytes] = {}
        missing: list[UUID] = []
        for key_id in ids:
            cached = self._keys.get((tenant, key_id))
            if cached is None:
                missing.append(key_id)
            else:
                self._keys.move_to_end((tenant, key_id))
                found[key_id] = cached
        if missing:
            unwrapping = await self.tenant_key(tenant)
            async with self._database.connection() as connection:
                rows = await connection.execute(
                    "select key_id, wrapped from lethelog_vault.data_keys where tenant = %s and key_id = any(%s)",
                    (tenant, missing),
                )
                for key_id, wrapped in await rows.fetchall():
                    key = sealing.unseal(unwrapping, wrapped, _binding(tenant, key_id))
                    self.remember(tenant, key_id, key)
                    found[key_id] = key
        return found

    async def _load_or_make_tenant_key(self, tenant: UUID) -> bytes:
        fresh = sealing.new_key()
        wrapped = sealing.seal(self._master, fresh, _binding(tenant, tenant))
        async with self._database.connection() as connection:
            await connection.execute(
                "insert into lethelog_vault.tenant_keys (tenant, wrapped) values (%s, %s) on conflict do nothing",
                (tenant, wrapped),
            )
            rows = await connection.execute(
                "select wrapped from lethelog_vault.tenant_keys where tenant = %s", (tenant,)
            )
            row = await rows.fetchone()
        assert row is not None
        try:
            return sealing.unseal(self._master, row[0], _binding(tenant, tenant))
        except sealing.SealBroken:
            raise Misconfigured(
                "the master key does not open this database's keys; it belongs to another data directory"
            ) from None


def _binding(tenant: UUID, key_id: UUID) -> bytes:
    return b"lethelog-key" + tenant.bytes + key_id.bytes
