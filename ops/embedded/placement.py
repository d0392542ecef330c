"""Where the database files and the socket lie: in the data directory, or elsewhere where that cannot be."""

import hashlib
import json
import os
import secrets
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ...domain.errors import Misconfigured
from .account import Account, account_for
from .binaries import ROOTS_FOLDER
from .failure import explain_os_error
from .files import write_atomically
from .folder import DataFolder

CLUSTERS_FOLDER = ROOTS_FOLDER / "clusters"
"""Database files of data directories in which root's database account cannot work."""

_LONGEST_SOCKET_PATH = 107  # bytes, of the 108 in sockaddr_un with the closing zero
_SOCKET = ".s.PGSQL.5432"


@dataclass(frozen=True)
class Placement:
    """The account and the two folders of one database server."""

    account: Account
    cluster: Path
    sockets: Path

    @property
    def lock(self) -> Path:
        """Held by whoever runs a server here: a copied data directory names the same database files."""
        return self.cluster.parent / "cluster.lock"

    @property
    def socket(self) -> Path:
        """The server's socket."""
        return self.sockets / _SOCKET


def recorded_cluster(folder: DataFolder) -> Path:
    """The database files of a data directory, wherever they lie. They may not exist yet."""
    try:
        return Path(json.loads(folder.placement.read_text())["cluster"])
    except FileNotFoundError:
        return folder.cluster
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Misconfigured(
            f"{folder.placement} cannot be read ({type(error).__name__}). Put it back from a backup: it says "
            "where the database files are."
        ) from None


def place(folder: DataFolder) -> Placement:
    """Decide where the database server of ``folder`` works, and make its folders.

    Raises Misconfigured when there is no place its account can reach.
    """
    cluster = recorded_cluster(folder)
    account = account_for(cluster)
    if cluster != folder.cluster and not cluster.parent.is_dir():
        raise Misconfigured(
            f"The database files of {folder.root} were in {cluster} and are gone. Put them back from a backup, "
            f"or delete {folder.placement} to begin with an empty database."
        )
    if not account.may(cluster.parent, os.X_OK):
        if cluster.exists():
            raise Misconfigured(
                f"The account {account.name}, as which PostgreSQL runs, may not enter {cluster.parent} or a "
                f"folder above it. Move the data directory to a place it can enter."
            )
        cluster = _place_outside(folder)
        if not account.may(cluster.parent, os.X_OK):
            raise Misconfigured(f"The account {account.name} may not enter {cluster.parent}.")
    return Placement(account, cluster, _socket_folder(cluster.parent / "run", folder, account))


def _place_outside(folder: DataFolder) -> Path:
    outside = CLUSTERS_FOLDER / secrets.token_hex(8)
    try:
        for level in (ROOTS_FOLDER, CLUSTERS_FOLDER, outside):
            if not level.is_dir():
                level.mkdir(parents=True)
                level.chmod(0o711)
        # For whoever wonders years later what this is; nothing reads it, and the directory may have moved.
        write_atomically(outside / "made-for", os.fsencode(folder.root) + b"\n")
        write_atomically(folder.placement, json.dumps({"cluster": str(outside / "pg")}).encode())
    except OSError as error:
        raise explain_os_error(error, outside) from None
    return outside / "pg"


def _socket_folder(preferred: Path, folder: DataFolder, account: Account) -> Path:
    if _fits(preferred):
        return _make_private(preferred, account)
    # Not the account's name: the path must stay the same as long as the data directory does.
    digest = hashlib.sha256(os.fsencode(folder.root)).hexdigest()[:16]
    name = f"lethelog-{account.uid}-{digest}"
    for parent in _runtime_folders(account):
        if parent.is_dir() and _fits(parent / name) and account.may(parent, os.X_OK):
            return _make_private(parent / name, account)
    raise Misconfigured(
        f"The path {preferred} is too long for a socket or has a comma in it, and no runtime folder could be used "
        "instead. Set LETHELOG_DATA_DIR to a shorter, plainer path."
    )


def _runtime_folders(account: Account) -> list[Path]:
    session = os.environ.get("XDG_RUNTIME_DIR")
    own = [Path(session)] if session and account.is_this_process else []
    return [*own, Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")]


def _fits(sockets: Path) -> bool:
    """Whether a connection URL can name a socket there."""
    if "," in str(sockets):  # separates hosts, by no means to be escaped
        return False
    try:
        return len(str(sockets / _SOCKET).encode()) <= _LONGEST_SOCKET_PATH
    except UnicodeEncodeError:  # bytes that are not UTF-8
        return False


def _make_private(path: Path, account: Account) -> Path:
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
        if found.st_uid == os.geteuid() and not account.is_this_process and stat.S_ISDIR(found.st_mode):
            account.own(path)
            found = path.lstat()
    except FileExistsError:
        found = path.lstat()
    except OSError as error:
        raise explain_os_error(error, path) from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != account.uid or found.st_mode & 0o077:
        raise Misconfigured(
            f"The folder {path} for the database socket is not a private folder of the account {account.name}. "
            "Somebody else made it, or its mode was changed: delete it."
        )
    return path
