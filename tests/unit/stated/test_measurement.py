"""The figures that the rule carries are those of a fresh measurement."""

import pytest
from lethelog.domain.stated import MEASURED, THRESHOLDS
from lethelog.domain.stated.precision import Measured
from lethelog.ops.eval import (
    stated,
    stated_ends,
    stated_first_held_out,
    stated_held_out,
    stated_second_held_out,
    stated_selection,
)
from lethelog.ops.eval.stated_items import half_of, links

DATA = stated.data_folder()
needs_data = pytest.mark.skipif(
    not (DATA / "lineage" / "rfc_index.jsonl").is_file(), reason="the shared data is not at hand"
)


def test_a_class_with_little_evidence_gets_a_low_number() -> None:
    assert Measured(0, 0).probability == 0
    assert Measured(3, 3).probability < 0.5 < Measured(4, 4).probability < Measured(40, 40).probability < 1
    assert Measured(30, 40).probability < 0.75


def test_held_out_wordings_are_no_selection_wordings() -> None:
    seen = {*stated_selection.ENDINGS, *stated_selection.NON_ENDINGS}
    for earlier in (stated_first_held_out, stated_second_held_out):
        seen |= {*earlier.ENDINGS, *earlier.NON_ENDINGS}
    held_out = [*stated_held_out.ENDINGS, *stated_held_out.NON_ENDINGS]
    assert len(held_out) == len(set(held_out))
    assert not seen & set(held_out)
    assert not {row[:2] for row in stated_ends.SEEN} & {row[:2] for row in stated_ends.HELD_OUT}


@needs_data
def test_the_halves_share_no_record() -> None:
    sides: dict[str, set[tuple[str, int]]] = {}
    for link in links(DATA):
        sides.setdefault(half_of(link), set()).add((link.newer.source, link.newer.number))
    assert set(sides) == {"selection", "held out"}
    assert not sides["selection"] & sides["held out"]


@needs_data
def test_measuring_again_gives_the_recorded_precision_and_thresholds() -> None:
    selection, held_out = stated.halves(DATA)
    assert held_out.measured() == dict(MEASURED)
    assert stated.selected(selection) == THRESHOLDS
    assert selection.false == 0
    assert sum(right for action, _, right in selection.verdicts if action == "archive") >= 10
