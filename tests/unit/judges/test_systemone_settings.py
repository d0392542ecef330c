"""Settings that cannot work, or would let answers change unnoticed, are refused at start, by name."""

from typing import Any

import pytest
from lethelog.domain.errors import Misconfigured
from lethelog.domain.judging import Neighbour, PairItem, SingleItem, make_request
from lethelog.handlers.judges.systemone_settings import LEAST_STATE_CHARS, SystemOneSettings, is_unpinned
from pydantic import SecretStr

from .judge_contract import NOW, memory
from .wire import KEY, settings


@pytest.mark.parametrize(
    ("changes", "setting"),
    [
        ({"base_url": ""}, "LETHELOG_JUDGE_URL"),
        ({"base_url": "api.typesafe.ai"}, "LETHELOG_JUDGE_URL"),
        ({"base_url": "ftp://api.typesafe.ai"}, "LETHELOG_JUDGE_URL"),
        ({"base_url": "https://"}, "LETHELOG_JUDGE_URL"),
        ({"base_url": "https://h:port"}, "LETHELOG_JUDGE_URL"),
        ({"base_url": "https://[::1"}, "LETHELOG_JUDGE_URL"),
        ({"base_url": "https://me:hunter2@api.typesafe.ai"}, "LETHELOG_JUDGE_URL"),
        ({"base_url": "https://api.typesafe.ai?key=hunter2"}, "LETHELOG_JUDGE_URL"),
        ({"base_url": "https://api.typesafe.ai/#x"}, "LETHELOG_JUDGE_URL"),
        ({"base_url": "https://api.typesafe.ai/ v1"}, "LETHELOG_JUDGE_URL"),
        ({"base_url": "https://müller.example"}, "LETHELOG_JUDGE_URL"),
        ({"base_url": "http://127.0.0.1:11434/v1"}, "LETHELOG_JUDGE_URL"),
        ({"base_url": "http://127.0.0.1:11434/v1/"}, "LETHELOG_JUDGE_URL"),
        ({"base_url": "http://judge.example.com"}, "LETHELOG_JUDGE_URL"),
        ({"path": ""}, "LETHELOG_JUDGE_PATH"),
        ({"path": "v1/systemone"}, "LETHELOG_JUDGE_PATH"),
        ({"path": "/v1/systemone?x=1"}, "LETHELOG_JUDGE_PATH"),
        ({"model": ""}, "LETHELOG_JUDGE_MODEL"),
        ({"model": "jev 1"}, "LETHELOG_JUDGE_MODEL"),
        ({"model": "jev\ud83d"}, "LETHELOG_JUDGE_MODEL"),
        ({"model": "jev-latest"}, "LETHELOG_JUDGE_MODEL"),
        ({"model": "~typesafe/jev-1.13"}, "LETHELOG_JUDGE_MODEL"),
        ({"model": "kev:latest"}, "LETHELOG_JUDGE_MODEL"),
        ({"answers_as": ("jev 1",)}, "LETHELOG_JUDGE_ANSWERS_AS"),
        ({"api_key": SecretStr("")}, "LETHELOG_JUDGE_KEY"),
        ({"api_key": SecretStr("hunter2\n")}, "LETHELOG_JUDGE_KEY"),
        ({"api_key": SecretStr("schlüssel")}, "LETHELOG_JUDGE_KEY"),
        ({"base_url": "https://api.typesafe.ai", "api_key": None}, "LETHELOG_JUDGE_KEY"),
        ({"base_url": "https://openrouter.ai/api", "api_key": None}, "LETHELOG_JUDGE_KEY"),
        ({"extra_headers": {"Authorization": "Bearer hunter2"}}, "LETHELOG_JUDGE_HEADERS"),
        ({"extra_headers": {"x-a": "hunter2\r\nx-b: 1"}}, "LETHELOG_JUDGE_HEADERS"),
        ({"extra_headers": {"x a": "1"}}, "LETHELOG_JUDGE_HEADERS"),
        ({"extra_body": {"state": "x"}}, "LETHELOG_JUDGE_EXTRA_BODY"),
        ({"extra_body": {"x": float("nan")}}, "LETHELOG_JUDGE_EXTRA_BODY"),
        ({"extra_body": {"x": "\ud83d"}}, "LETHELOG_JUDGE_EXTRA_BODY"),
        ({"extra_body": {"x": object()}}, "LETHELOG_JUDGE_EXTRA_BODY"),
        ({"timeout": 0}, "LETHELOG_JUDGE_TIMEOUT"),
        ({"timeout": float("nan")}, "LETHELOG_JUDGE_TIMEOUT"),
        ({"deadline": -1}, "LETHELOG_JUDGE_DEADLINE"),
        ({"max_wait": float("inf")}, "LETHELOG_JUDGE_MAX_WAIT"),
        ({"max_attempts": 0}, "LETHELOG_JUDGE_ATTEMPTS"),
        ({"max_reply_bytes": 0}, "LETHELOG_JUDGE_MAX_REPLY_BYTES"),
        ({"max_questions": 1}, "LETHELOG_JUDGE_MAX_QUESTIONS"),
        ({"max_questions": 101}, "LETHELOG_JUDGE_MAX_QUESTIONS"),
        ({"max_state_chars": 15_999}, "LETHELOG_JUDGE_MAX_STATE_CHARS"),
        ({"max_state_chars": 64_001}, "LETHELOG_JUDGE_MAX_STATE_CHARS"),
        ({"items_per_call": 0}, "LETHELOG_JUDGE_ITEMS_PER_CALL"),
        ({"items_per_call": 51}, "LETHELOG_JUDGE_ITEMS_PER_CALL"),
        ({"items_per_call": 101, "permute": False}, "LETHELOG_JUDGE_ITEMS_PER_CALL"),
    ],
)
def test_refused_at_start_by_the_setting_s_name(changes: dict[str, Any], setting: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        settings(**changes)
    assert caught.value.details["setting"] == setting
    assert caught.value.message.startswith(f"{setting}: ")
    assert "hunter2" not in repr(caught.value.as_dict())


@pytest.mark.parametrize(
    "changes",
    [
        {"base_url": "https://api.typesafe.ai"},
        {"base_url": "https://openrouter.ai/api", "extra_body": {"provider": {"data_collection": "deny"}}},
        {"base_url": "http://localhost:8080/"},
        {"base_url": "http://[::1]:8080", "model": "kev-4b"},
        {"base_url": "http://judge.example.com", "api_key": None},
        {"base_url": "http://judge.example.com", "allow_plain_http": True},
        {"model": "jev-latest", "allow_unpinned": True},
        {"base_url": "https://openrouter.ai/api", "path": "/alpha/decisions"},
        {"items_per_call": 12},
        {"items_per_call": 50},
        {"items_per_call": 100, "permute": False},
    ],
)
def test_accepted(changes: dict[str, Any]) -> None:
    assert settings(**changes)


def test_the_address_is_joined_once() -> None:
    assert settings(base_url="https://openrouter.ai/api/").url == "https://openrouter.ai/api/v1/systemone"
    assert settings(base_url="http://127.0.0.1:8080").url == "http://127.0.0.1:8080/v1/systemone"


def test_the_key_is_not_shown() -> None:
    shown = repr(settings(extra_headers={"x-api-key": "hunter2"}, extra_body={"user": "hunter2"}))
    assert KEY not in shown
    assert "hunter2" not in shown


@pytest.mark.parametrize("model", ["jev-latest", "jev-preview", "kev:latest", "~typesafe/jev-latest", "a/Auto"])
def test_moving_ids(model: str) -> None:
    assert is_unpinned(model)


@pytest.mark.parametrize(
    "model", ["jev-1.14.0", "typesafe/jev-1.13-20260917", "kev:4b", "latestar-1", "autojev-2"]
)
def test_pinned_ids(model: str) -> None:
    assert not is_unpinned(model)


def test_settings_cannot_be_changed() -> None:
    chosen: Any = settings()
    with pytest.raises(AttributeError):
        chosen.model = "other"
    assert isinstance(chosen, SystemOneSettings)


def test_any_single_item_fits_the_least_state() -> None:
    worst = '\\"' * 2_000
    near = tuple(Neighbour(f"s0n{i}", memory(i, worst, topic=worst), 0.5) for i in range(3))
    ends = {"topic": worst, "expires_at": NOW, "valid_to": NOW, "project": '"' * 128}
    for item in (
        SingleItem("s0", memory(1, worst, **ends), near),
        PairItem("p0", memory(1, worst, **ends), memory(2, worst, **ends), 0.5),
    ):
        assert len(make_request(NOW, [item]).state) <= LEAST_STATE_CHARS
