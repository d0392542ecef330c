"""The real sets that candidate selection is measured on, read from the folder of shared data."""

import json
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ...domain.fields import normalised
from .candidate_store import Record

_UNKNOWN = datetime.max.replace(tzinfo=UTC)


def lineage(data: Path) -> dict[str, list[Record]]:
    """Sets in which the authors said what superseded what.

    A record without a date stands last. Records of one day stand in the order of their numbers, else of the file.
    """
    decisions = [
        _record(row["id"], row["date"], "decision", row["repo"], row["title"], row["text"], row["superseded_by"])
        for row in sorted(rows(data / "lineage" / "adrs.jsonl"), key=lambda row: (row["repo"], row["number"] or 0))
    ]
    peps = [
        _record(row["id"], row["created"], "decision", None, row["title"], row["text"], row["superseded_by"])
        for row in sorted(rows(data / "lineage" / "standards.jsonl"), key=lambda row: row["number"])
        if row["source"] == "pep" and row["text"]
    ]
    memories = rows(data / "agent_memory" / "3ngram_memories.jsonl")
    return {
        "decision records": _in_order(_told_apart(decisions)),
        "PEPs": _in_order(_told_apart(peps)),
        "memories, all as fact": _in_order([_memory(row, "fact") for row in memories]),
        "memories, as typed": _in_order([_memory(row, row["type"]) for row in memories]),
    }


def recurring(data: Path, memory_type: str) -> list[Record]:
    """Near-identical records of series in which every one still stands."""
    return _in_order(
        [
            _record(row["id"], row["date"], memory_type, row["series"], row["title"], row["text"], ())
            for row in rows(data / "recurring" / "episodes.jsonl")
        ]
    )


def texts(data: Path, seed: int = 7) -> list[tuple[str, str]]:
    """Distinct (topic, content) of many kinds, long and short, in a seeded order; more than 12,000."""
    found = [(row["title"], row["text"]) for row in rows(data / "lineage" / "adrs.jsonl")]
    found += [(row["title"], row["text"]) for row in rows(data / "lineage" / "standards.jsonl")]
    found += [
        ("section", row.get("new")) for row in rows(data / "agent_memory" / "instruction_files_history.jsonl")
    ]
    found += [
        ("session", row["user_text_head"]) for row in rows(data / "longmemeval" / "distractor_sessions.jsonl")
    ]
    facts = [("fact", row["text"]) for row in rows(data / "factconsolidation" / "facts.jsonl")]
    long = {normalised(content): (topic, content) for topic, content in found if content and content.strip()}
    short = {normalised(content): (topic, content) for topic, content in facts}
    distinct = [*long.values(), *short.values()][:12_500]
    random.Random(seed).shuffle(distinct)
    return distinct


def rows(file: Path) -> list[dict[str, Any]]:
    """The objects of a JSON Lines file."""
    return [json.loads(line) for line in file.read_text("utf-8").split("\n") if line]


def _memory(row: dict[str, Any], memory_type: str) -> Record:
    return _record(
        row["id"], row["created"], memory_type, None, row["topic"], row["content"], row["superseded_by"]
    )


def _record(
    name: str,
    date: str | None,
    memory_type: str,
    project: str | None,
    title: str,
    text: str,
    successors: Iterable[str],
) -> Record:
    said_at = datetime.fromisoformat(date).replace(tzinfo=UTC) if date else _UNKNOWN
    return Record(name, said_at, memory_type, project, title or name, text, tuple(successors))


def _told_apart(records: list[Record]) -> list[Record]:
    """Records with a text of their own, since the same text would be the same memory.

    Where several share one, as some PEPs share an abstract with their successor, each gets its id in front.
    """
    shared = Counter(normalised(record.content) for record in records)
    return [
        replace(record, content=f"{record.id}\n{record.content}")
        if shared[normalised(record.content)] > 1
        else record
        for record in records
    ]


def _in_order(records: list[Record]) -> list[Record]:
    """By date, those of one day a second apart in the order given; one without a date right after all others."""
    ordered: list[Record] = []
    for record in sorted(records, key=lambda record: record.said_at):
        if ordered:
            next_free = ordered[-1].said_at + timedelta(seconds=1)
            said_at = next_free if record.said_at == _UNKNOWN else max(record.said_at, next_free)
            record = replace(record, said_at=said_at)
        ordered.append(record)
    return ordered
