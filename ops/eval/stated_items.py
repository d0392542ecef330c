"""Items for measuring the judge ``stated``: true links between real records, put into words by given wordings.

The records' own texts have had the sentences that announce a successor removed, so the facts (number, title, date,
"replaces") are worded anew. Records are split by a digest of the newer one's id: a record that is written about in
one half never is in the other.
"""

import hashlib
import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from ...domain.judging import JudgedMemory, PairItem

READ_AT = datetime(2026, 11, 29, tzinfo=UTC)
PER_WORDING = 12
"""Links that one wording is put on."""
_MONTHS = (
    "January February March April May June July August September October November December".split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a series."""

    source: str
    series: str
    number: int
    title: str
    created: str

    @property
    def name(self) -> str:
        return f"{self.series} {self.number}"

    @property
    def at(self) -> datetime:
        parts = [int(part) for part in self.created.split("-")]
        return datetime(parts[0], parts[1] if len(parts) > 1 else 1, parts[2] if len(parts) > 2 else 1, tzinfo=UTC)

    @property
    def date(self) -> str:
        return f"{self.at.day} {_MONTHS[self.at.month - 1]} {self.at.year}"


@dataclass(frozen=True, slots=True)
class Link:
    """A newer record that truly replaces an older one, and a third of the series that has no part in it."""

    newer: Record
    older: Record
    third: Record


def rows(file: Path) -> list[dict[str, Any]]:
    with file.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def links(data: Path) -> list[Link]:
    """Every true link between records of one series whose newer side is not the older by date."""
    found: list[Link] = []
    for group in _groups(data):
        by_id, pairs = group
        ordered = sorted(by_id.values(), key=lambda record: (record.created, record.number))
        for newer_id, older_id in pairs:
            newer, older = by_id.get(newer_id), by_id.get(older_id)
            if newer is None or older is None or newer.at < older.at:
                continue
            if older.name.lower() in newer.title.lower():
                continue  # "RFC 1888 Is Obsolete": the title itself states it, whatever the wording says
            third = _third(ordered, newer, older)
            if third is not None:
                found.append(Link(newer, older, third))
    return found


def _third(ordered: list[Record], newer: Record, older: Record) -> Record | None:
    """Some record of the series that is no newer than the newer one and neither of the two."""
    until = bisect_right(ordered, newer.created, key=lambda record: record.created)
    start = _digest(f"{newer.name} {older.name}") % until
    turned = (ordered[(start + step) % until] for step in range(min(until, 3)))
    return next((record for record in turned if record.number not in (newer.number, older.number)), None)


def _groups(data: Path) -> Iterator[tuple[dict[str, Record], list[tuple[str, str]]]]:
    for name in ("standards", "rfc_index"):
        by_source: dict[str, list[dict[str, Any]]] = {}
        for row in rows(data / "lineage" / f"{name}.jsonl"):
            by_source.setdefault(row["source"], []).append(row)
        for source, members in by_source.items():
            records = {
                r["id"]: _record(source, source.upper(), r) for r in members if r.get("created") and r["number"]
            }
            replaced = [(r["id"], older) for r in members for older in r["replaces"]]
            replaced += [(newer, r["id"]) for r in members for newer in r["superseded_by"]]
            yield records, sorted(set(replaced))
    by_repository: dict[str, list[dict[str, Any]]] = {}
    for row in rows(data / "lineage" / "adrs.jsonl"):
        if row.get("date") and row["number"] is not None:
            by_repository.setdefault(row["repo"], []).append({**row, "created": row["date"]})
    for members in by_repository.values():
        records = {r["id"]: _record("adr", "ADR", r) for r in members}
        yield records, sorted({(newer, r["id"]) for r in members for newer in r["superseded_by"]})


def _record(source: str, series: str, row: dict[str, Any]) -> Record:
    return Record(source, series, int(row["number"]), row["title"][:200], row["created"][:10])


def half_of(link: Link) -> str:
    """Which half a link belongs to, by its newer record."""
    return "selection" if _digest(f"half {link.newer.source} {link.newer.number}") % 2 else "held out"


def items(half_links: Iterable[Link], wording: str, count: int) -> list[PairItem]:
    """Some items that put a wording into the newer record of a link, in several shapes of memory.

    Sources take turns, so that the many RFCs do not drown the rest.
    """
    by_source: dict[str, list[Link]] = {}
    for link in half_links:
        by_source.setdefault(link.newer.source, []).append(link)
    chosen: list[Link] = []
    for turn in range(count):
        source = sorted(by_source)[turn % len(by_source)]
        members = by_source[source]
        chosen.append(members[_digest(f"{wording} {turn}") % len(members)])
    return [_item(link, wording, _digest(f"{wording} {n} shape")) for n, link in enumerate(dict.fromkeys(chosen))]


def _item(link: Link, wording: str, shape: int) -> PairItem:
    newer, older = link.newer, link.older
    said = wording.format(
        old=older.name,
        number=older.number,
        title=older.title,
        new=newer.name,
        own=newer.title,
        third=link.third.name,
        third_number=link.third.number,
        alien=f"{'RFC' if older.series != 'RFC' else 'STD'} {older.number}",
        series=older.series,
        date=newer.date,
    )
    inline = "\n" not in wording and wording[0] not in ">-*"
    shapes = [
        (f"{newer.name}: {newer.title}", said),
        (newer.title, f"{newer.name}: {newer.title}\n{said}"),
        (f"{newer.title} ({newer.name})", said),
        (f"{newer.series}-{newer.number:04d} {newer.title}", said),
        (newer.name, f"{newer.title}, accepted {newer.date}.\n{said}"),
    ]
    if inline:
        shapes.append((newer.title, f"{newer.name}, {newer.title}, of {newer.date}. {said}"))
        shapes.append((newer.title, f"On {newer.date} we adopted {newer.name}. {said}"))
    topic, content = shapes[shape % len(shapes)]
    named = f"{older.name}: {older.title}" if shape % 2 else older.title
    return PairItem(
        "p0",
        older=memory(named, f"{older.name}, {older.title}, of {older.date}.", older.at, older.name),
        newer=memory(topic, content, newer.at, newer.name),
        similarity=0.8,
    )


def memory(topic: str, content: str, at: datetime, key: str, memory_type: str = "decision") -> JudgedMemory:
    """A judged memory; its id is a digest, so that two runs agree."""
    uid = UUID(bytes=hashlib.sha256(f"{key}{topic}{content}".encode("utf-8", "replace")).digest()[:16])
    return JudgedMemory(uid, 1, memory_type, "personal", None, topic[:256] or "-", content or "-", at, at)


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6])
