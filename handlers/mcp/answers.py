"""From the Python door's answers to what a model reads: lean JSON, and a few lines that say the same.

Nothing that is empty or usual is told; a client that shows a model only the lines still has every id. What others
wrote stands in the lines on one line or quoted, so that it cannot forge a line of its own.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from ...domain.display import one_line, shown
from ...domain.errors import LethelogError

if TYPE_CHECKING:
    from ..operating.views import BriefingView, MemoryView, Written

EXCERPT = 600
"""Characters of an excerpt, its mark included (behaviour.md 1.3)."""
_TEXT_LIMIT = 200
"""Characters of a memory's text in a line about it."""


@dataclass(frozen=True)
class Answer:
    """What a tool answers."""

    data: dict[str, Any]
    """Structured, as the tool's output schema says."""
    text: str
    """The same in short."""


def lean(view: BaseModel) -> dict[str, Any]:
    """A view as JSON without what is empty or as always."""
    return view.model_dump(mode="json", exclude_none=True, exclude_defaults=True)


def present(**fields: Any) -> dict[str, Any]:
    """Those fields that hold something."""
    return {name: value for name, value in fields.items() if value is not None}


def shortened(memory: "MemoryView", characters: int = EXCERPT) -> dict[str, Any]:
    """A memory whose text is cut where it is longer, and then says so."""
    told = lean(memory)
    text = _cut(memory.content, characters)
    if text != memory.content:
        told |= {"content": text, "truncated": True, "content_length": len(memory.content)}
    return told


def written(done: "Written") -> dict[str, Any]:
    """The answer of a write: the memory as it is now, and what else came of it."""
    return {
        **lean(done),
        "memory": shortened(done.memory),
        "changed": done.changed,
        "deduplicated": done.deduplicated,
    }


def marked(memory: "MemoryView") -> str:
    """Its id, and how it stands."""
    filed = "" if memory.project is None else f" · {one_line(memory.project)}"
    return f"{memory.id} [{memory.memory_type}, {memory.status}{filed}]"


def line(memory: "MemoryView") -> str:
    """One memory in one line, its id first."""
    topic, text = one_line(memory.topic), _cut(one_line(memory.content), _TEXT_LIMIT)
    said = text if text.startswith(topic.rstrip("…")) else f"{topic}: {text}"
    return f"{marked(memory)} {said}"


def quoted(text: str) -> str:
    """Text of several lines, each behind a mark, so that none of them passes for a line of ours."""
    return "\n".join(f"> {one}" for one in shown(text).split("\n"))


def lines(head: str, items: Iterable[str], tail: str | None = None) -> str:
    """A head, one line for each item, and what is left."""
    return "\n".join([head, *(f"- {item}" for item in items), *([] if tail is None else [tail])])


def briefing_text(view: "BriefingView") -> str:
    """A briefing for reading."""
    parts: list[str] = []
    for name, section in view.sections.items():
        shown = f", {len(section.items)} shown" if section.has_more else ""
        parts.append(f"{name} ({section.count}{shown})")
        for item in section.items:
            due = item.commitment.due_at if item.commitment is not None else None
            when = f", due {due:%Y-%m-%d}" if due is not None else ""
            text = "" if item.excerpt is None else f": {_cut(one_line(item.excerpt), _TEXT_LIMIT)}"
            parts.append(f"- {item.id} [{item.memory_type}, {item.age_days} d{when}] {one_line(item.topic)}{text}")
    return "\n".join(parts)


def refusal(error: LethelogError) -> Answer:
    """An error: its stable code, what was wrong and, where one is to blame, the field."""
    said = to_jsonable_python(error.as_dict(), fallback=str)
    return Answer(said, f"{error.code}: {one_line(error.message)}")


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[: characters - 1].rstrip()}…"
