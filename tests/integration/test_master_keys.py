"""Replacing the master key while everything runs."""

import asyncio
import base64
import os
import stat
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from lethelog.domain.errors import Misconfigured
from lethelog.ops.master_keys import load_keyring, open_keyring
from lethelog.ops.settings import Settings
from lethelog.streams.database import Database
from lethelog.streams.master_keys import (
    Keyring,
    fingerprint,
    make_key_file,
    parse_keys,
    read_from_command,
    read_key_file,
    replace_key_file,
)
from lethelog.streams.vault import Vault

OLD, NEW = b"o" * 32, b"n" * 32


def text_of(*keys: bytes) -> str:
    return "\n".join(base64.b64encode(key).decode() for key in keys)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "secrets" / "master.key"
    make_key_file(path)
    return path


def ring(file: Path) -> Keyring:
    return Keyring(lambda: read_key_file(file))


def silent(_done: int, _of: int) -> None:
    return


# --- rotation ---------------------------------------------------------------------------------------------------


async def test_after_a_rotation_old_and_new_processes_read_and_the_old_key_can_go(database: Database, file: Path):
    tenants = [uuid4() for _ in range(3)]
    running = Vault(database, ring(file))
    keys = {one: await running.tenant_keys(one) for one in tenants}
    [old] = read_key_file(file)
    assert await running.master_keys_in_use() == {fingerprint(old): 3}

    replace_key_file(file, [NEW, old])
    reports: list[tuple[int, int]] = []
    operator = Vault(database, ring(file))
    assert await operator.rewrap_tenant_keys(lambda done, of: reports.append((done, of))) == 3
    assert reports == [(0, 3), (3, 3)]
    assert await operator.master_keys_in_use() == {fingerprint(NEW): 3}
    assert await operator.rewrap_tenant_keys(silent) == 0

    # One that has run since before the rotation meets a key it does not know, and reads the file again.
    running.forget()
    assert {one: await running.tenant_keys(one) for one in tenants} == keys
    replace_key_file(file, [NEW])
    fresh = Vault(database, ring(file))
    assert {one: await fresh.tenant_keys(one) for one in tenants} == keys
    # The old key opens nothing any more: a copy of the database from now on is closed to whoever has it.
    with pytest.raises(Misconfigured, match="does not open"):
        await Vault(database, Keyring.of(old)).tenant_keys(tenants[0])


async def test_keys_of_before_there_were_several_are_found_and_rewrapped(database: Database, database_url: str):
    tenant = uuid4()
    key = await Vault(database, Keyring.of(OLD)).tenant_keys(tenant)
    with psycopg.connect(database_url) as superuser:
        superuser.execute("update lethelog_vault.tenant_keys set master = null")
    both = Vault(database, Keyring.of(NEW, OLD))
    assert await both.tenant_keys(tenant) == key
    assert await both.rewrap_tenant_keys(silent) == 1
    assert await Vault(database, Keyring.of(NEW)).tenant_keys(tenant) == key


