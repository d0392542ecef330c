"""Which memories an erasure reaches, told from the log itself: every one there is, however many (F01).

Projections are not asked: they may be behind, or have set something aside. What links memories, and whose they
are, stands readable in their events, and is kept by `projections.links` as far as it was asked for.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from ...domain.events import Derived, ErasureKind, ProviderCall
from ...domain.extraction import EXTRACTOR
from ...projections.generations import HOME
from ...projections.links import DECIDED, LINE, OWNER, RUN, SCOPE, SHOWN, SOURCE, USED
from ...streams.database import Connection
from ..forgetting.open_proposals import KIND as OPEN_PROPOSAL

LEFT_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for. ``target`` is a memory, or the opaque id of a person or a project."""

    kind: ErasureKind
    target: UUID | None
    scope: str | None
    derived: Derived


@dataclass(frozen=True, slots=True)
class Targets:
    """What an erasure reaches."""

    memories: tuple[UUID, ...]
    derived: int
    """How many of them only follow from what was asked for."""
    left: tuple[UUID, ...]
    """Memories that follow from these and stay."""
    names: frozenset[UUID]
    """Opaque ids that only these memories used: runs and sessions, whose names go with them."""


async def find_targets(connection: Connection, tenant: UUID, asked: Asked) -> Targets:
    """Everything an erasure of this reaches; with ``cascade`` also what follows from it, and so on.

    As far as `projections.links` are told.
    """
    links = _Links(connection, tenant)
    seeds = await links.seeds(asked)
    if asked.kind == "tenant":
        return Targets(tuple(sorted(seeds)), 0, (), frozenset(await links.used_only_by(seeds)))
    everything = await links.lineages(seeds)
    asked_for = len(everything)
    newest = everything
    while asked.derived == "cascade":
        newest = await links.lineages(await links.others(SOURCE, newest) - everything) - everything
        if not newest:
            break
        everything = everything | newest
    left = await links.others(SOURCE, everything) - everything
    return Targets(
        tuple(sorted(everything)),
        len(everything) - asked_for,
        tuple(sorted(left)),
        frozenset(await links.used_only_by(everything)),
    )


async def find_left(connection: Connection, tenant: UUID, memories: Collection[UUID]) -> tuple[UUID, ...]:
    """Memories that follow from these and are none of them."""
    return tuple(sorted(await _Links(connection, tenant).others(SOURCE, memories) - set(memories)))


async def find_judges(
    connection: Connection, tenant: UUID, memories: Collection[UUID]
) -> tuple[ProviderCall, ...]:
    """Judges and extractors elsewhere that were shown these, and when."""
    cursor = await connection.execute(
        f"select detail, min(at) from {HOME}.memory_links where tenant = %s and kind = %s and about = any(%s) "
        "group by detail",
        (tenant, SHOWN, _texts(memories)),
    )
    times: dict[str, list[datetime]] = defaultdict(list)
    for detail, at in await cursor.fetchall():
        times[detail.partition(" ")[2]].append(at)
    return tuple(
        ProviderCall(
            provider=judge,
            operation="extraction" if judge.startswith(EXTRACTOR) else "judging",
            calls=len(at),
            first_at=min(at),
            last_at=max(at),
        )
        for judge, at in sorted(times.items())
    )


async def find_sessions(
    connection: Connection, tenant: UUID, persons: Collection[UUID], memories: Collection[UUID]
) -> set[UUID]:
    """Names of sessions that only these persons had, and that no memory bears but these."""
    cursor = await connection.execute(
        f"select distinct about from {HOME}.memory_links mine where tenant = %(tenant)s and kind = %(run)s "
        f"and detail = any(%(persons)s) and not exists (select from {HOME}.memory_links other "
        "where other.tenant = mine.tenant and other.kind = mine.kind and other.about = mine.about "
        f"and other.detail <> all(%(persons)s)) and not exists (select from {HOME}.memory_links used "
        "where used.tenant = mine.tenant and used.kind = %(used)s and used.about = mine.about "
        "and used.memory <> all(%(memories)s) and exists (select from lethelog_vault.data_keys k "
        "where k.tenant = used.tenant and k.key_id = used.memory))",
        {
            "tenant": tenant,
            "run": RUN,
            "used": USED,
            "persons": _texts(persons),
            "memories": list(memories),
        },
    )
    return {UUID(row[0]) for row in await cursor.fetchall()}


