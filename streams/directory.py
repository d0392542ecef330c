"""Outside names and their opaque ids (design.md 3: identifiers are personal too).

A name is found by a keyed digest and stored sealed; only its id enters events, messages and keys. Destroying
a row makes the id meaningless for ever. How Unicode composes a letter makes no other name: names are kept in NFC.
"""

import unicodedata
from collections.abc import Iterable, Mapping
from typing import Literal
from uuid import UUID, uuid4

from ..domain.errors import Erased
from . import sealing
from .database import Doors
from .recollection import keep_erasures_out
from .vault import Vault

NameKind = Literal["tenant", "project", "user", "agent", "run", "session", "subject", "actor"]
INSTALLATION = UUID(int=0)
"""Owner of what belongs to no tenant: the names of the tenants themselves."""
PERSON_KINDS: tuple[NameKind, ...] = ("user", "subject")
CACHE_LIMIT = 50_000


class Directory:
    """Looks names up, and gives new ones an id."""

    def __init__(self, doors: Doors, vault: Vault) -> None:
        self._doors = doors
        self._vault = vault
        self._ids: dict[tuple[UUID, str, str], UUID] = {}
        self._names: dict[tuple[UUID, UUID], str] = {}
        vault.recollection.register(self._forget)

    async def find(self, tenant: UUID, kind: NameKind, name: str) -> UUID | None:
        """The id of a name, or None where it was never used."""
        key = (tenant, _space(kind), name)
        if key in self._ids:
            return self._ids[key]
        turn = self._vault.recollection.turn()
        # What was written before names were kept in NFC is found as it was written.
        as_given, composed = [await self._digest(tenant, kind, one) for one in (name, _composed(name))]
        rows = await self._doors.rows(
            tenant,
            "select id from lethelog.directory where tenant = %s and kind = %s and digest = any(%s) "
            "order by digest = %s desc",
            (tenant, _space(kind), [as_given, composed], as_given),
        )
        for (one,) in rows:
            self._remember(key, one, turn)
            return one
        return None

    async def register(self, tenant: UUID, kind: NameKind, name: str) -> UUID:
        """The id of a name, made at first use; the same for every caller, however many at once."""
        known = await self.find(tenant, kind, name)
        if known is not None:
            return known
        name = _composed(name)
        fresh = uuid4()
        turn = self._vault.recollection.turn()
        sealing_key = await self._vault.purpose_key(tenant, "directory-name")
        sealed = sealing.seal(sealing_key, name.encode(), tenant.bytes + fresh.bytes)
        digest = await self._digest(tenant, kind, name)
        async with self._doors.tenant(tenant) as connection:
            # An erasure of the tenant waits for this, or is over: then its key is gone, and no row is left behind.
            await keep_erasures_out(connection)
            cursor = await connection.execute(
                "with added as (insert into lethelog.directory (tenant, kind, digest, id, sealed) "
                "select %(tenant)s, %(kind)s, %(digest)s, %(id)s, %(sealed)s where exists (select "
                "from lethelog_vault.tenant_keys where tenant = %(tenant)s and wrapped <> '') "
                "on conflict do nothing returning id) "
                "select id from added union all select id from lethelog.directory "
                "where tenant = %(tenant)s and kind = %(kind)s and digest = %(digest)s limit 1",
                {"tenant": tenant, "kind": _space(kind), "digest": digest, "id": fresh, "sealed": sealed},
            )
            rows = await cursor.fetchall()
        if not rows:
            # Another caller's insert committed after this statement's snapshot; it is visible now.
            found = await self.find(tenant, kind, name)
            if found is None:
                raise Erased("the tenant was erased; nothing brings it back", tenant=tenant)
            return found
        [(one,)] = rows
        self._remember((tenant, _space(kind), name), one, turn)
        return one

    async def names(self, tenant: UUID, ids: Iterable[UUID | None]) -> Mapping[UUID, str]:
        """id -> outside name; ids whose row was destroyed are absent."""
        wanted = {one for one in ids if one is not None}
        found = {one: self._names[(tenant, one)] for one in wanted if (tenant, one) in self._names}
        missing = list(wanted - set(found))
        if missing:
            turn = self._vault.recollection.turn()
            sealing_key = await self._vault.purpose_key(tenant, "directory-name")
            rows = await self._doors.rows(
                tenant,
                "select id, kind, sealed from lethelog.directory where tenant = %s and id = any(%s)",
                (tenant, missing),
            )
            for one, kind, sealed in rows:
                name = sealing.unseal(sealing_key, sealed, tenant.bytes + one.bytes).decode()
                self._remember((tenant, kind, name), one, turn)
                found[one] = name
        return found

    async def page(self, tenant: UUID, kind: NameKind, after: UUID | None, limit: int) -> list[tuple[UUID, str]]:
        """Ids and names of one kind, in the order of their ids."""
        sealing_key = await self._vault.purpose_key(tenant, "directory-name")
        rows = await self._doors.rows(
            tenant,
            "select id, sealed from lethelog.directory "
            "where tenant = %s and kind = %s and id > %s order by id limit %s",
            (tenant, _space(kind), after or UUID(int=0), limit),
        )
        return [
            (one, sealing.unseal(sealing_key, sealed, tenant.bytes + one.bytes).decode()) for one, sealed in rows
        ]

    async def _digest(self, tenant: UUID, kind: NameKind, name: str) -> bytes:
        key = await self._vault.purpose_key(tenant, "directory-lookup")
        return sealing.keyed_digest(key, _space(kind).encode(), name.encode())

    async def kinds(self, tenant: UUID, name: str) -> dict[UUID, str]:
        """Every id that a name has among people, agents and actors, and its kind: what is known of one person."""
        kinds: tuple[NameKind, ...] = ("subject", "actor", "agent")
        found = {str(kind): await self.find(tenant, kind, name) for kind in kinds}
        return {one: kind for kind, one in found.items() if one is not None}

    def _forget(self) -> None:
        self._ids.clear()
        self._names.clear()

    def _remember(self, key: tuple[UUID, str, str], one: UUID, turn: int) -> None:
        if not self._vault.recollection.may_keep(turn):
            return
        if len(self._ids) >= CACHE_LIMIT:
            self._forget()
        self._ids[key] = one
        if key[2] == _composed(key[2]):
            self._names[(key[0], one)] = key[2]


def _composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def _space(kind: NameKind) -> str:
    """A user and a data subject are the same people, so they share one name space."""
    return "person" if kind in PERSON_KINDS else kind
