"""A thresholds file belongs to one judge and to one rule (behaviour.md 1.17, settlement 12)."""

import json
from pathlib import Path
from typing import Any

import pytest
from lethelog.domain.errors import Misconfigured
from lethelog.domain.thresholds import SWEEP, ScoredVerdict, Thresholds, select_thresholds
from lethelog.handlers.judges.thresholds import RULE, load_thresholds, save_thresholds, thresholds_for

JUDGE = "systemone:api.typesafe.ai:jev-1.14.0:p2:1a2b3c4d"
DIGEST = "0a" * 32


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "jev thresholds ü.json"


def stored(**changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "format": 1,
        "judge": JUDGE,
        "archive": 0.85,
        "supersede": 0.6,
        "conflict": None,
        "selected": True,
        "data_digest": DIGEST,
        "rule": RULE,
    }
    return {**fields, **changes}


def test_what_selection_gave_comes_back(file: Path) -> None:
    scored = [ScoredVerdict("archive", 0.9, True) for _ in range(10)]
    selected = select_thresholds(JUDGE, scored)
    save_thresholds(file, selected, data_digest=DIGEST)
    assert load_thresholds(file, JUDGE) == selected
    assert json.loads(file.read_text("utf-8")) == stored(archive=0.5, supersede=None)


@pytest.mark.parametrize("step", SWEEP)
def test_every_swept_value_comes_back_as_it_was(file: Path, step: float) -> None:
    save_thresholds(file, Thresholds(JUDGE, step, None, step), data_digest=DIGEST)
    assert load_thresholds(file, JUDGE) == Thresholds(JUDGE, step, None, step)


def test_saving_replaces_and_leaves_nothing_beside(file: Path) -> None:
    for value in (0.5, 0.95):
        save_thresholds(file, Thresholds(JUDGE, value, None, None), data_digest=DIGEST)
    assert load_thresholds(file, JUDGE).archive == 0.95
    assert [found.name for found in file.parent.iterdir()] == [file.name]


def test_another_judge_s_file_is_refused_by_both_names(file: Path) -> None:
    file.write_text(json.dumps(stored()))
    other = JUDGE.replace("1.14.0", "1.15.0")
    with pytest.raises(Misconfigured) as caught:
        load_thresholds(file, other)
    assert JUDGE in caught.value.message
    assert other in caught.value.message
    assert caught.value.details["setting"] == "LETHELOG_JUDGE_THRESHOLDS"


BROKEN: dict[str, bytes] = {
    "empty": b"",
    "not json": b"archive = 0.85",
    "a list": b"[]",
    "repeated key": json.dumps(stored()).encode()[:-1] + b',"archive":0.5}',
    "nan": json.dumps(stored(archive=float("nan"))).encode(),
    "too large": json.dumps(stored()).encode() + b" " * 70_000,
    "not utf-8": b"\xff\xfe",
    "unknown key": json.dumps(stored(keep=0.5)).encode(),
    "missing key": json.dumps({k: v for k, v in stored().items() if k != "rule"}).encode(),
    "text as number": json.dumps(stored(archive="0.85")).encode(),
    "true as number": json.dumps(stored(archive=True)).encode(),
    "between the steps": json.dumps(stored(archive=0.87)).encode(),
    "below the sweep": json.dumps(stored(archive=0.45)).encode(),
    "above the sweep": json.dumps(stored(archive=0.99)).encode(),
    "unselected": json.dumps(stored(selected=False)).encode(),
    "another rule": json.dumps(stored(rule="by eye")).encode(),
    "no digest": json.dumps(stored(data_digest="")).encode(),
    "later format": json.dumps(stored(format=2)).encode(),
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
def test_what_selection_could_not_have_produced_is_refused(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(Misconfigured) as caught:
        thresholds_for(JUDGE, file=file, starting=True)
    assert str(file) in caught.value.message


def test_a_missing_file_is_not_passed_over(file: Path) -> None:
    with pytest.raises(Misconfigured):
        thresholds_for(JUDGE, file=file, starting=True, shipped=Thresholds(JUDGE, 0.9, 0.9, None))
    with pytest.raises(Misconfigured):
        thresholds_for(JUDGE, file=file.parent, starting=False)


def test_unselected_values_are_never_written(file: Path) -> None:
    with pytest.raises(Misconfigured):
        save_thresholds(file, thresholds_for(JUDGE, file=None, starting=True), data_digest=DIGEST)
    with pytest.raises(Misconfigured):
        save_thresholds(file, Thresholds(JUDGE, 0.87, None, None), data_digest=DIGEST)
    with pytest.raises(Misconfigured):
        save_thresholds(file, Thresholds(JUDGE, 0.85, None, None), data_digest="unknown")
    with pytest.raises(Misconfigured):
        save_thresholds(file / "x.json", Thresholds(JUDGE, 0.85, None, None), data_digest=DIGEST)
    assert not list(file.parent.iterdir())


class TestWhichThresholds:
    def test_a_file_wins(self, file: Path) -> None:
        file.write_text(json.dumps(stored()))
        got = thresholds_for(JUDGE, file=file, starting=True, shipped=Thresholds(JUDGE, 0.95, 0.95, 0.95))
        assert got == Thresholds(JUDGE, 0.85, 0.6, None)
        assert got.selected

    def test_shipped_ones_come_before_starting_values(self) -> None:
        shipped = Thresholds("stated:1", 0.95, 0.9, None)
        assert thresholds_for("stated:1", file=None, starting=True, shipped=shipped) is shipped

    def test_shipped_ones_of_another_judge_are_refused(self) -> None:
        with pytest.raises(Misconfigured):
            thresholds_for(JUDGE, file=None, starting=True, shipped=Thresholds("stated:1", 0.95, 0.9, None))

    def test_starting_values_are_marked_unselected(self) -> None:
        got = thresholds_for(JUDGE, file=None, starting=True)
        assert (got.archive, got.supersede, got.conflict, got.selected) == (0.85, 0.85, 0.60, False)

    def test_without_any_nothing_is_proposed(self) -> None:
        got = thresholds_for(JUDGE, file=None, starting=False)
        assert not any(got.clears(action, 1.0) for action in ("keep", "archive", "supersede", "conflict"))
