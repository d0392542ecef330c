"""Generated passwords, one a file, readable by the owner of the data directory only."""

import secrets
from pathlib import Path
from typing import Literal

from ...domain.errors import Misconfigured
from .failure import explain_os_error
from .files import write_atomically

SecretName = Literal["superuser", "owner", "application", "broker"]


def read_secret(folder: Path, name: SecretName) -> str:
    """The secret of that name. Raises Misconfigured when it is missing or may not be read."""
    path = folder / name
    try:
        text = path.read_text().strip()
    except FileNotFoundError:
        text = ""
    except OSError as error:
        raise explain_os_error(error, path) from None
    if not text:
        raise Misconfigured(f"The password file {path} is missing or empty. Put it back from a backup.")
    return text


def has_secret(folder: Path, name: SecretName) -> bool:
    """Whether the secret exists and is not empty. Raises OSError."""
    path = folder / name
    return path.exists() and path.stat().st_size > 0


def make_secret(folder: Path, name: SecretName) -> str:
    """The secret of that name, generated at the first call and safe on disk when this returns. Raises OSError."""
    folder.mkdir(mode=0o700, exist_ok=True)
    if not has_secret(folder, name):
        write_atomically(folder / name, secrets.token_urlsafe(32).encode())
    return read_secret(folder, name)
