"""The README's table of speed is that of the report, and leaves no miss out."""

from pathlib import Path

from lethelog.ops.bench.row import Row, Target
from lethelog.ops.bench.show import number
from lethelog.ops.bench.summary import ROOT, rows_of, summary, with_summary

REPORT = (ROOT / "docs" / "reports" / "bench.json").read_text(encoding="utf-8")
README = Path(ROOT / "README.md").read_text(encoding="utf-8")


def row(name: str, ratio: float, bound: str = "at most", asked: float = 3.0) -> Row:
    return Row(name, 10.0 * ratio, "ms", "", baseline=10.0, target=Target(bound, asked), flush_ms=0.2, load=1.0)  # type: ignore[arg-type]


def test_the_readme_shows_the_figures_of_the_report():
    assert with_summary(README, REPORT) == README, "run: python -m lethelog.ops.bench.summary"


def test_every_figure_of_the_report_that_misses_is_in_the_readme():
    missed = [one for one in rows_of(REPORT) if one.met is False]
    assert len(missed) > 5
    lines = [line for line in README.splitlines() if "**missed**" in line]
    assert len(lines) == len(missed)
    assert [
        one.name for one in missed if not any(f"| {number(one.figure, one.unit)} |" in line for line in lines)
    ] == []


def test_a_group_shows_all_its_misses_or_else_the_figure_nearest_to_one():
    kinds = [row("as_of.early", 4.5), row("as_of.half", 3.2), row("as_of.recent", 1.5)]
    table = summary(kinds)
    assert table.count("**missed**") == 2 and "4.5×" in table and "3.2×" in table and "1.5×" not in table
    table = summary([row("as_of.early", 2.5), *kinds[2:], row("as_of.recall", 3.0)])
    assert "2.5×" in table and "1.5×" not in table and "3×" not in table.replace("≤ 3×", "")


def test_where_more_is_better_the_lowest_is_the_nearest_to_a_miss():
    rates = [row("append.page100", 5, "at least"), row("append.page500", 4, "at least")]
    assert "pages of 500" in summary(rates) and "pages of 100" not in summary(rates)
