"""Master keys: where they come from, and which of them opens what.

A *keyring* is a list of keys, the newest first. The first one wraps; any of them opens, and a wrapped key says by
a fingerprint which one it needs. So a master key is replaced while everything runs: put the new one in front, wrap
every tenant's key anew (`Vault.rewrap_tenant_keys`), take the old one away.
"""

import base64
import hashlib
import os
import shlex
import stat
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from ..domain.errors import Misconfigured
from . import sealing

COMMAND_SECONDS = 30
"""How long a command that prints the keyring may take."""
Load = Callable[[], Sequence[bytes]]
"""Gives the keys of a ring, newest first; called again when a key is asked for that was not there."""


class Keyring:
    """The master keys of one process."""

    def __init__(self, load: Load) -> None:
        """Raises `Misconfigured` where the keys cannot be had."""
        self._load = load
        self._keys = _by_fingerprint(load())

    @classmethod
    def of(cls, *keys: bytes) -> "Keyring":
        """A ring of keys at hand, newest first."""
        return cls(lambda: keys)

    @property
    def newest(self) -> bytes:
        """Fingerprint of the key that wraps."""
        return next(iter(self._keys))

    def knows(self, fingerprint: bytes | None) -> bool:
        """Whether the key with this fingerprint is in the ring; of keys without one nothing is known."""
        return fingerprint is None or fingerprint in self._keys

    @property
    def fingerprints(self) -> tuple[bytes, ...]:
        """Of all its keys, newest first."""
        return tuple(self._keys)

    def wrap(self, key: bytes, bound_to: bytes) -> tuple[bytes, bytes]:
        """(fingerprint of the master key, the key sealed under it)."""
        return self.newest, sealing.seal(self._keys[self.newest], key, bound_to)

    def unwrap(self, fingerprint: bytes | None, wrapped: bytes, bound_to: bytes) -> bytes:
        """What was wrapped; ``fingerprint`` is None for keys of the time before there was one.

        Raises `UnusableKey` where no key of the ring opens it; see `reload`.
        """
        if fingerprint is None:
            tried = list(self._keys.values())
        else:
            tried = [self._keys[fingerprint]] if fingerprint in self._keys else []
        for key in tried:
            try:
                return sealing.unseal(key, wrapped, bound_to)
            except sealing.SealBroken:
                continue
        raise sealing.UnusableKey(
            "the master key does not open this database's keys; it belongs to another data directory, or was "
            "taken out of the keyring too early"
        )

    def reload(self) -> None:
        """Read the keys again: another process may have put a new one in front. A command may take its time."""
        self._keys = _by_fingerprint(self._load())


def fingerprint(key: bytes) -> bytes:
    """Says which key it is, and nothing about it."""
    return hashlib.sha256(b"lethelog-master-key" + key).digest()[:8]


def _by_fingerprint(keys: Sequence[bytes]) -> dict[bytes, bytes]:
    return {fingerprint(key): key for key in keys}


# --- where they come from -------------------------------------------------------------------------------------


def parse_keys(text: str, what: str) -> list[bytes]:
    """Keys of 32 bytes in base64, separated by white space or commas. Raises `Misconfigured` naming ``what``."""
    keys: list[bytes] = []
    for word in text.replace(",", " ").split():
        try:
            key = base64.b64decode(word, validate=True)
        except ValueError:
            key = b""
        if len(key) != sealing.KEY_BYTES:
            raise Misconfigured(f"{what} does not hold base64 keys of 32 bytes")
        keys.append(key)
    if not keys:
        raise Misconfigured(f"{what} holds no key")
    return keys


def read_key_file(path: Path) -> list[bytes]:
    """The keys in a file, one a line, which nobody but its owner may read.

    Raises `Misconfigured` when it is missing, readable by others, or holds anything else.
    """
    what = f"the master key file {path}"
    try:
        mode = path.stat().st_mode
        text = path.read_text()
    except FileNotFoundError:
        raise Misconfigured(
            f"{what} is missing; put it back from your backup: without it nothing can be read"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{what} cannot be read: {type(error).__name__}") from None
    if stat.S_IMODE(mode) & 0o077:
        raise Misconfigured(f"{what} is open to others; run: chmod 600 '{path}'")
    return parse_keys(text, what)


def read_from_command(command: str) -> list[bytes]:
    """What a command prints: the hook for a key management service. Raises `Misconfigured` when it fails."""
    what = "LETHELOG_MASTER_KEY_COMMAND"
    try:
        ran = subprocess.run(
            shlex.split(command), capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise Misconfigured(f"{what} could not be run: {type(error).__name__}", setting=what) from None
    if ran.returncode != 0:
        # What it printed may be a secret.
        raise Misconfigured(f"{what} ended with status {ran.returncode}", setting=what)
    return parse_keys(ran.stdout, f"the output of {what}")


def make_key_file(path: Path) -> None:
    """Make a file with a new key, mode 0600, once even if several processes try; nothing where there is one."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = _write_draft(path, [sealing.new_key()])
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    _sync_folder(path)


def replace_key_file(path: Path, keys: Sequence[bytes]) -> None:
    """Let a file hold these keys, newest first; at every moment it holds the old ones or the new ones whole."""
    owner = path.stat()
    draft = _write_draft(path, keys)
    try:
        if os.geteuid() == 0:
            os.chown(draft, owner.st_uid, owner.st_gid)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    _sync_folder(path)


def _write_draft(path: Path, keys: Sequence[bytes]) -> Path:
    draft = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        os.write(descriptor, b"".join(base64.b64encode(key) + b"\n" for key in keys))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return draft


def _sync_folder(path: Path) -> None:
    # Without this a power cut may lose the name of a key under which the database is sealed already.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
