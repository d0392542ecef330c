"""Thresholds belong to one identity, so whatever can change an answer changes the identity."""

from typing import Any

import pytest
from lethelog.domain import judging
from lethelog.handlers.judges.systemone_identity import identity_of
from pydantic import SecretStr

from .wire import settings

BASE: dict[str, Any] = {"base_url": "https://api.typesafe.ai"}


def test_it_names_wire_host_model_orders_and_a_digest() -> None:
    wire, host, model, orders, digest = identity_of(settings(**BASE)).split(":")
    assert (wire, host, model, orders) == ("systemone", "api.typesafe.ai", "jev-1.14.0", "p2")
    assert len(digest) == 8
    assert int(digest, 16) >= 0


def test_it_is_stable() -> None:
    assert identity_of(settings(**BASE)) == identity_of(settings(**BASE))


@pytest.mark.parametrize(
    "changes",
    [
        {"base_url": "https://judge.example.com"},
        {"base_url": "https://api.typesafe.ai/eu"},
        {"base_url": "https://api.typesafe.ai:8443"},
        {"path": "/alpha/decisions"},
        {"model": "jev-1.13.0"},
        {"permute": False},
        {"items_per_call": 12},
        {"answers_as": ("jev-1.14.0-20261001",)},
        {"extra_body": {"provider": {"only": ["a"]}}},
    ],
)
def test_what_can_change_answers_changes_it(changes: dict[str, Any]) -> None:
    assert identity_of(settings(**{**BASE, **changes})) != identity_of(settings(**BASE))


@pytest.mark.parametrize(
    "changes",
    [
        {"api_key": SecretStr("another")},
        {"timeout": 3.0},
        {"max_attempts": 1},
        {"extra_headers": {"x-title": "me"}},
    ],
)
def test_what_cannot_does_not(changes: dict[str, Any]) -> None:
    assert identity_of(settings(**{**BASE, **changes})) == identity_of(settings(**BASE))


def test_the_wording_of_the_question_changes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    before = identity_of(settings(**BASE))
    monkeypatch.setattr(judging, "PREAMBLE", judging.PREAMBLE + " Be kind.")
    assert identity_of(settings(**BASE)) != before
    monkeypatch.undo()
    monkeypatch.setattr(judging.DecisionRequest, "instructions", lambda self, ref: f"And {ref}?")
    assert identity_of(settings(**BASE)) != before


def test_items_that_share_a_state_show_in_it() -> None:
    assert ":p2i12:" in identity_of(settings(**BASE, items_per_call=12))


def test_the_order_of_extra_fields_does_not_matter() -> None:
    one = settings(**BASE, extra_body={"user": "a", "provider": {"only": ["x"], "sort": "price"}})
    two = settings(**BASE, extra_body={"provider": {"sort": "price", "only": ["x"]}, "user": "a"})
    assert identity_of(one) == identity_of(two)
