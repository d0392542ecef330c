"""Why the servers did not start, told in the words of the errors a user meets, and carried between processes."""

import errno
import json
import os
import pwd
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from ...domain.errors import LethelogError, Misconfigured, Unavailable
from .files import write_atomically

READY = "ready"
"""What a supervisor reports to the client that started it, where it does not report a failure."""

_DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT)


def account_name(uid: int) -> str:
    """The login name of ``uid``, or ``uid 1234`` where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def disk_full(path: Path) -> Unavailable:
    """The error for a disk without room; nothing is damaged by it."""
    return Unavailable(f"No space is left on the disk of {path}. Free some space and try again.", path=str(path))


def explain_os_error(error: OSError, path: Path) -> LethelogError:
    """Turn a refusal of the operating system about ``path`` into what is wrong, where, and what to do."""
    elsewhere = "or set LETHELOG_DATA_DIR to a folder that can be written"
    if error.errno in _DISK_IS_FULL:
        return disk_full(path)
    if error.errno == errno.EROFS:
        return Misconfigured(f"{path} is on a read-only disk. Make it writable {elsewhere}.", path=str(path))
    if error.errno in (errno.EACCES, errno.EPERM):
        who = account_name(os.geteuid())
        return Misconfigured(
            f"The account {who} may not use {path}{_owner_note(path)}. Give it that right {elsewhere}.",
            path=str(path),
        )
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return Misconfigured(
            f"{path} cannot be a folder: a file is in the way. Move it {elsewhere}.", path=str(path)
        )
    if error.errno == errno.ENAMETOOLONG:
        return Misconfigured(f"The path {path} is longer than the system allows.", path=str(path))
    return Unavailable(f"{error.strerror or error} ({path}).", path=str(path))


def _owner_note(path: Path) -> str:
    try:
        return f" (it belongs to {account_name(path.stat().st_uid)})"
    except OSError:
        return ""


@dataclass(frozen=True)
class Failure:
    """One start that did not succeed. ``ident`` tells a new failure from one seen before."""

    ident: str
    at: float
    code: str
    message: str

    @classmethod
    def of(cls, error: Exception) -> "Failure":
        """Record any exception; one that was not raised on purpose is named by its class."""
        if isinstance(error, LethelogError):
            code, message = error.code, error.message
        else:
            code, message = Unavailable.code, f"The supervisor failed: {type(error).__name__}: {error}"
        return cls(uuid.uuid4().hex, time.time(), code, message)

    def as_json(self) -> str:
        """One line of JSON."""
        return json.dumps({"id": self.ident, "at": self.at, "code": self.code, "message": self.message})

    @classmethod
    def from_json(cls, text: str) -> "Failure | None":
        """Read back ``as_json``; anything else is None."""
        try:
            data = json.loads(text)
            return cls(str(data["id"]), float(data["at"]), str(data["code"]), str(data["message"]))
        except (ValueError, KeyError, TypeError):
            return None

    def as_error(self) -> LethelogError:
        """The error to raise in a client."""
        kind = Misconfigured if self.code == Misconfigured.code else Unavailable
        return kind(self.message)

    def write(self, path: Path) -> None:
        """Leave the failure for clients that wait; a full or read-only disk is no second failure."""
        try:
            write_atomically(path, self.as_json().encode())
        except OSError:
            return

    @classmethod
    def read(cls, path: Path) -> "Failure | None":
        """The last failure left in ``path``, if any."""
        try:
            return cls.from_json(path.read_text())
        except OSError:
            return None
