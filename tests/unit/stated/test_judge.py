"""The judge behind the port."""

import pytest
from lethelog.domain.judging import Judge, PairItem, make_request
from lethelog.domain.stated import IDENTITY, RULE_VERSION, THRESHOLDS
from lethelog.handlers.judges.stated import StatedJudge

from ..judges.judge_contract import JudgeContract
from .memories import NOW, pair


class TestStatedJudge(JudgeContract):
    @pytest.fixture
    def judge(self) -> Judge:
        return StatedJudge()


async def test_it_answers_items_from_what_they_state() -> None:
    said, silent = pair("It replaces PEP 314."), pair("It updates PEP 314.")
    silent = PairItem("p1", silent.older, silent.newer, 0.5)
    result = await StatedJudge().decide(make_request(NOW, [said, silent]))
    assert {ref: getattr(a, "choice", None) for ref, a in result.answers.items()} == {
        "p0": "supersede_older",
        "p1": "keep_both",
    }
    assert result.model == IDENTITY
    assert result.cost_usd is None
    assert result.input_tokens == result.output_tokens == 0


def test_it_names_its_rule_and_costs_nothing() -> None:
    judge = StatedJudge()
    assert judge.name == "stated"
    assert judge.identity == f"stated:{RULE_VERSION}"
    assert not judge.metered
    assert judge.unavailable_because is None


def test_its_thresholds_are_its_own_and_selected() -> None:
    assert THRESHOLDS.judge_identity == IDENTITY
    assert THRESHOLDS.selected
    assert THRESHOLDS.conflict is None