async def test_a_rotation_that_was_cut_short_goes_on_and_two_at_once_do_no_harm(
    database: Database, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("lethelog.streams.vault.REWRAP_PAGE", 2)
    tenants = [uuid4() for _ in range(7)]
    before = Vault(database, Keyring.of(OLD))
    keys = {one: await before.tenant_keys(one) for one in tenants}

    def cut(done: int, _of: int) -> None:
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await Vault(database, Keyring.of(NEW, OLD)).rewrap_tenant_keys(cut)
    assert await before.master_keys_in_use() == {fingerprint(NEW): 4, fingerprint(OLD): 3}
    rotations = [Vault(database, Keyring.of(NEW, OLD)) for _ in range(2)]
    await asyncio.gather(*(one.rewrap_tenant_keys(silent) for one in rotations))
    assert await before.master_keys_in_use() == {fingerprint(NEW): 7}
    fresh = Vault(database, Keyring.of(NEW))
    assert {one: await fresh.tenant_keys(one) for one in tenants} == keys


async def test_a_key_made_by_a_process_of_before_the_rotation_is_wrapped_under_the_newest(
    database: Database, file: Path
):
    running = Vault(database, ring(file))
    replace_key_file(file, [NEW])
    tenant = uuid4()
    key = await running.tenant_keys(tenant)
    assert await Vault(database, Keyring.of(NEW)).tenant_keys(tenant) == key


async def test_no_tenants_key_is_made_while_a_master_key_is_being_let_go(database: Database, file: Path):
    vault = Vault(database, ring(file))
    async with vault.no_new_tenant_keys():
        made = asyncio.create_task(vault.tenant_keys(uuid4()))
        async with database.connection() as watcher:
            while True:
                waiting = await watcher.execute(
                    "select 1 from pg_locks where locktype = 'advisory' and not granted "
                    "and database = (select oid from pg_database where datname = current_database())"
                )
                if await waiting.fetchone():
                    break
                assert not made.done()
        replace_key_file(file, [NEW])
    await made
    assert await vault.master_keys_in_use() == {fingerprint(NEW): 1}


# --- where the keys come from -----------------------------------------------------------------------------------


def test_a_key_file_is_made_once_private_and_replaced_whole(file: Path):
    [key] = read_key_file(file)
    make_key_file(file)
    assert read_key_file(file) == [key]
    replace_key_file(file, [NEW, key])
    assert read_key_file(file) == [NEW, key]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in file.parent.iterdir()] == ["master.key"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "holds no key"),
        ("  \n", "holds no key"),
        ("bm90IGEga2V5", "base64 keys of 32 bytes"),
        ("%%%", "base64 keys of 32 bytes"),
        (text_of(OLD) + ",", None),
        (text_of(OLD, NEW).replace("\n", " , "), None),
    ],
)
def test_keys_are_base64_of_32_bytes_and_errors_hold_none_of_it(text: str, says: str | None):
    if says is None:
        assert parse_keys(text, "the thing")[0] == OLD
        return
    with pytest.raises(Misconfigured, match=says) as refused:
        parse_keys(text, "the thing")
    assert "the thing" in str(refused.value) and (not text.strip() or text not in str(refused.value))


def test_a_file_that_others_may_read_or_that_is_missing_is_refused(file: Path):
    file.chmod(0o640)
    with pytest.raises(Misconfigured, match="chmod 600"):
        read_key_file(file)
    file.unlink()
    with pytest.raises(Misconfigured, match="put it back from your backup"):
        read_key_file(file)


def test_a_command_gives_the_keys_and_its_failure_tells_no_secret(tmp_path: Path):
    kept = tmp_path / "kept"
    kept.write_text(text_of(NEW, OLD))
    assert read_from_command(f"cat '{kept}'") == [NEW, OLD]
    for command in (f"cat '{tmp_path}/nothing'", "sh -c 'echo c2VjcmV0; exit 3'", "/no/such/program", "'"):
        with pytest.raises(Misconfigured, match="LETHELOG_MASTER_KEY_COMMAND") as refused:
            read_from_command(command)
        assert "c2VjcmV0" not in str(refused.value)


def test_the_settings_choose_one_source(tmp_path: Path):
    folder = tmp_path / "data"
    from_variable = Settings.load(data_dir=folder, master_key=text_of(NEW, OLD).replace("\n", ","))
    assert load_keyring(from_variable).fingerprints == (fingerprint(NEW), fingerprint(OLD))
    assert not folder.exists()
    assert NEW.hex() not in repr(from_variable) and text_of(NEW) not in repr(from_variable)
    from_command = Settings.load(data_dir=folder, master_key_command=f"echo {text_of(OLD)}")
    assert load_keyring(from_command).fingerprints == (fingerprint(OLD),)
    with pytest.raises(Misconfigured, match="both set"):
        load_keyring(Settings.load(data_dir=folder, master_key=text_of(OLD), master_key_command="true"))
    from_file = Settings.load(data_dir=folder)
    with pytest.raises(Misconfigured, match="is missing, and this database is sealed under it"):
        open_keyring(from_file, lambda: True)
    made = open_keyring(from_file, lambda: False)
    assert load_keyring(from_file).fingerprints == made.fingerprints
    assert os.listdir(folder / "secrets") == ["master.key"]  # noqa: PTH208
