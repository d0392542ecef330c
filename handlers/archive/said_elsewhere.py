"""What readers of other systems' files give: memories as commands, those left out, and what has no place here."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ...domain.errors import InvalidInput

LARGEST_FILE = 512 * 2**20


@dataclass(frozen=True, slots=True)
class SaidElsewhere:
    """A memory and what followed it, oldest first, as arguments of ``import_memory``."""

    source: str
    key: str
    """The same for the same memory, whenever it is read: makes a second import change nothing."""
    versions: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A memory that does not come in, and why."""

    source: str
    reason: str


@dataclass(frozen=True, slots=True)
class Remark:
    """A part of a memory, or of many, that has no place here."""

    source: str
    says: str


Found = SaidElsewhere | LeftOut | Remark
"""What a file holds, one by one."""


def read_text(path: Path) -> str:
    """A file as text. Raises `InvalidInput`."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise InvalidInput("file", f"is larger than {LARGEST_FILE} bytes", "Split it")
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput("file", "is not text in UTF-8") from None
    except OSError as error:
        raise InvalidInput("file", f"cannot be read: {error.strerror}") from None


def parsed(text: str, where: str) -> Any:
    """JSON. Raises `InvalidInput`."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidInput("file", f"{where} is no JSON") from None


def as_object(said: Any) -> dict[str, Any] | None:
    """A JSON object; None for anything else."""
    return cast("dict[str, Any]", said) if isinstance(said, dict) else None


def as_list(said: Any) -> list[Any] | None:
    """A JSON list; None for anything else."""
    return cast("list[Any]", said) if isinstance(said, list) else None