async def find_decided(connection: Connection, tenant: UUID, memories: Collection[UUID]) -> set[UUID]:
    """Proposals about these that were decided and are not open again: whose commands may hold a comment."""
    cursor = await connection.execute(
        f"select distinct l.memory from {HOME}.memory_links l where l.tenant = %s and l.kind = %s "
        "and l.about = any(%s) and not exists (select from lethelog.claims c where c.tenant = l.tenant "
        "and c.kind = %s and c.holder = l.memory)",
        (tenant, DECIDED, _texts(memories), OPEN_PROPOSAL),
    )
    return {row[0] for row in await cursor.fetchall()}


async def find_beginnings(connection: Connection, tenant: UUID, memories: Collection[UUID]) -> dict[UUID, int]:
    """At which position each memory was remembered."""
    cursor = await connection.execute(
        "select stream, position from lethelog.events where tenant = %s and stream = any(%s) and version = 1",
        (tenant, list(memories)),
    )
    found: dict[UUID, int] = dict(await cursor.fetchall())
    return found


class _Links:
    """What is asked of the links of one tenant."""

    def __init__(self, connection: Connection, tenant: UUID) -> None:
        self._connection = connection
        self._tenant = tenant

    async def seeds(self, asked: Asked) -> set[UUID]:
        if asked.kind == "tenant":
            return await self._memories("kind = %s", SCOPE)
        if asked.kind == "memory":
            return await self._memories("memory = %s and kind = %s", asked.target, SCOPE)
        if asked.kind == "scope":
            return await self._memories("kind = %s and about = %s", SCOPE, asked.scope)
        return await self._memories("kind = %s and about = %s", OWNER, str(asked.target))

    async def lineages(self, seeds: set[UUID]) -> set[UUID]:
        """These with all their versions, and earlier memories of the same text."""
        found = newest = set(seeds)
        while newest:
            newest = await self.others(LINE, newest) - found
            found = found | newest
        return found

    async def others(self, kind: str, memories: Collection[UUID]) -> set[UUID]:
        """Memories whose rows of this kind are about these."""
        return await self._memories("kind = %s and about = any(%s)", kind, _texts(memories)) if memories else set()

    async def used_only_by(self, memories: Collection[UUID]) -> set[UUID]:
        """Runs and sessions of these that no other memory is of, but for those that were erased before."""
        cursor = await self._connection.execute(
            f"select distinct about from {HOME}.memory_links used where tenant = %(tenant)s "
            "and memory = any(%(memories)s) and kind = %(kind)s and not exists (select "
            f"from {HOME}.memory_links other where other.tenant = used.tenant and other.kind = used.kind "
            "and other.about = used.about and other.memory <> all(%(memories)s) "
            "and exists (select from lethelog_vault.data_keys k where k.tenant = other.tenant "
            "and k.key_id = other.memory))",
            {"tenant": self._tenant, "memories": list(memories), "kind": USED},
        )
        return {UUID(row[0]) for row in await cursor.fetchall()}

    async def _memories(self, where: str, *values: object) -> set[UUID]:
        cursor = await self._connection.execute(
            f"select distinct memory from {HOME}.memory_links where tenant = %s and {where}",
            (self._tenant, *values),
        )
        return {row[0] for row in await cursor.fetchall()}


def _texts(ids: Iterable[UUID]) -> list[str]:
    return [str(one) for one in ids]
