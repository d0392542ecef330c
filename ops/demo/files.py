"""Reads a folder or a file of one's own for ``lethelog demo --from``: Markdown and JSONL."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ...domain.errors import InvalidInput
from .file_memory import FileMemory, Refused
from .jsonl import jsonl_memories
from .markdown import markdown_memories

FILE_LIMIT = 10_000
FILE_BYTES_LIMIT = 1_000_000
TOTAL_BYTES_LIMIT = 200_000_000
LINE_WARNINGS_LIMIT = 100
SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "site-packages", "venv"})
"""Folders of other people's files. Hidden ones, with a dot before their name, are skipped as well."""

_MARKDOWN = frozenset({".md", ".markdown"})
_JSONL = frozenset({".jsonl", ".ndjson"})


@dataclass(frozen=True, slots=True)
class FileWarning:
    """Something that was not loaded, and why. Names file, line and field, and quotes nothing of the content."""

    file: str
    reason: str
    field: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.field}: {self.reason}" if self.field else f"{place}: {self.reason}"


@dataclass(slots=True)
class LoadedFiles:
    """The memories in path order, as they stand in their files, and everything that was left out."""

    memories: list[FileMemory] = field(default_factory=list[FileMemory])
    warnings: list[FileWarning] = field(default_factory=list[FileWarning])
    files: int = 0


def load_files(path: str | Path) -> LoadedFiles:
    """Everything in a folder, or in one file, that can become a memory.

    What cannot is told in ``warnings`` and stops nothing else. Hidden files and folders, folders of installed
    packages and other kinds of files are passed over in silence; links to folders are not followed, and a link to
    a file counts only where the file lies in the same folder and was not read before. InvalidInput if the path
    does not exist, or if nothing could be loaded from it.
    """
    root = Path(path)
    loaded = LoadedFiles()
    try:
        is_folder = stat.S_ISDIR(root.stat().st_mode)
        top = root.resolve() if is_folder else root.resolve().parent
    except (OSError, ValueError, RuntimeError) as error:
        raise InvalidInput("from", f"cannot be read ({_cause(error)})", "Name a folder or a file") from None
    found = _found(root, root, loaded.warnings) if is_folder else iter([root])
    _load(found, root if is_folder else root.parent, top, loaded)
    if not loaded.memories:
        first = f"First of {len(loaded.warnings)}: {loaded.warnings[0]}" if loaded.warnings else ""
        raise InvalidInput("from", "holds nothing to remember: no Markdown or JSONL with text in it", first)
    return loaded


def _load(found: Iterator[Path], root: Path, top: Path, loaded: LoadedFiles) -> None:
    seen: set[tuple[int, int]] = set()
    total = 0
    for path in found:
        name = _shown(path.relative_to(root))
        if loaded.files >= FILE_LIMIT or total >= TOTAL_BYTES_LIMIT:
            limit = f"{FILE_LIMIT:,} files" if loaded.files >= FILE_LIMIT else f"{TOTAL_BYTES_LIMIT:,} bytes"
            reason = f"this file and all after it were left out: more than {limit}; name a narrower folder"
            loaded.warnings.append(FileWarning(name, reason))
            return
        try:
            content = _content(path, top, seen)
            loaded.files += 1
            total += len(content)
            _take(_text(content), name, top.name, loaded)
        except Refused as refused:
            loaded.warnings.append(FileWarning(name, refused.reason, refused.field))
        except (OSError, ValueError, RuntimeError) as error:
            loaded.warnings.append(FileWarning(name, f"cannot be read ({_cause(error)})"))


def _take(text: str, name: str, within: str, loaded: LoadedFiles) -> None:
    suffix = Path(name).suffix.lower()
    if suffix in _MARKDOWN:
        memories, notices = markdown_memories(text, name, within)
        loaded.memories += memories
        loaded.warnings += [FileWarning(name, notice.reason, notice.field) for notice in notices]
    elif suffix in _JSONL:
        _take_lines(text, name, loaded)
    else:
        raise Refused("is neither Markdown (.md) nor JSONL (.jsonl)")


def _take_lines(text: str, name: str, loaded: LoadedFiles) -> None:
    refusals: list[FileWarning] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            loaded.memories += jsonl_memories(line, name, number)
        except Refused as refused:
            refusals.append(FileWarning(name, refused.reason, refused.field, number))
    loaded.warnings += refusals[:LINE_WARNINGS_LIMIT]
    if len(refusals) > LINE_WARNINGS_LIMIT:
        more = len(refusals) - LINE_WARNINGS_LIMIT
        loaded.warnings.append(FileWarning(name, f"{more:,} more lines were refused"))


def _found(folder: Path, root: Path, warnings: list[FileWarning]) -> Iterator[Path]:
    """Files of the right kind, a folder's own before those of its sub-folders, each in the order of names."""
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        try:
            with os.scandir(here) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            warnings.append(FileWarning(_shown(here.relative_to(root)), f"cannot be read ({_cause(error)})"))
            continue
        folders: list[Path] = []
        for entry in entries:
            if entry.name.startswith("."):
                continue
            path = Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                folders.extend([] if entry.name in SKIPPED_FOLDERS else [path])
            elif path.suffix.lower() in _MARKDOWN | _JSONL:
                yield path
            elif entry.is_symlink() and path.is_dir():
                warnings.append(FileWarning(_shown(path.relative_to(root)), "a link to a folder, not followed"))
        waiting.extend(reversed(folders))


def _content(path: Path, top: Path, seen: set[tuple[int, int]]) -> bytes:
    """The bytes of a regular file inside the folder that was not read before; sizes are checked before reading."""
    if not path.resolve().is_relative_to(top):
        raise Refused("a link out of the folder, not followed")
    # A pipe would block on opening; a file that grows meanwhile is read up to the limit and no further.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise Refused("is no regular file")
        if (status.st_dev, status.st_ino) in seen:
            raise Refused("the same file as one read before")
        seen.add((status.st_dev, status.st_ino))
        content = file.read(FILE_BYTES_LIMIT + 1)
    if len(content) > FILE_BYTES_LIMIT:
        raise Refused(f"is larger than {FILE_BYTES_LIMIT:,} bytes")
    return content


def _text(content: bytes) -> str:
    if b"\0" in content:
        raise Refused("is binary: it holds NUL bytes")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Refused(f"is no valid UTF-8 at byte {error.start}") from None
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text.strip():
        raise Refused("is empty")
    return text


def _shown(path: Path) -> str:
    """A path as text with forward slashes; bytes of it that are no UTF-8 are shown as a mark."""
    return os.fsencode(path.as_posix()).decode("utf-8", "replace")


def _cause(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__
