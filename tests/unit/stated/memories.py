"""Memories and questions for the tests of the judge ``stated``."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from lethelog.domain.judging import Answer, JudgedMemory, Neighbour, PairItem, SingleItem
from lethelog.domain.stated import answer_item

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
OLDER_TOPIC = "PEP 314: Wheel metadata in one table"
NEWER_TOPIC = "PEP 345: Wheel metadata in a tree"
OLDER = UUID(int=1)
NEWER = UUID(int=2)


def memory(topic: str, content: str, year: int = 2003, **changes: Any) -> JudgedMemory:
    at = datetime(year, 4, 28, tzinfo=UTC)
    fields: dict[str, Any] = {
        "memory_id": OLDER if year < 2005 else NEWER,
        "state_version": 1,
        "memory_type": "decision",
        "scope": "personal",
        "project": None,
        "topic": topic,
        "content": content,
        "occurred_at": at,
        "last_touched_at": at,
    }
    return JudgedMemory(**{**fields, **changes})


def pair(text: str, *, topic: str = NEWER_TOPIC, older_topic: str = OLDER_TOPIC, **changes: Any) -> PairItem:
    """A pair whose newer side says ``text``; ``older_…`` changes apply to the older side, others to the newer."""
    older = {key.removeprefix("older_"): value for key, value in changes.items() if key.startswith("older_")}
    newer = {key: value for key, value in changes.items() if not key.startswith("older_")}
    content = older.pop("content", "Adopted in its time.")
    return PairItem("p0", memory(older_topic, content, 2003, **older), memory(topic, text, 2005, **newer), 0.8)


def single(older: JudgedMemory, *newer: JudgedMemory) -> SingleItem:
    return SingleItem("s0", older, tuple(Neighbour(f"s0n{n}", near, 0.9) for n, near in enumerate(newer)))


def ask(text: str, **changes: Any) -> Answer:
    """The answer to a pair whose newer side says ``text``."""
    return answer_item(pair(text, **changes), NOW)


def rows(name: str) -> list[dict[str, Any]]:
    """The rows of a hand-written set beside this file."""
    lines = (Path(__file__).parent / name).read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def pair_of_row(row: dict[str, Any]) -> PairItem:
    changes = {key: value for key, value in row.items() if key not in ("kind", "text")}
    return pair(row["text"], **changes)
