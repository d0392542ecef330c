"""The command line, run in this process where a process of its own adds nothing, on servers that stay up."""

import contextlib
import io
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lethelog.ops import embedded
from lethelog.ops.cli.running import run
from lethelog.ops.local import Memory
from lethelog.ops.settings import Settings
from lethelog.projections.embedders import open_embedder

from ..conftest import folder_of_servers


@cache
def _embedder_kept_open(name: str, **options: Any) -> Any:
    """Loading the weights takes longer than all the rest of a command, so this process does it once."""
    embedder = open_embedder(name, **options)
    return SimpleNamespace(
        model=embedder.model,
        dimensions=embedder.dimensions,
        quick=embedder.quick,
        embed=embedder.embed,
        close=lambda: None,
    )


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.status == 0, (self.status, self.out, self.err)
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, Any]:
        assert self.out == "" and self.status != 0, (self.status, self.out, self.err)
        return json.loads(self.err)["error"]


@dataclass
class Cli:
    """Commands for one tenant of one data directory."""

    data_dir: Path
    tenant: str = field(default_factory=lambda: f"t-{uuid.uuid4().hex[:10]}")
    actor: str = "person:ada"

    def made(self) -> "Cli":
        """The same, with its tenant made."""
        assert self("tenant", "create", self.tenant).status == 0
        return self

    def options(self) -> list[str]:
        return ["--data-dir", str(self.data_dir), "--tenant", self.tenant, "--actor", self.actor]

    def __call__(self, *arguments: str, stdin: bytes | str = b"") -> Ran:
        """Run a command in this process."""
        given = stdin.encode() if isinstance(stdin, str) else stdin
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n") for _ in range(2))
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            pytest.MonkeyPatch.context() as patch,
        ):
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given), encoding="utf-8"))
            patch.setattr("lethelog.ops.local.open_embedder", _embedder_kept_open)
            status = run([*self.options(), *arguments])
            out.flush(), err.flush()
        said = [stream.buffer.getvalue().decode() for stream in (out, err)]  # type: ignore[attr-defined]
        return Ran(status, *said)

    def json(self, *arguments: str, stdin: bytes | str = b"") -> Any:
        """The document a command prints."""
        return self(*arguments, "--json", stdin=stdin).json

    def remember(self, text: str, *options: str) -> str:
        """Remember a text; answers its id."""
        return self.json("remember", *options, "-", stdin=text)["memory"]["id"]

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "lethelog", *self.options(), *arguments]

    def spawn(self, *arguments: str, **environment: str) -> "subprocess.Popen[bytes]":
        """Start a command in a process of its own."""
        return subprocess.Popen(
            self.command(*arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | environment,
        )

    def process(self, *arguments: str, stdin: bytes = b"", **environment: str) -> Ran:
        """Run a command in a process of its own."""
        ran = subprocess.run(
            self.command(*arguments),
            input=stdin,
            capture_output=True,
            env=os.environ | environment,
            timeout=90,
        )
        return Ran(ran.returncode, ran.stdout.decode(), ran.stderr.decode())


@pytest.fixture(autouse=True)
def _no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in list(os.environ):
        if name.startswith("LETHELOG_") and not name.startswith(("LETHELOG_TEST_", "LETHELOG_SHARED_")):
            monkeypatch.delenv(name)
    monkeypatch.delenv("COLUMNS", raising=False)
    yield


@pytest.fixture(scope="session")
def cli_folder() -> Generator[Path]:
    """A data directory whose servers stay up for the whole run."""
    with folder_of_servers() as folder:
        data = folder / "command line"
        with embedded.join(data):
            yield data
        embedded.discard(data)


@pytest.fixture(scope="session")
def operator(cli_folder: Path) -> Generator[Memory]:
    """A memory that stays open to make tenants with, which is quicker than a command for each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lethelog.ops.local.open_embedder", _embedder_kept_open)
        with Memory.open(Settings.load(data_dir=cli_folder), ()) as memory:
            yield memory


@pytest.fixture
def cli(operator: Memory, cli_folder: Path) -> Cli:
    """The command line, for a tenant of the test's own."""
    made = Cli(cli_folder)
    operator.tenants.create(made.tenant)
    return made


@pytest.fixture
def other_tenant(operator: Memory, cli_folder: Path) -> Cli:
    """The same servers, another tenant."""
    made = Cli(cli_folder)
    operator.tenants.create(made.tenant)
    return made


@pytest.fixture
def own(tmp_path: Path) -> Generator[Cli]:
    """The command line on a data directory of the test's own, where nothing runs yet and no tenant was made."""
    cli = Cli(tmp_path / "own data", "default")
    yield cli
    cli("down")
    embedded.discard(cli.data_dir)
