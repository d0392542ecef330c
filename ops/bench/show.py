"""Figures as people read them: in words, as a table for the terminal, as a page."""

from rich.table import Table
from rich.text import Text

from .row import Row, Target
from .run import Machine, Result

_BOUND = {"at least": "≥", "at most": "≤"}


def number(value: float | None, unit: str = "") -> str:
    """Three significant digits at least, thousands set apart."""
    if value is None:
        return "–"
    text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{text} {unit}".rstrip()


def ratio(row: Row) -> str:
    """How many times the baseline."""
    return "–" if row.ratio is None else f"{row.ratio:.2g}×" if row.ratio < 10 else f"{row.ratio:.0f}×"


def target(row: Row) -> str:
    """What is asked for."""
    asked: Target | None = row.target
    if asked is None:
        return "–"
    return f"{_BOUND[asked.bound]} {asked.value:g}{'×' if asked.of == 'ratio' else f' {row.unit}'}".rstrip()


def verdict(row: Row) -> str:
    """Met or missed."""
    return {True: "met", False: "missed", None: "–"}[row.met]


def table(result: Result) -> Table:
    """All rows for a terminal."""
    made = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    made.add_column("figure", overflow="fold")
    for heading in ("measured", "baseline", "ratio", "asked for", "flush"):
        made.add_column(heading, justify="right", overflow="fold")
    made.add_column("")
    for row in result.rows:
        made.add_row(
            row.name,
            number(row.figure, row.unit),
            number(row.baseline, row.unit if row.baseline is not None else ""),
            ratio(row),
            target(row),
            number(row.flush_ms, "ms" if row.flush_ms is not None else ""),
            Text(verdict(row), {True: "green", False: "red", None: ""}[row.met]),
        )
    return made


def machine(one: Machine) -> str:
    """Where and when, in one line."""
    source = f"commit {one.commit}" if one.commit else f"version {one.version}"
    return (
        f"{source}, {one.measured_at}, {one.processor}, {one.cores} cores, Python {one.python}, load "
        f"{one.load[0]:.1f} before and {one.load[1]:.1f} at the end, {one.seconds:.0f} s"
        f"{', short run' if one.quick else ''}"
    )


def page(result: Result, chart: str | None) -> str:
    """The report as Markdown; ``chart`` is the picture's file name, seen from the page."""
    parts = [
        "# Speed, measured",
        "Written by `lethelog bench`; measure it yourself as [described](../how-to/measure.md). What is compared "
        "takes turns in one run; figures are medians of its rounds and *spread* is the lowest and highest ratio "
        "of one round. *Flush* is the median `fdatasync` of the disk under the database: no durable figure says "
        "anything without it. A run shares its cores with its own servers and with whatever else the machine "
        "does; the ratios are what carries over to another machine.",
        f"*{machine(result.machine)}*",
    ]
    if chart is not None:
        parts.append(f"![Each figure against what is asked for]({chart})")
    parts.append(_figures(result))
    missed = [row for row in result.rows if row.met is False]
    if missed:
        parts += ["## Missed", "\n".join(f"- `{row.name}`: {_miss(row)}" for row in missed)]
    parts += ["## What was done", "\n\n".join(map(_account, result.rows))]
    return "\n\n".join(parts) + "\n"


def _figures(result: Result) -> str:
    lines = [
        "| figure | measured | baseline | ratio | spread | asked for | | flush | n | load |",
        "|---|--:|--:|--:|--:|--:|---|--:|--:|--:|",
    ]
    for row in result.rows:
        cells = (
            f"`{row.name}`",
            number(row.figure, row.unit),
            number(row.baseline),
            ratio(row),
            _spread(row),
            target(row),
            f"**{verdict(row)}**" if row.met is False else verdict(row),
            number(row.flush_ms, "ms" if row.flush_ms is not None else ""),
            f"{row.n:,}",
            number(row.load),
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _spread(row: Row) -> str:
    return "–" if row.spread is None else f"{row.spread[0]:.3g}–{row.spread[1]:.3g}"


def _miss(row: Row) -> str:
    got = ratio(row) if row.target is not None and row.target.of == "ratio" else number(row.figure, row.unit)
    return f"{got} where {target(row)} is asked for. {row.bound_by or ''}".rstrip()


def _account(row: Row) -> str:
    text = f"**`{row.name}`** – {row.says}"
    if row.against:
        text += f"; against {row.against}"
    text += "."
    if row.detail:
        text += " " + "; ".join(f"{name}: {_plain(value)}" for name, value in row.detail.items()) + "."
    return text


def _plain(value: object) -> str:
    return number(float(value)) if isinstance(value, int | float) else str(value)
