"""Fixtures for the embedded servers: data directories that are cheap to make, clients in processes of their own."""

import contextlib
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from lethelog.ops import embedded
from lethelog.ops.embedded.leftovers import processes_in

from ...conftest import folder_of_servers

Poll = Callable[..., None]


@pytest.fixture(scope="session")
def poll() -> Poll:
    """Wait until a condition holds; fail with its name after a deadline."""

    def until(condition: Callable[[], object], what: str, seconds: float = 20.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
            time.sleep(0.02)

    return until


def servers_under(base: Path) -> list[str]:
    """The command lines of all server and supervisor processes that work below ``base``."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if not entry.name.isdigit():
                continue
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            name = (entry / "comm").read_text().strip()
            where = str((entry / "cwd").readlink())
            is_server = name in ("postgres", "nats-server", "initdb")
            if is_server and (where.startswith(str(base)) or str(base) in command):
                found.append(f"{entry.name} {command}")
            if "embedded.supervisor" in command and str(base) in command:
                found.append(f"{entry.name} {command}")
    return found


@pytest.fixture(scope="session")
def base(poll: Poll) -> Iterator[Path]:
    """Where the servers of these tests keep their data; at the end nothing may run in it."""
    with folder_of_servers() as folder:
        yield folder
        poll(lambda: not servers_under(folder), "every server has ended after the tests", 20)
        assert servers_under(folder) == []


@pytest.fixture(scope="session")
def used_folder(base: Path) -> Path:
    """A data directory that was used once and is stopped."""
    folder = base / "used"
    embedded.join(folder).leave()
    embedded.stop(folder)
    return folder


@pytest.fixture
def data(used_folder: Path) -> Iterator[Path]:
    """The one data directory most tests use, not running: it starts in a fraction of a second."""
    embedded.stop(used_folder)
    yield used_folder
    embedded.stop(used_folder)


@pytest.fixture
def new_folder(base: Path) -> Iterator[Callable[..., Path]]:
    """Names data directories below ``base``, and discards them after the test."""
    named: list[Path] = []

    def name(wanted: str = "data") -> Path:
        folder = Path(tempfile.mkdtemp(dir=base))
        folder.chmod(0o711)
        named.append(folder / wanted)
        return named[-1]

    yield name
    for folder in named:
        if os.path.isdir(folder):  # noqa: PTH112 - Path.is_dir raises for a name that is too long
            embedded.discard(folder)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def copied(data: Path, new_folder: Callable[..., Path]) -> Path:
    """A data directory with a database in it, to be damaged."""
    folder = new_folder()
    subprocess.run(["cp", "-a", data, folder], check=True)
    (folder / "nats.port").unlink()
    return folder


@dataclass
class Client:
    """A process that joined and waits; ``told`` is what it printed first."""

    process: "subprocess.Popen[str]"
    told: dict[str, Any]

    def ask(self) -> dict[str, Any]:
        """Let it do its next step, and read what it prints."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


_PRELUDE = """
import json, os, sys
from pathlib import Path
from lethelog.domain.errors import LethelogError
from lethelog.ops import embedded
def tell(**said):
    print(json.dumps(said), flush=True)
def wait():
    sys.stdin.readline()
data = Path(sys.argv[1])
try:
"""
_ENDING = """
except LethelogError as error:
    tell(code=error.code, message=error.message)
"""


@pytest.fixture
def client() -> Iterator[Callable[..., Client]]:
    """Runs Python lines in a process of their own; they may use ``data``, ``embedded``, ``tell`` and ``wait``."""
    started: list[subprocess.Popen[str]] = []

    def run(data: Path, lines: str, *, prefix: tuple[str, ...] = (), listen: bool = True, **env: str) -> Client:
        body = "\n".join(f"    {line}" for line in lines.strip().splitlines())
        process = subprocess.Popen(
            [*prefix, sys.executable, "-c", _PRELUDE + body + _ENDING, str(data)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **env},
        )
        started.append(process)
        told = {}
        if listen:
            assert process.stdout
            line = process.stdout.readline()
            assert line, "the client ended without a word"
            told = json.loads(line)
        return Client(process, told)

    yield run
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def ordinary_user() -> pwd.struct_passwd:
    """An account without rights that exists on every Linux, and is not the one root's database server runs as."""
    return pwd.getpwnam("daemon")


def become(uid: int) -> tuple[str, ...]:
    """A command prefix that makes a process an account without rights.

    It keeps the right to read: the interpreter that runs the tests may lie where only root can read.
    """
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can become another account, with setpriv")
    capability = "+dac_read_search"
    prefix = ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups")
    prefix += (f"--inh-caps={capability}", f"--ambient-caps={capability}")
    if subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("setpriv may not keep a capability here")
    return prefix


@pytest.fixture
def as_ordinary_user(ordinary_user: pwd.struct_passwd) -> tuple[str, ...]:
    """A command prefix that makes a process that account."""
    return become(ordinary_user.pw_uid)


@pytest.fixture
def as_nameless_user() -> tuple[str, ...]:
    """A command prefix that makes a process an account that is in no list, as in some containers."""
    return become(54321)


@pytest.fixture
def small_disk(base: Path) -> Iterator[Callable[[int], Path]]:
    """Mounts an empty disk of so many megabytes."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a disk")
    mounted: list[Path] = []

    def mount(megabytes: int) -> Path:
        point = Path(tempfile.mkdtemp(prefix="disk-", dir=base))
        options = f"size={megabytes}m,mode=711"
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", point], check=False, capture_output=True, text=True
        )
        if done.returncode != 0:
            pytest.skip(f"mounting is not allowed here: {done.stderr.strip()}")
        mounted.append(point)
        return point

    yield mount
    for point in mounted:
        subprocess.run(["mount", "-o", "remount,rw", point], check=False)
        embedded.stop(point / "data")
        subprocess.run(["umount", point], check=True)


@pytest.fixture
def server_pids() -> Callable[[Path], list[int]]:
    """The ids of the server processes that work in a data directory's folders."""

    def pids(data: Path) -> list[int]:
        cluster = Path(embedded.status(data).cluster_dir)
        return processes_in(cluster, "postgres") + processes_in(data / "js", "nats-server")

    return pids
