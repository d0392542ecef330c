"""What a measured figure says about itself, in JSON, as a page and as a picture."""

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from lethelog.domain.errors import InvalidInput
from lethelog.ops.bench.chart import chart
from lethelog.ops.bench.measures import MEASURES, chosen
from lethelog.ops.bench.rounds import alternate
from lethelog.ops.bench.row import Row, Target, quantile
from lethelog.ops.bench.run import Machine, Result
from lethelog.ops.bench.show import page

RATE = Row(
    "append.many",
    9_000.0,
    "events/s",
    "what was done",
    baseline=1_000.0,
    against="the stock part",
    target=Target("at least", 8),
    flush_ms=0.4,
)
TIME = Row("readable.p99", 61.0, "ms", "a write", target=Target("at most", 50, of="figure"), bound_by="The disk.")
MACHINE = Machine("2026-03-01T09:00:00+00:00", "1", "abc", "3.11", "a <processor>", 2, (0.1, 2.0), 60.0, False)
SVG = "{http://www.w3.org/2000/svg}"


def test_a_row_says_what_was_promised_in_json():
    said = json.loads(json.dumps(RATE.as_dict()))
    promised = ("name", "figure", "unit", "baseline", "ratio", "target", "met", "flush_ms")
    assert [said[key] for key in promised] == [
        "append.many",
        9_000.0,
        "events/s",
        1_000.0,
        9.0,
        "ratio at least 8",
        True,
        0.4,
    ]


@pytest.mark.parametrize(
    ("row", "met"),
    [
        (RATE, True),
        (replace(RATE, figure=7_999.0), False),
        (replace(RATE, target=Target("at most", 8)), False),
        (TIME, False),
        (replace(TIME, figure=50.0), True),
        (replace(RATE, target=None), None),
        (replace(RATE, baseline=None), False),
    ],
)
def test_a_target_is_met_or_missed_by_the_ratio_or_the_figure(row: Row, met: bool | None):
    assert row.met is met


def test_a_miss_is_printed_as_a_miss_with_what_bounds_it():
    said = page(Result((RATE, TIME), MACHINE), None)
    missed = said[said.index("## Missed") : said.index("## What was done")]
    assert missed.split("\n\n")[1] == "- `readable.p99`: 61 ms where ≤ 50 ms is asked for. The disk."
    assert "## Missed" not in page(Result((RATE,), MACHINE), None)


def test_the_chart_is_well_formed_and_reads_without_colours():
    drawn = ElementTree.fromstring(chart(Result((RATE, TIME, replace(RATE, target=None)), MACHINE)))
    assert [bar.get("class") for bar in drawn.iter(f"{SVG}rect")] == ["paper", "met", "missed"]
    assert [text.text for text in drawn.iter(f"{SVG}text") if text.text in ("✓", "✗")] == ["✓", "✗"]
    said = drawn.find(f"{SVG}desc")
    assert said is not None and said.text == (
        "append.many: 9×, asked ≥ 8×, met; readable.p99: 61 ms, asked ≤ 50 ms, missed"
    )
    style = drawn.find(f"{SVG}style")
    assert style is not None and "prefers-color-scheme: dark" in (style.text or "")


async def test_subjects_take_turns_and_each_round_begins_with_another():
    order: list[str] = []

    def subject(name: str, figure: float):
        async def turn() -> float:
            order.append(name)
            return figure

        return turn

    turns = await alternate({"a": subject("a", 2.0), "b": subject("b", 1.0)}, 2, warm_up=False)
    assert order == ["a", "b", "b", "a"]
    assert (turns.median("a"), turns.spread("a", "b")) == (2.0, (2.0, 2.0))


def test_a_quantile_is_a_measured_value():
    assert [quantile([3.0, 1.0, 2.0], share) for share in (0.0, 0.5, 0.99)] == [1.0, 2.0, 3.0]


def test_every_measure_has_a_name_of_its_own_and_unknown_names_are_refused():
    names = [one.name for one in MEASURES]
    assert len(set(names)) == len(names)
    assert [one.name for one in chosen([names[1]])] == [names[1]]
    assert [one.name for one in chosen([])] == [one for one in names if one != "erasure-large"]
    assert [one.name for one in chosen(["erasure-large"])] == ["erasure-large"]
    with pytest.raises(InvalidInput, match="nonsense"):
        chosen(["nonsense"])
