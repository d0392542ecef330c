"""What a file that is not of the expected kind looks like, so that an error can point to the right way."""

import gzip
import re
from pathlib import Path

_HEAD = 64 * 2**10
_LOOKS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r'\A\s*\{\s*"lethelog"\s*:\s*"archive"'),
        "an archive of Lethelog itself, which is imported without naming a format",
    ),
    (
        re.compile(r'^\s*\{[^\n]*"type"\s*:\s*"(entity|relation)"', re.MULTILINE),
        "the memory file of MCP's reference server: name the format mcp-memory",
    ),
    (
        re.compile(r'\A\s*[\[{].*?"(memory|new_memory|memory_id)"\s*:', re.DOTALL),
        "what mem0's get_all or history gives: name the format mem0",
    ),
)


def pointer(path: Path) -> str:
    """What a file looks like and how it is imported; empty where it looks like nothing that is known."""
    try:
        with path.open("rb") as file:
            start = file.read(_HEAD)
        if start[:2] == b"\x1f\x8b":
            with gzip.open(path) as file:
                start = file.read(_HEAD)
    except (OSError, EOFError):
        return ""
    text = start.decode("utf-8-sig", errors="replace")
    return next((f"It looks like {what}" for look, what in _LOOKS if look.search(text)), "")
