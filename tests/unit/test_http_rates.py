"""How often something may happen, and how much is remembered of it."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lethelog.handlers.http import rates
from lethelog.handlers.http.bounds import address_of
from lethelog.handlers.http.rates import WINDOW_SECONDS, Rates


def at(moment: float) -> SimpleNamespace:
    return SimpleNamespace(monotonic=lambda: moment)


def test_so_many_may_come_at_once_and_after_that_as_fast_as_the_rate_is(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rates, "time", at(100.0))
    held = Rates(2)
    assert [held.take("a") for _ in range(20)] == [0.0] * 20
    assert held.take("a") == held.wait("a") == pytest.approx(0.5)
    assert held.take("b") == 0.0
    monkeypatch.setattr(rates, "time", at(100.5))
    assert (held.take("a"), held.take("a")) == (0.0, pytest.approx(0.5))


@given(
    steps=st.lists(st.floats(min_value=0, max_value=3), max_size=200), rate=st.floats(min_value=0.2, max_value=20)
)
def test_in_no_span_more_are_taken_than_the_rate_and_what_may_come_at_once(steps: list[float], rate: float):
    with pytest.MonkeyPatch.context() as patch:
        held, now, taken = Rates(rate), 0.0, list[float]()
        for step in steps:
            now += step
            patch.setattr(rates, "time", at(now))
            if held.take("a") == 0:
                taken.append(now)
    for first, begin in enumerate(taken):
        for count, end in enumerate(taken[first:], 1):
            assert count <= rate * (end - begin + WINDOW_SECONDS) + 1


def test_what_is_remembered_of_others_is_bounded_and_the_oldest_goes_first(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rates, "time", at(100.0))
    held = Rates(0.1, kept=3)
    for key in ("a", "b", "c"):
        assert held.take(key) == 0
    assert held.take("a") > 0, "the control: it is remembered"
    assert held.take("d") == 0 and len(held) == 3
    assert held.wait("a") == 0 and held.wait("b") > 0


def test_an_address_is_one_subscriber_however_it_is_written():
    def of(*client: object) -> str:
        return address_of({"type": "http", "client": client or None})

    assert of("192.0.2.1", 1) == of("192.0.2.1", 2) == of("::ffff:192.0.2.1", 1) == "192.0.2.1"
    assert of("2001:db8:1:2::1", 1) == of("2001:db8:1:2:ffff::", 1) != of("2001:db8:1:3::1", 1)
    assert of("fe80::1%eth0", 1) == of("fe80::2", 1)
    assert of() == of("", 0) == of("made up", 1) == "unknown"
