"""Charts as numbers that a template draws in SVG; every chart has a table beside it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

WIDTH = 600
"""Of a drawing, in its own units."""
LINE_HEIGHT = 180
_MARGIN = 40


class Part(NamedTuple):
    """A stretch of a bar."""

    name: str
    x: float
    width: float
    value: float


class Bar(NamedTuple):
    """One bar, in parts."""

    label: str
    parts: tuple[Part, ...]
    total: float


class Dot(NamedTuple):
    """A point of a line."""

    x: float
    y: float
    label: str
    value: float


class Line(NamedTuple):
    """A line, and where its dots are."""

    points: str
    dots: tuple[Dot, ...]


def bars(rows: Mapping[str, Sequence[tuple[str, float]]]) -> list[Bar]:
    """Stacked bars on one scale, as wide as the longest."""
    totals = {label: sum(value for _, value in parts) for label, parts in rows.items()}
    scale = WIDTH / (max(totals.values(), default=0) or 1)
    found: list[Bar] = []
    for label, parts in rows.items():
        at, drawn = 0.0, list[Part]()
        for name, value in parts:
            if value:
                drawn.append(Part(name, round(at, 1), round(value * scale, 1), value))
                at += value * scale
        found.append(Bar(label, tuple(drawn), totals[label]))
    return found


def line(values: Mapping[int, float]) -> Line:
    """A line over days, from nothing on."""
    days = sorted(values)
    right, top = (days[-1] if days else 0) or 1, max(values.values(), default=0) or 1
    across, up = WIDTH - 2 * _MARGIN, LINE_HEIGHT - 2 * _MARGIN
    dots = tuple(
        Dot(
            round(_MARGIN + day / right * across, 1),
            round(LINE_HEIGHT - _MARGIN - values[day] / top * up, 1),
            f"day {day}",
            values[day],
        )
        for day in days
    )
    return Line(" ".join(f"{dot.x},{dot.y}" for dot in dots), dots)
