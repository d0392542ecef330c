"""Every place that can hold something of a memory: how it is erased there, and what proves it.

One list, used by the erasure itself, by the proof, by doctor, and by the table in the docs. Places that an erasure
cannot reach are named here too, since a certificate says what it does not cover.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from ...projections.erasing import Gone, count_clear_texts, find_others, places_of
from ...projections.generations import HOME
from ...projections.links import DECIDED
from ...streams.database import Connection
from ...streams.log import Log
from ...streams.recollection import listening, unseen
from ...streams.sealing import UnusableKey
from ...streams.vault import Vault
from ..engine import Engine

_PAGE = 500


@dataclass(frozen=True, slots=True)
class Erasing:
    """What is looked for: texts of memories, names, and with ``gone.everything`` all of the tenant."""

    gone: Gone
    names: Sequence[UUID]
    blocked: bool = False
    """Whether digests stay by which the texts come back quarantined."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where something of a memory stands. The texts are for the docs."""

    name: str
    where: str
    erased_by: str
    proved_by: str
    remains: str = "nothing"


@dataclass(frozen=True, slots=True)
class OutOfReach:
    """Where copies may be that no erasure here can reach."""

    name: str
    why: str
    what_to_do: str


PLACES: tuple[Place, ...] = (
    Place(
        "data keys",
        "lethelog_vault.data_keys: one key per memory",
        "destroyed, in the transaction that takes out the clear copies",
        "no row is there",
        "the row's bytes in PostgreSQL's files until they are written over, wrapped under the tenant's key",
    ),
    Place(
        "sealed events",
        "lethelog.events: text sealed under the data key",
        "cannot be read any more, since its key is gone; the bytes stay, so that the hash chain holds",
        "the events are read again with fresh keys, and nothing opens",
        "type, scope, times, opaque ids, kind of actor, sizes and hashes of ciphertext",
    ),
    Place(
        "directory",
        "lethelog.directory: outside names, sealed, and their keyed digests",
        "rows of an erased person (also as actor or agent) or project go, and of runs and sessions that"
        " no other memory is of",
        "no row is there",
        "the opaque id in events, which nothing leads back from",
    ),
    Place(
        "tenant key",
        "lethelog_vault.tenant_keys",
        "destroyed with a tenant; an empty row stays, so that no new one is made",
        "the row is empty",
    ),
    Place(
        "claims",
        "lethelog.claims: keyed digests of texts that are or were held",
        "deleted; with re-entry blocked, keyed digests of each text stay instead",
        "no row of these memories is there but a block",
        "with re-entry blocked: a keyed digest, which says nothing without the tenant's key",
    ),
    Place(
        "command keys",
        "lethelog.commands: keyed digests of what commands said, decisions about them included",
        "emptied; the digest of the client's own key stays, so that a retry does not write the text again",
        "no digest of a command is there",
        "the keyed digest of the client's key",
    ),
    Place("live_memory", "the read model of memories, every copy: text, words and vector", "rows are deleted",
          "no row is there", "bytes of dead rows and of entries of indexes, until they are written over"),
    Place("memory_past", "past states, every copy: text, words and vector", "rows are deleted", "no row is there",
          "bytes of dead rows and of entries of indexes, until they are written over"),
    Place("review_queue", "proposals, every copy: quoted sentences and comments", "the texts are taken out",
          "no text is there", "the card without text: which memory, which action, when, by whom"),
    Place("memory_history", "what happened to each memory, every copy: texts before and after, reasons,"
          " comments",
          "the texts are taken out", "no text is there", "the skeleton: which event, when, by whom"),
    Place("facts", "what memories say as subject, predicate and value, every copy", "rows are deleted",
          "no row is there", "bytes of dead rows and of entries of indexes, until they are written over"),
    Place("replays", "schemas lethelog_replay_*: past states somebody had written out", "as in the read models",
          "no text is there"),
    Place("neighbour cache", "lethelog_views.candidate_*: words and nearest memories",
          "the lists and word counts of the groups they were in are deleted, and made anew by the next pass",
          "no row is there"),
    Place("processes", "keys and names that running processes remember", "dropped by a notification",
          "every process that remembers anything says that it has seen the erasure"),
)  # fmt: skip

OUT_OF_REACH: tuple[OutOfReach, ...] = (
    OutOfReach(
        "backups of the database",
        "they hold keys and clear copies as of when they were made",
        "what they bring back is erased again when Lethelog starts, by the ledger; delete them when your "
        "retention says so",
    ),
    OutOfReach(
        "write-ahead log and dead rows",
        "PostgreSQL keeps the bytes of deleted rows until something is written over them, also after a plain "
        "vacuum, and its log until it is removed",
        "they cannot be read through PostgreSQL; make the tables anew and have the log removed, by the "
        "statements in docs/how-to/erase.md, and keep archived logs no longer than backups",
    ),
    OutOfReach(
        "statistics of the planner",
        "PostgreSQL samples columns for its plans: not texts, words, vectors, keys and sealed names, but keyed "
        "digests of texts and names; before PostgreSQL 18 what an earlier Lethelog let it sample stays, too",
        "run `analyze`; before PostgreSQL 18, after an upgrade, also `lethelog rebuild` for each read model",
    ),
    OutOfReach(
        "subscribers",
        "they keep read models of their own",
        "`lethelog erase show` lists who acknowledged when, and who has not yet",
    ),
    OutOfReach(
        "broker",
        "messages carry the same ciphertext as the log",
        "nothing: without its key it cannot be read",
    ),
    OutOfReach(
        "receivers of webhooks",
        "they were sent ids, kinds, times and counts, and no text; they keep that as they like",
        "`lethelog webhook list` names them, as long as their tenant is there; ask them",
    ),
    OutOfReach(
        "providers",
        "judges, extractors and embedders elsewhere received text",
        "the certificate names who, for what, and when first and last, as far as the log and the read models "
        "of that moment tell: an embedder of before a rebuild is not named; ask them",
    ),
    OutOfReach(
        "exports",
        "files that were handed out, or are on their way through `lethelog serve`",
        "the certificate names each archive that may hold it, with its digest; delete them where they were taken "
        "to. Importing one brings nothing back that the ledger names. What a killed server left in its folder for "
        "temporary files goes with the next archive that passes through one",
    ),
)


