"""Text of others, made harmless to look at: what steers a terminal or turns the order of letters is spelt out."""

import re
from datetime import UTC, datetime

_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and newline, DEL, C1: escape sequences begin with these
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional marks: text shown in another order than it has
    "\u2028\u2029\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


def shown(text: object) -> str:
    """Text with every control character spelt out, such as ``␛`` for an escape and ``<U+202E>`` for a reversal."""
    return _CONTROL.sub(_spelt, str(text).replace("\r\n", "\n"))


def one_line(text: object) -> str:
    """The same, on one line."""
    return " ".join(shown(text).split())


def counted(count: int, noun: str) -> str:
    """So many of something: ``1 event``, ``2 events``, ``3 memories``, ``4 passes``."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith(("ry", "ty")):
        return f"{count} {noun[:-1]}ies"
    return f"{count} {noun}es" if noun.endswith("s") else f"{count} {noun}s"


def moment(instant: datetime | None) -> str:
    """An instant in UTC, whole, so that it can be typed back wherever one is asked for."""
    return "–" if instant is None else instant.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"


def _spelt(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"<U+{code:04X}>"
