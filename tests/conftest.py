"""Real servers for the whole run, a fresh database and a broker prefix of its own for every test."""

import os
import shutil
import signal
import sys
import tempfile
import uuid
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from lethelog.ops.migrations import migrate
from lethelog.streams.database import Database
from lethelog.streams.log import Log
from lethelog.streams.master_keys import Keyring
from lethelog.streams.reader import LogTail
from lethelog.streams.vault import Vault

# A shell that runs the tests in the background has its children ignore Ctrl-C, and so would every command that
# is started here; whether they heed it must not depend on how the tests were started.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Hundreds of commands are started here; each would compile all that it imports, which takes longer than its work.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# How fast examples are made says something about the machine, and nothing about the promise.
settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")


def pytest_xdist_auto_num_workers() -> int:
    """A process for each core, each with servers of its own; only this one where there is one core."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, 4) if cores > 1 else 0


@dataclass(frozen=True)
class TestServers:
    """Where the servers of this run are."""

    __test__ = False

    superuser_url: str
    broker_url: str

    def database_url(self, name: str) -> str:
        return str(psycopg.conninfo.make_conninfo(self.superuser_url, dbname=name))


@contextmanager
def folder_of_servers() -> Generator[Path]:
    """A folder that any account may pass through, with a short path, in memory where that is roomy."""
    memory = Path("/dev/shm")  # what is tested does not depend on the disk, how long it takes does
    roomy = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 4 * 1024**3
    folder = Path(tempfile.mkdtemp(prefix="lethe-", dir=memory if roomy else "/tmp"))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def servers() -> Generator[TestServers]:
    given = os.environ.get("LETHELOG_TEST_SUPERUSER_URL")
    if given:
        yield TestServers(given, os.environ.get("LETHELOG_TEST_BROKER_URL", ""))
        return
    from lethelog.ops import embedded

    with folder_of_servers() as folder:
        data = folder / "servers"
        with embedded.join(data) as joined:
            yield TestServers(embedded.superuser_url(data), joined.broker_url)
        embedded.stop(data)


@pytest.fixture(scope="session")
def template(servers: TestServers) -> str:
    """A migrated database to copy, since migrating takes longer than copying."""
    name = f"template_{uuid.uuid4().hex}"
    with psycopg.connect(servers.superuser_url, autocommit=True) as connection:
        connection.execute(f"create database {name}")
    migrate(servers.database_url(name))
    return name


def copy_database(servers: TestServers, template: str, name: str) -> None:
    """A database like the template."""
    with psycopg.connect(servers.superuser_url, autocommit=True) as connection:
        connection.execute(f"create database {name} template {template}")
        # Rights on a database are not copied with it.
        connection.execute(f"grant create on database {name} to lethelog_worker")


@pytest.fixture(scope="session")
def drop(servers: TestServers) -> Generator[Callable[[str], None]]:
    """Drops databases beside the tests: a server makes a checkpoint for each, and nobody needs to wait for it."""

    def now(name: str) -> None:
        with psycopg.connect(servers.superuser_url, autocommit=True) as connection:
            connection.execute(f"drop database {name} with (force)")

    dropped: list[Future[None]] = []
    with ThreadPoolExecutor(1) as beside:
        yield lambda name: dropped.append(beside.submit(now, name))
    for one in dropped:
        one.result()


@contextmanager
def fresh_database(servers: TestServers, template: str, drop: Callable[[str], None]) -> Generator[str]:
    """A copy of a database, until the block ends."""
    name = f"test_{uuid.uuid4().hex}"
    copy_database(servers, template, name)
    yield servers.database_url(name)
    drop(name)


@pytest.fixture
def database_url(servers: TestServers, template: str, drop: Callable[[str], None]) -> Generator[str]:
    """A fresh migrated database."""
    with fresh_database(servers, template, drop) as url:
        yield url


@pytest.fixture
def other_database_url(servers: TestServers, template: str, drop: Callable[[str], None]) -> Generator[str]:
    """A second one: another installation."""
    with fresh_database(servers, template, drop) as url:
        yield url


@pytest.fixture
def broker_prefix() -> str:
    """Keeps the broker's subjects and streams of one test apart from those of another."""
    return f"t{uuid.uuid4().hex[:12]}"


@pytest.fixture
async def database(database_url: str) -> AsyncGenerator[Database]:
    opened = Database(database_url)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
def vault(database: Database) -> Vault:
    return Vault(database, Keyring.of(b"m" * 32))


@pytest.fixture
async def log(database: Database, vault: Vault) -> AsyncGenerator[Log]:
    opened = Log(database, vault)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
async def tail(database: Database) -> AsyncGenerator[LogTail]:
    opened = LogTail(database)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data, which is not part of the project."""
    given = os.environ.get("LETHELOG_SHARED_DATA")
    folder = Path(given) if given else Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"the real data is not here ({folder})")
    return folder
