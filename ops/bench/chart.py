"""The figures as a picture: how far each is from what is asked for, on a scale of halves and doubles.

Plain SVG that follows the reader's light or dark setting. Met and missed differ in shape as well as in colour.
"""

import math
from html import escape

from . import show
from .row import Row
from .run import Result

_WIDTH, _LEFT, _RIGHT, _TOP, _STEP, _BAR = 900, 250, 220, 62, 30, 16
_LOWEST, _HIGHEST = 0.25, 8.0
"""Ends of the scale, in times what is asked for; what lies beyond is drawn at the end."""
_STYLE = """
  .paper { fill: #ffffff } .ink { fill: #1f2328 } .faint { fill: #59636e } .grid { stroke: #d1d9e0 }
  .asked { stroke: #1f2328 } .met { fill: #1a7f37 } .missed { fill: #bc4c00 }
  text { font: 13px system-ui, sans-serif } .small { font-size: 11px }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117 } .ink { fill: #f0f6fc } .faint { fill: #9198a1 } .grid { stroke: #3d444d }
    .asked { stroke: #f0f6fc } .met { fill: #3fb950 } .missed { fill: #f0883e }
  }
"""


def chart(result: Result) -> str:
    """All rows with a target, as an SVG document."""
    rows = [row for row in result.rows if row.target is not None]
    height = _TOP + _STEP * len(rows) + 44
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
        f'height="{height}" role="img" aria-labelledby="title what">',
        '<title id="title">Lethelog, measured against what is asked for</title>',
        f'<desc id="what">{escape(_in_words(rows))}</desc>',
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" width="{_WIDTH}" height="{height}"/>',
        '<text class="ink" x="20" y="26" font-weight="600">Measured against what is asked for</text>',
        '<text class="faint small" x="20" y="44">the line is what is asked for; further right is better</text>',
        *_grid(height),
        *(part for number, row in enumerate(rows) for part in _line(row, _TOP + _STEP * number)),
        f'<text class="faint small" x="20" y="{height - 12}">{escape(show.machine(result.machine))}</text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _grid(height: int) -> list[str]:
    parts: list[str] = []
    step = _LOWEST
    while step <= _HIGHEST:
        x, kind = _place(step), "asked" if step == 1 else "grid"
        parts.append(f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 6}" y2="{height - 40}"/>')
        label = "asked for" if step == 1 else f"{step:g}×"
        parts.append(
            f'<text class="faint small" x="{x:.1f}" y="{height - 27}" text-anchor="middle">{label}</text>'
        )
        step *= 2
    return parts


def _line(row: Row, y: int) -> list[str]:
    reached = _reached(row)
    end, line, middle = _place(reached), _place(1), y + _BAR / 2 + 4.5
    start, width = min(end, line), max(abs(end - line), 2)
    kind, mark = ("met", "✓") if row.met else ("missed", "✗")
    got = show.ratio(row) if row.ratio is not None else show.number(row.figure, row.unit)
    return [
        f'<text class="ink" x="{_LEFT - 14}" y="{middle}" text-anchor="end">{escape(row.name)}</text>',
        f'<rect class="{kind}" x="{start:.1f}" y="{y}" width="{width:.1f}" height="{_BAR}" rx="2"/>',
        f'<text class="{kind}" x="{_WIDTH - _RIGHT + 16}" y="{middle}">{mark}</text>',
        f'<text class="ink" x="{_WIDTH - _RIGHT + 36}" y="{middle}">{escape(got)}'
        f'<tspan class="faint" dx="6">asked {escape(show.target(row))}</tspan></text>',
    ]


def _reached(row: Row) -> float:
    """How many times what is asked for; more is better, whichever way the target goes."""
    assert row.target is not None
    measured = row.figure if row.target.of == "figure" else row.ratio
    if not measured:
        return _LOWEST
    return measured / row.target.value if row.target.bound == "at least" else row.target.value / measured


def _place(times: float) -> float:
    held = min(max(times, _LOWEST), _HIGHEST)
    share = math.log(held / _LOWEST) / math.log(_HIGHEST / _LOWEST)
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def _in_words(rows: list[Row]) -> str:
    return "; ".join(
        f"{row.name}: {show.ratio(row) if row.ratio is not None else show.number(row.figure, row.unit)}, "
        f"asked {show.target(row)}, {show.verdict(row)}"
        for row in rows
    )
