"""Choosing a judge: by name, and never by falling back."""

import pytest
from lethelog.domain.errors import Misconfigured
from lethelog.domain.judging import Judge, JudgeRejected
from lethelog.handlers.judges import DEFAULT_JUDGE, JUDGES, open_judge
from lethelog.handlers.judges.none import NoJudge

from .judge_contract import JudgeContract, pair, request_of
from .wire import settings


class TestNoJudge(JudgeContract):
    @pytest.fixture
    def judge(self) -> Judge:
        return open_judge("none")


async def test_no_judge_says_why_nothing_is_proposed() -> None:
    judge = NoJudge("The operator has not chosen one.")
    assert judge.unavailable_because == "The operator has not chosen one."
    assert not judge.metered
    with pytest.raises(JudgeRejected, match="The operator has not chosen one"):
        await judge.decide(request_of(pair(0)))


def test_the_reason_cannot_be_empty() -> None:
    with pytest.raises(Misconfigured):
        NoJudge(" ")


class TestStated(JudgeContract):
    @pytest.fixture
    def judge(self) -> Judge:
        return open_judge("stated")


def test_the_default_is_the_local_rule() -> None:
    judge = open_judge(DEFAULT_JUDGE)
    assert judge.name == "stated"
    assert not judge.metered


async def test_systemone_takes_its_settings() -> None:
    judge = open_judge("systemone", systemone=settings())
    assert judge.name == "systemone"
    assert judge.metered
    assert judge.unavailable_because is None
    await judge.close()


def test_systemone_without_settings_names_what_is_missing() -> None:
    with pytest.raises(Misconfigured) as caught:
        open_judge("systemone")
    for name in ("LETHELOG_JUDGE_URL", "LETHELOG_JUDGE_MODEL", "LETHELOG_JUDGE_KEY"):
        assert name in caught.value.message


@pytest.mark.parametrize("name", ["", "Stated", "jev", "null", "systemone ", "x" * 10_000])
def test_an_unknown_name_is_refused_and_the_known_ones_listed(name: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        open_judge(name, systemone=settings())
    assert caught.value.details["setting"] == "LETHELOG_JUDGE"
    assert all(known in caught.value.message for known in JUDGES)
    assert len(caught.value.message) < 200
