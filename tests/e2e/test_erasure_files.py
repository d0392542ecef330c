"""Every kind of file in a data directory: registered as a place, out of an erasure's reach by name, or without text."""

from fnmatch import fnmatch
from pathlib import Path

from lethelog.handlers.erasure.places import OUT_OF_REACH, PLACES

KINDS = {
    "pg/**": "write-ahead log and dead rows",
    "js/**": "broker",
    "erasures.ledger": "opaque ids and codes of what was erased: it is what keeps it erased",
    "secrets/*": "keys and passwords, and the key that signs certificates",
    "logs/*.log": "logs carry no content (design.md 9)",
    "logs/*.log.1": "logs carry no content (design.md 9)",
    "worker.json": "process id, roles and times of the worker",
    "*.lock": "empty",
    "nats.port": "a number",
    "nats.conf": "settings of the broker",
    "ports/**": "numbers",
    "state.json": "process ids and ports",
    "placement.json": "where the database files are",
    "run/**": "sockets",
}
"""Patterns of paths below a data directory, and the place, what is out of reach, or the reason."""


def unregistered(data_dir: Path) -> list[str]:
    files = [str(one.relative_to(data_dir)) for one in data_dir.rglob("*") if not one.is_dir()]
    return sorted(one for one in files if not any(fnmatch(one, kind) for kind in KINDS))


def test_every_kind_of_file_is_registered_or_exempted_with_a_reason(cli):
    preview = cli.json("erase", "preview", "--memory", cli.remember("Ada likes green tea"))
    cli.json("erase", "perform", preview["id"], "--reason", "asked_for")
    assert unregistered(cli.data_dir) == []
    try:
        (cli.data_dir / "cache.sqlite").touch()
        assert unregistered(cli.data_dir) == ["cache.sqlite"]
    finally:
        (cli.data_dir / "cache.sqlite").unlink()
    named = {one.name for one in (*PLACES, *OUT_OF_REACH)}
    assert {"write-ahead log and dead rows", "broker"} <= named
