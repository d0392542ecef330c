"""Everything the handlers work with, put together once per process."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from ..projections.commitments import CommitmentStates
from ..projections.contradictions import Contradictions
from ..projections.effects import Effects
from ..projections.embedders import Embedder
from ..projections.facts import Facts
from ..projections.live_memory import LiveMemory
from ..projections.memory_history import MemoryHistory
from ..projections.projection import Projection
from ..projections.rebuild import GRACE
from ..projections.review_queue import ReviewQueue
from ..projections.search import Search
from ..projections.sessions import SessionRuns
from ..streams.database import Database, Doors
from ..streams.directory import Directory
from ..streams.log import Log
from ..streams.master_keys import Keyring
from ..streams.reader import LogTail
from ..streams.vault import Vault
from .erasure.means import ErasureMeans
from .tenancy.tenants import Tenants
from .webhooks.settings import WebhookSettings

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The wall clock; the one default of every ``clock``."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class Engine:
    """The parts, open. Built by `open_engine`; closed by `close`."""

    database: Database
    """The worker's: all tenants."""
    vault: Vault
    log: Log
    directory: Directory
    tail: LogTail
    embedder: Embedder
    search: Search
    tenants: Tenants
    live_memory: LiveMemory
    review_queue: ReviewQueue
    memory_history: MemoryHistory
    facts: Facts
    commitments: CommitmentStates
    contradictions: Contradictions
    effects: Effects
    sessions: SessionRuns
    clock: Clock
    grace: timedelta
    """How long a read model's old generation stays after a rebuild."""
    erasure: ErasureMeans | None = None
    """Ledger and signing key; without them nothing is erased here."""
    webhooks: WebhookSettings = field(default_factory=WebhookSettings)

    @property
    def doors(self) -> Doors:
        """What a caller's reads and writes go through: one tenant at a time."""
        return self.database.doors

    @property
    def projections(self) -> tuple[Projection, ...]:
        """All read models, in the order they are shown."""
        return (
            self.live_memory,
            self.review_queue,
            self.memory_history,
            self.facts,
            self.commitments,
            self.contradictions,
            self.effects,
            self.sessions,
        )

    def projection(self, name: str) -> Projection | None:
        """A read model by its name."""
        return next((one for one in self.projections if one.name == name), None)

    async def close(self) -> None:
        """Drain what waits and let go of every connection. The embedder stays with whoever opened it."""
        await self.log.close()
        await self.tail.close()
        await self.database.close()


async def open_engine(
    database_url: str,
    keyring: Keyring,
    embedder: Embedder,
    *,
    worker_url: str | None = None,
    clock: Clock = utc_now,
    grace: timedelta = GRACE,
    erasure: ErasureMeans | None = None,
    webhooks: WebhookSettings | None = None,
) -> Engine:
    """Open every part over a migrated database. ``worker_url`` is a login of its own for background work.

    Raises `Unavailable` or `Misconfigured`.
    """
    database = Database(database_url, worker_url=worker_url)
    await database.open()
    vault = Vault(database, keyring)
    log = Log(database, vault)
    await log.open()
    tail = LogTail(database.doors, vault.recollection)
    await tail.open()
    return Engine(
        database=database,
        vault=vault,
        log=log,
        directory=Directory(database.doors, vault),
        tail=tail,
        embedder=embedder,
        search=Search(database.doors, embedder),
        tenants=Tenants(log),
        live_memory=LiveMemory(log, embedder),
        review_queue=ReviewQueue(),
        memory_history=MemoryHistory(),
        facts=Facts(),
        commitments=CommitmentStates(log),
        contradictions=Contradictions(),
        effects=Effects(),
        sessions=SessionRuns(log),
        clock=clock,
        grace=grace,
        erasure=erasure,
        webhooks=webhooks or WebhookSettings(),
    )
