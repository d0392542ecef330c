"""What an erasure leaves in a dump and in PostgreSQL's own files: nothing, once the documented commands have run."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import numpy as np
import psycopg
import pytest
from lethelog.handlers.erasure.erasures import Erasures
from lethelog.ops import embedded
from lethelog.ops.embedded.account import account_for
from lethelog.ops.embedded.binaries import find_postgres
from lethelog.ops.migrations import migrate

from ..conftest import HeldClock, opened_world
from ..test_erasure import erase

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "erase.md"
CANARY = "Quedlinburg"


def documented_statements() -> str:
    """The one block of SQL in the how-to."""
    [block] = re.findall(r"^```sql\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return block


def traces(folder: Path, looked_for: dict[str, bytes]) -> dict[str, set[str]]:
    """Which files hold each of these, in any case."""
    found: dict[str, set[str]] = {name: set() for name in looked_for}
    for path in folder.rglob("*"):
        if path.is_file():
            held = path.read_bytes()
            for name, wanted in looked_for.items():
                if (wanted.lower() in held.lower()) if name == "text" else (wanted in held):
                    found[name].add(str(path.relative_to(folder)))
    return found


@pytest.fixture
def own_server(copied: Path) -> Iterator[embedded.EmbeddedServers]:
    """Servers whose files nobody else writes to."""
    with embedded.join(copied) as servers:
        migrate(servers.owner_url)
        yield servers
    embedded.stop(copied)


def run(program: str, data: Path, *arguments: str, given: str | None = None) -> str:
    """A program that came with the server, as its superuser in the database of the memories."""
    url = psycopg.conninfo.make_conninfo(embedded.superuser_url(data), dbname="lethelog")
    bin_folder = find_postgres(account_for(Path(embedded.status(data).cluster_dir))).root / "bin"
    done = subprocess.run(
        [bin_folder / program, *arguments, str(url)], input=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_no_trace_of_an_erased_memory_is_left_in_a_dump_or_in_the_servers_files(
    own_server, embedder, tmp_path
):
    """Neither its text nor its vector nor the wrapped key: in tables, indexes, statistics, and PostgreSQL's own log."""
    data = own_server.data_dir
    cluster = Path(embedded.status(data).cluster_dir)

    def dumped(looked_for: dict[str, bytes]) -> set[str]:
        dump = run("pg_dump", data, "--dbname").lower()
        return {name for name, wanted in looked_for.items() if spelled(name, wanted) in dump}

    async with opened_world(own_server.database_url, embedder, HeldClock(), tmp_path / "erased.ledger") as world:
        erased = await world.remember(f"Ada moved to {CANARY}", topic=CANARY, tags=[CANARY], user_id="ada")
        await world.remember("Grace lives in Arlington", user_id="grace")
        await world.catch_up()
        looked_for = await secrets_of(data, erased)
        run("psql", data, "--dbname", given="checkpoint")
        before = traces(cluster, looked_for)
        for name, files in before.items():
            assert any(one.startswith("base/") for one in files), f"control: {name} is in tables"
            assert any(one.startswith("pg_wal/") for one in files), f"control: {name} is in the write-ahead log"
        assert dumped(looked_for) == set(looked_for)

        await erase(world, Erasures(world.engine), subject="ada")

    assert dumped(looked_for) == set()
    assert any(traces(cluster, looked_for).values()), "the files keep bytes until the commands have run"
    run("psql", data, "--set=ON_ERROR_STOP=1", "--dbname", given=documented_statements())
    assert traces(cluster, looked_for) == {name: set() for name in looked_for}
    assert traces(cluster, {"text": b"arlington"})["text"], "control: another's text is found by the same look"


async def secrets_of(data: Path, memory: UUID) -> dict[str, bytes]:
    """What must go: a word of the text, the bytes of the vector as they stand in tables, and of the wrapped key."""
    url = psycopg.conninfo.make_conninfo(embedded.superuser_url(data), dbname="lethelog")
    async with await psycopg.AsyncConnection.connect(str(url)) as connection:
        cursor = await connection.execute(
            "select embedding::real[] from lethelog_views.live_memory where memory_id = %s", (memory,)
        )
        [vector] = await cursor.fetchone() or ()
        cursor = await connection.execute(
            "select wrapped from lethelog_vault.data_keys where key_id = %s", (memory,)
        )
        [wrapped] = await cursor.fetchone() or ()
    return {"text": CANARY.lower().encode(), "vector": np.array(vector, "<f2").tobytes(), "key": bytes(wrapped)}


def spelled(name: str, wanted: bytes) -> str:
    """As a dump writes it, in small letters; of a vector the first numbers."""
    if name == "vector":
        return "[" + ",".join(f"{one:.8g}" for one in np.frombuffer(wanted, "<f2")[:3].astype(np.float32))
    return wanted.decode() if name == "text" else wanted.hex()