class Blind(Exception):
    """The look into a place finds nothing there, although something is."""


class Looking:
    """Looks into places: before an erasure to say what is there, and afterwards to prove that it is gone."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def count(self, connection: Connection, erasing: Erasing) -> dict[str, int]:
        """Entries of each place in the database, as this connection sees it."""
        gone = erasing.gone
        counts: dict[str, int] = {}
        for name, statement in _STATEMENTS.items():
            cursor = await connection.execute(statement, {**gone.values, **_values(erasing)})
            [counts[name]] = await cursor.fetchone() or (0,)
        cursor = await connection.execute(
            "select count(*) from lethelog.events where tenant = %(tenant)s and stream = any(%(memories)s)",
            gone.values,
        )
        [counts["sealed events"]] = await cursor.fetchone() or (0,)
        return counts | await count_clear_texts(connection, self._engine.projections, gone)

    async def look_again(self, connection: Connection, erasing: Erasing) -> dict[str, int]:
        """Entries of every place after an erasure, the log itself and other processes included."""
        counts = await self.count(connection, erasing)
        counts["sealed events"] = await self._count_opened(erasing.gone)
        counts["processes"] = await unseen(connection)
        return counts

    async def controls(self, connection: Connection, erasing: Erasing) -> set[str]:
        """Places in which the same look finds something of somebody else.

        Raises `Blind` where it finds nothing of what must be there: then it proves nothing of what was erased.
        """
        gone = erasing.gone
        found = await find_others(connection, self._engine.projections, gone)
        for name, (table, where) in _OTHERS.items():
            cursor = await connection.execute(
                f"select exists (select from {table} where not ({where}))", {**gone.values, **_values(erasing)}
            )
            if await cursor.fetchone() == (True,):
                found.add(name)
        cursor = await connection.execute(_READABLE, {**gone.values, **_values(erasing)})
        readable = await cursor.fetchall()
        if readable:
            opened = [await self._opens(tenant, memory) for tenant, memory in readable]
            if not any(opened):
                raise Blind("sealed events")
            found.add("sealed events")
        if await listening(connection):
            found.add("processes")
        return found

    async def _opens(self, tenant: UUID, memory: UUID) -> bool:
        try:
            return await self._count_opened(Gone(tenant, (memory,), everything=False)) > 0
        except UnusableKey:
            return False

    async def _count_opened(self, gone: Gone) -> int:
        """Events of these memories of which something still opens, read with keys of this moment."""
        log = Log(self._engine.database, Vault(self._engine.database, self._engine.vault.keyring))
        opened = 0
        for start in range(0, len(gone.memories), _PAGE):
            streams = await log.read_streams(gone.tenant, gone.memories[start : start + _PAGE])
            opened += sum(
                any(getattr(one.event, field) is not None for field in one.event.SEALED)
                for events in streams.values()
                for one in events
                if one.event is not None
            )
        return opened


def places(engine: Engine) -> tuple[str, ...]:
    """Names of the places that are looked at, in the order of `PLACES`."""
    known = {*_STATEMENTS, *places_of(engine.projections), "sealed events", "processes"}
    return tuple(place.name for place in PLACES if place.name in known)


def _values(erasing: Erasing) -> dict[str, object]:
    return {
        "everything": erasing.gone.everything,
        "names": list(erasing.names),
        "blocked": erasing.blocked,
    }


_READABLE = (
    "select k.tenant, k.key_id from lethelog_vault.data_keys k where not (k.tenant = %(tenant)s "
    "and (%(everything)s or k.key_id = any(%(memories)s))) and exists (select from lethelog.events e "
    "where e.tenant = k.tenant and e.stream = k.key_id and e.version = 1) limit 3"
)
"""Memories of others whose key is there, so that their events open; more than one, since a key may be damaged."""
_KEYS = "tenant = %(tenant)s and (%(everything)s or key_id = any(%(memories)s))"
_NAMES = "tenant = %(tenant)s and (%(everything)s or id = any(%(names)s))"
_CLAIMS = (
    "tenant = %(tenant)s and kind not in ('erasure', 'open-erasure', 'erasing') "
    "and (%(everything)s or (kind <> 'refuted' or not %(blocked)s) and holder = any(%(memories)s))"
)
_COMMANDS = (
    "tenant = %(tenant)s and hash <> '' and (%(everything)s or subject = any(%(memories)s) or subject in "
    f"(select memory from {HOME}.memory_links where tenant = %(tenant)s and kind = '{DECIDED}' "
    "and about = any(%(texts)s)))"
)
"""A decision about a memory may hold a comment, which is sealed with it."""
_TENANT_KEY = "%(everything)s and tenant = %(tenant)s and wrapped <> ''"
_OTHERS = {
    "data keys": ("lethelog_vault.data_keys", _KEYS),
    "directory": ("lethelog.directory", _NAMES),
    "tenant key": ("lethelog_vault.tenant_keys", _TENANT_KEY),
    "claims": ("lethelog.claims", _CLAIMS),
    "command keys": ("lethelog.commands", _COMMANDS),
}
_STATEMENTS = {name: f"select count(*) from {table} where {where}" for name, (table, where) in _OTHERS.items()}
