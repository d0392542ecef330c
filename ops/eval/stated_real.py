"""Real texts put to the judge ``stated``: what it proposes where nobody worded anything for it.

Every pair of a small collection, and for the large ones each record with its forty next newer neighbours of
the same kind. Meeting notes, agents' memories, instruction files and facts state no ending of one another, so
each proposal there is false. Decision records and standards are compared with their authors' own "superseded
by".
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ...domain.judging import JudgedMemory, PairItem, SingleItem
from ...domain.stated import answer_item
from .stated_items import READ_AT, memory, rows

NEXT = 40


@dataclass(slots=True)
class RealSet:
    """Questions asked on one set, and what was proposed."""

    pairs: int = 0
    singles: int = 0
    superseded: int = 0
    confirmed: int = 0
    """Proposals that the older record's own "superseded by" confirms."""
    archived: int = 0


def real_sets(data: Path) -> dict[str, RealSet]:
    """Every real set, asked."""
    return {
        "meeting notes and release schedules": _ask(_recurring(data), set()),
        "memories of an agent's user": _ask(_memories(data), set()),
        "agent instruction files": _ask(_instructions(data), set()),
        "facts with later counterparts": _ask(_facts(data), set()),
        "decision records": _ask(*_decision_records(data), NEXT),
        "standards": _ask(*_standards(data), NEXT),
    }


def _ask(
    groups: Iterable[list[JudgedMemory]], links: set[tuple[str, str]], following: int | None = None
) -> RealSet:
    asked = RealSet()
    for group in groups:
        ordered = sorted(group, key=lambda item: item.occurred_at)
        for index, older in enumerate(ordered):
            asked.singles += 1
            asked.archived += answer_item(SingleItem("s0", older), READ_AT).choice == "archive"
            for newer in ordered[index + 1 : None if following is None else index + 1 + following]:
                asked.pairs += 1
                answer = answer_item(PairItem("p0", older, newer, 0.8), READ_AT)
                if answer.choice == "supersede_older":
                    asked.superseded += 1
                    asked.confirmed += (
                        newer.tags[0] if newer.tags else "",
                        older.tags[0] if older.tags else "",
                    ) in links
    return asked


def _recurring(data: Path) -> Iterator[list[JudgedMemory]]:
    series: dict[str, list[JudgedMemory]] = {}
    for row in rows(data / "recurring" / "episodes.jsonl"):
        series.setdefault(row["series"], []).append(
            memory(row["title"], row["text"], _when(row["date"]), row["id"])
        )
    yield from series.values()


def _memories(data: Path) -> Iterator[list[JudgedMemory]]:
    found = rows(data / "agent_memory" / "3ngram_memories.jsonl")
    yield [memory(row["topic"] or "-", row["content"], _when(row["created"]), row["id"]) for row in found]


def _instructions(data: Path) -> Iterator[list[JudgedMemory]]:
    files: dict[str, list[JudgedMemory]] = {}
    for row in rows(data / "agent_memory" / "instruction_files_history.jsonl"):
        for text, date in (("old", "born"), ("new", "at")):
            if row.get(text):
                topic = row.get("section") or row["file"]
                made = memory(
                    topic, row[text], _when(str(row.get(date) or "")), f"{row['file']}{text}{row.get('commit')}"
                )
                files.setdefault(f"{row['repo']} {row['file']}", []).append(made)
    yield from files.values()


def _facts(data: Path) -> Iterator[list[JudgedMemory]]:
    subjects: dict[tuple[Any, str], list[JudgedMemory]] = {}
    for row in rows(data / "factconsolidation" / "facts.jsonl"):
        at = datetime(2020, 1, 1, tzinfo=UTC) + timedelta(minutes=row["serial"])
        made = memory(row["subject"] or "-", row["text"], at, f"{row['size']}{row['serial']}", "fact")
        subjects.setdefault((row["size"], row["subject"]), []).append(made)
    yield from subjects.values()


def _decision_records(data: Path) -> tuple[list[list[JudgedMemory]], set[tuple[str, str]]]:
    repositories: dict[str, list[JudgedMemory]] = {}
    links: set[tuple[str, str]] = set()
    for row in rows(data / "lineage" / "adrs.jsonl"):
        number = row["number"]
        topic = row["title"] if number is None else f"ADR-{number:04d}: {row['title']}"
        made = _tagged(memory(topic, row["text"], _when(row["date"] or ""), row["id"]), row["id"])
        repositories.setdefault(row["repo"], []).append(made)
        links |= {(newer, row["id"]) for newer in (*row["superseded_by"], *row["partially_superseded_by"])}
    return list(repositories.values()), links


def _standards(data: Path) -> tuple[list[list[JudgedMemory]], set[tuple[str, str]]]:
    sources: dict[str, list[JudgedMemory]] = {}
    links: set[tuple[str, str]] = set()
    for row in rows(data / "lineage" / "standards.jsonl"):
        topic = f"{row['source'].upper()} {row['number']}: {row['title']}"
        made = _tagged(memory(topic, row["text"], _when(row["created"] or ""), row["id"]), row["id"])
        sources.setdefault(row["source"], []).append(made)
        links |= {(newer, row["id"]) for newer in row["superseded_by"]}
        links |= {(row["id"], older) for older in row["replaces"]}
    return list(sources.values()), links


def _tagged(made: JudgedMemory, tag: str) -> JudgedMemory:
    return replace(made, tags=(tag,))


def _when(text: str) -> datetime:
    digits = text[:10]
    try:
        return datetime.fromisoformat(digits if len(digits) == 10 else f"{digits[:7] or '2020-01'}-01").replace(
            tzinfo=UTC
        )
    except ValueError:
        return datetime(2020, 1, 1, tzinfo=UTC)
