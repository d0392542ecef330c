"""An engine over a fresh database, with a clock the test holds."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from lethelog.handlers.access.caller import Caller
from lethelog.handlers.engine import Engine, open_engine
from lethelog.handlers.erasure.means import ErasureMeans
from lethelog.handlers.memories import MemoryCommands
from lethelog.handlers.reading import Reading
from lethelog.handlers.reviewing.reviewing import Reviewing
from lethelog.projections.embedders import open_embedder
from lethelog.projections.runner import ProjectionRunner, ensure_tables
from lethelog.streams.broker import BrokerSettings
from lethelog.streams.erasure_ledger import Ledger
from lethelog.streams.master_keys import Keyring
from lethelog.streams.parking_place import ParkingPlace
from lethelog.streams.payloads import Actor
from lethelog.streams.relay import Relay
from lethelog.streams.signing import SigningKey
from psycopg.conninfo import conninfo_to_dict

from ..conftest import copy_database, fresh_database
from .archives import export, lived_in
from .broker_fixtures import OwnNats, connected
from .children import Child, Start
from .held import HOLD_APPENDS, Held


@dataclass
class HeldClock:
    """A clock that stands still until it is moved."""

    now: datetime = datetime(2026, 3, 1, 9, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def forward(self, **span: float) -> None:
        self.now += timedelta(**span)


@dataclass
class World:
    """An engine with its doors, one caller, and read models brought up to date on demand."""

    engine: Engine
    clock: HeldClock
    caller: Caller
    commands: MemoryCommands
    reading: Reading
    reviewing: Reviewing
    database_url: str
    runners: list[ProjectionRunner] = field(default_factory=list)

    async def catch_up(self) -> int:
        """Bring every read model to the head of the log."""
        head = await self.engine.log.head()
        for runner in self.runners:
            await runner.catch_up(head)
        return head

    async def remember(self, content: str, **fields: Any) -> UUID:
        fields.setdefault("topic", content[:60])
        written = await self.commands.remember(self.caller, {"content": content, **fields})
        return written.memory.id

    async def search(self, query: str, **fields: Any) -> list[UUID]:
        await self.catch_up()
        result = await self.reading.search(self.caller, {"query": query, **fields})
        return [hit.memory.id for hit in result.hits]

    async def get(self, memory_id: UUID):
        await self.catch_up()
        [view] = await self.reading.get(self.caller, {"ids": [memory_id]})
        return view

    async def another_caller(self, tenant: UUID | None = None) -> Caller:
        """A caller of another tenant, of a new one where none is named."""
        other = Caller(tenant or uuid4(), Actor("person", uuid4()))
        await self.engine.tenants.ensure(other.tenant, other.actor)
        return other


@pytest.fixture(scope="session")
def world_template(servers, template: str, embedder) -> str:
    """The template with the tables of every read model, since making them takes longer than copying."""

    async def make_tables(url: str) -> None:
        engine = await open_engine(url, Keyring.of(b"m" * 32), embedder)
        await ensure_tables(engine.database, engine.projections)
        await engine.close()

    name = f"template_{uuid4().hex}"
    copy_database(servers, template, name)
    asyncio.run(make_tables(servers.database_url(name)))
    return name


@pytest.fixture
def database_url(request: pytest.FixtureRequest, servers, template: str, drop) -> Generator[str]:
    """A fresh migrated database, with the tables of read models where the test has a world."""
    chosen = request.getfixturevalue("world_template") if "world" in request.fixturenames else template
    with fresh_database(servers, chosen, drop) as url:
        yield url


@pytest.fixture
def other_database_url(servers, world_template: str, drop) -> Generator[str]:
    """A second one: another installation."""
    with fresh_database(servers, world_template, drop) as url:
        yield url


@pytest.fixture
def broker(servers, broker_prefix: str) -> BrokerSettings:
    return BrokerSettings(servers.broker_url, broker_prefix)


@pytest.fixture
async def carried(log, database, tail, broker: BrokerSettings) -> AsyncGenerator[Relay]:
    """A relay that carries the log to the broker."""
    relay = Relay(database, tail, broker)
    await relay.open()
    yield relay
    await relay.close()


@pytest.fixture
async def place(broker: BrokerSettings, database) -> AsyncGenerator[ParkingPlace]:
    """Where consumers park messages."""
    client = await connected(broker)
    yield ParkingPlace(client, broker, database)
    await client.close()


@pytest.fixture
def own_nats(tmp_path) -> Generator[OwnNats]:
    """A broker that the test may kill."""
    server = OwnNats(tmp_path / "nats").start()
    yield server
    server.stop()


@pytest.fixture
async def start() -> AsyncGenerator[Start]:
    """Starts a job of `child.py` in a process of its own; whatever still runs at the end is killed."""
    children: list[Child] = []

    async def start(job: str, **given: Any) -> Child:
        children.append(await Child.start(job, **given))
        return children[-1]

    yield start
    for child in children:
        await child.kill()


@pytest.fixture
def held(database_url: str) -> Generator[Callable[..., Held]]:
    """Holds every append, or what a statement locks, until released."""
    all_held: list[Held] = []

    def hold(statement: str = HOLD_APPENDS) -> Held:
        all_held.append(Held(database_url, statement))
        return all_held[-1]

    yield hold
    for one in all_held:
        one.close()


@pytest.fixture
async def judging_world(world: "World") -> "World":
    """A world that opted in to judging, whose clock stands at the real time: verdicts are dated by the log."""
    world.clock.now = datetime.now(UTC)
    await world.engine.tenants.set_judgment(world.caller.tenant, True, world.caller.actor)
    return world


@pytest.fixture(scope="session")
def embedder():
    with open_embedder() as opened:
        yield opened


@pytest.fixture
def clock() -> HeldClock:
    return HeldClock()


@pytest.fixture
async def world(database_url: str, embedder, clock: HeldClock, tmp_path: Path) -> AsyncGenerator[World]:
    async with opened_world(database_url, embedder, clock, tmp_path / "erasures.ledger") as opened:
        yield opened


@pytest.fixture
async def elsewhere(other_database_url: str, embedder, clock: HeldClock, tmp_path: Path) -> AsyncGenerator[World]:
    """Another installation, empty but for its tenant."""
    async with opened_world(other_database_url, embedder, clock, tmp_path / "elsewhere.ledger") as opened:
        yield opened


@dataclass(frozen=True)
class Lived:
    """A tenant with something of everything, lived once to be copied for every test that needs it."""

    template: str
    caller: Caller
    made: dict[str, UUID]
    archive: Path
    """It, moved out."""


@pytest.fixture(scope="session")
def lived(servers, drop, template: str, embedder, tmp_path_factory) -> Generator[Lived]:
    folder = tmp_path_factory.mktemp("lived")

    async def live(database_url: str) -> Lived:
        async with opened_world(database_url, embedder, HeldClock(), folder / "erasures.ledger") as world:
            made = await lived_in(world)
            await world.catch_up()
            archive = await export(world, folder / "lived.jsonl")
            name = str(conninfo_to_dict(database_url)["dbname"])
            return Lived(name, world.caller, made, archive)

    with fresh_database(servers, template, drop) as url:
        yield asyncio.run(live(url))


@pytest.fixture
async def lived_world(
    servers, drop, lived: Lived, embedder, clock: HeldClock, tmp_path: Path
) -> AsyncGenerator[World]:
    """A copy of the world that was lived in."""
    with fresh_database(servers, lived.template, drop) as url:
        ledger = tmp_path / "lived.ledger"
        async with opened_world(url, embedder, clock, ledger, caller=lived.caller) as opened:
            yield opened


@pytest.fixture
def made(lived: Lived) -> dict[str, UUID]:
    """Its memories and proposals by name, see `lived_in`."""
    return lived.made


@pytest.fixture
def archive(lived: Lived) -> Path:
    """An archive of it; not to be written to."""
    return lived.archive


@asynccontextmanager
async def opened_world(
    database_url: str, embedder, clock: HeldClock, ledger: Path, caller: Caller | None = None
) -> AsyncGenerator[World]:
    """A world over a database, with one tenant."""
    means = ErasureMeans(Ledger(ledger), SigningKey(b"s" * 32))
    engine = await open_engine(database_url, Keyring.of(b"m" * 32), embedder, clock=clock, erasure=means)
    await ensure_tables(engine.database, engine.projections)
    caller = caller or Caller(uuid4(), Actor("person", uuid4()))
    await engine.tenants.ensure(caller.tenant, caller.actor)
    commands = MemoryCommands(engine)
    yield World(
        engine=engine,
        clock=clock,
        caller=caller,
        commands=commands,
        reading=Reading(engine),
        reviewing=Reviewing(engine, commands),
        database_url=database_url,
        runners=[ProjectionRunner(engine.database, engine.log, engine.tail, one) for one in engine.projections],
    )
    await engine.close()
