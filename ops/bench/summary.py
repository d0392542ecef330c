"""The short table of speed in the README, written from the figures of the whole report.

``python -m lethelog.ops.bench.summary``. A test compares the README with what this gives, so no figure stands
there that was not measured, and no miss is left out.
"""

import json
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple, cast

from .row import Row, Target
from .show import number, ratio, target

ROOT = Path(__file__).parents[2]
BEGIN, END = "<!-- speed: begin -->\n", "<!-- speed: end -->\n"
_HEAD = "| measure | figure | against | ratio | asked for | |\n|---|--:|---|--:|--:|---|\n"


class Group(NamedTuple):
    """Figures that answer one question of a reader."""

    rows: str
    """Pattern of their names; ``[!l]`` at its end leaves out recalls."""
    says: str
    """``{}`` is what tells them apart: the star of the pattern."""
    against: str = "–"


_STOCK = "the library's stock recorder, which does none of it"
GROUPS = (
    Group("append.64.asyncio", "append, 64 callers at once, everything on", _STOCK),
    Group("append.64.threads", "the same by threads", "same"),
    Group("append.64.bare", "the same, bare", "same"),
    Group("append.one", "append, one caller", "same"),
    Group("append.page*", "append, pages of {} new memories", "same"),
    Group("view.catch_up", "live memory catches up, without vectors", "the library's projection runner"),
    Group("view.rebuild", "rebuild of 100,000 events, without vectors", "binary COPY of the same rows"),
    Group("readable.p99", "write to readable, p99 at 100 writes/s"),
    Group("delivered.p99", "write to subscriber, p99 at 100 writes/s"),
    Group("as_of.*[!l]", "search of the past, 100,000 memories, {}", "the same search of the present"),
    Group("search.*0", "search in a tenant of {} among 100,000", "the best bare pgvector plan"),
    Group("search.*.recall", "recall of the 10 nearest, tenant of {}", "comparing every vector"),
    Group("rest.search.p99", "search over REST, 50 clients, p99", "the same in the process"),
    Group("import.lethelog", "`import lethelog`", "an interpreter that imports nothing"),
    Group("mcp.start", "`lethelog mcp`, until it answers"),
    Group("page.*.paint", "first paint of the {} page"),
    Group("page.*.weight", "weight of the {} page"),
    Group("audit.verify", "`audit verify`"),
)
_APART = {
    "as_of.early": "as it stood at a tenth of it",
    "as_of.half": "as it stood at half of it",
    "as_of.recent": "as it stood just before",
}


def summary(found: Sequence[Row]) -> str:
    """The table: of each group every figure that misses, or else the one that is nearest to missing."""
    shown = [(group, row) for group in GROUPS for row in _worst([row for row in found if _of(group, row)])]
    flushes = [row.flush_ms for row in found if row.flush_ms is not None]
    loads = [row.load for row in found if row.load is not None]
    said = (
        f"A flush of the disk took {min(flushes):.2g} to {max(flushes):.2g} ms meanwhile, and the load was "
        f"{min(loads):.2g} to {max(loads):.2g}.\n\n"
    )
    return said + _HEAD + "".join(map(_line, shown))


def _of(group: Group, row: Row) -> bool:
    return fnmatch(row.name, group.rows)


def _worst(rows: Sequence[Row]) -> Iterator[Row]:
    missed = [row for row in rows if row.met is False]
    if missed:
        yield from missed
    elif rows:
        yield min(rows, key=_room)


def _room(row: Row) -> float:
    """How many times better than asked for."""
    asked = row.target
    measured = row.figure if asked is None or asked.of == "figure" else row.ratio
    if asked is None or not measured:
        return 0.0
    return measured / asked.value if asked.bound == "at least" else asked.value / measured


def _line(shown: tuple[Group, Row]) -> str:
    group, row = shown
    cells = (
        group.says.format(_APART.get(row.name) or _star(group, row)),
        number(row.figure, row.unit),
        group.against,
        ratio(row),
        target(row),
        {True: "met", False: "**missed**", None: ""}[row.met],
    )
    return f"| {' | '.join(cells)} |\n"


def _star(group: Group, row: Row) -> str:
    before, _, after = group.rows.partition("*")
    kept = row.name.removeprefix(before)
    kept = kept.removesuffix(after) if after.startswith(".") else kept
    return f"{int(kept):,}" if kept.isdigit() else kept


def rows_of(report: str) -> list[Row]:
    """The rows of a report in JSON."""
    return [_row(one) for one in cast("list[dict[str, Any]]", json.loads(report))]


def _row(one: dict[str, Any]) -> Row:
    of, _, rest = (one["target"] or "").partition(" ")
    bound, _, value = rest.rpartition(" ")
    asked = Target(cast(Any, bound), float(value), cast(Any, of)) if one["target"] else None
    return Row(
        one["name"],
        one["figure"],
        one["unit"],
        one["says"],
        baseline=one["baseline"],
        target=asked,
        flush_ms=one["flush_ms"],
        load=one["load"],
    )


def with_summary(readme: str, report: str) -> str:
    """The README with the table of this report in the place of the one before."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + summary(rows_of(report)) + END + after


if __name__ == "__main__":
    page = ROOT / "README.md"
    measured = (ROOT / "docs" / "reports" / "bench.json").read_text(encoding="utf-8")
    page.write_text(with_summary(page.read_text(encoding="utf-8"), measured), encoding="utf-8")
