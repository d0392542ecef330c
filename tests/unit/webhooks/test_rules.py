"""What a webhook is sent, by which secrets, and when it is tried again."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lethelog.domain.errors import Conflict, InvalidInput
from lethelog.domain.events import Event, WebhookDisabled, WebhookRegistered
from lethelog.domain.webhook import (
    MOST_EARLIER,
    Webhook,
    chosen_names,
    decide_change,
    decide_disable,
    decide_enable,
    decide_remove,
    decide_rotate,
    evolve_webhook,
)
from lethelog.handlers.webhooks.sending import Answer
from lethelog.handlers.webhooks.settings import DELAYS
from lethelog.handlers.webhooks.worker import delay_after

AT = datetime(2026, 3, 1, 9, tzinfo=UTC)
FAILING = WebhookDisabled(reason="failing")


def registered(names: tuple[str, ...] = ("proposal.*",)) -> Webhook:
    event = WebhookRegistered(names=names, url="u", secret="first")
    return evolve_webhook(None, event, stream=UUID(int=1), version=1, recorded_at=AT)


def after(state: Webhook, events: list[Event], at: datetime = AT) -> Webhook:
    for event in events:
        state = evolve_webhook(state, event, stream=state.id, version=state.version + 1, recorded_at=at)
    return state


def test_a_family_stands_for_all_its_names_but_dismissals():
    one = registered(("proposal.*", "pass.completed"))
    assert one.wants("proposal.staged") and one.wants("proposal.edge_staged") and one.wants("pass.completed")
    assert not one.wants("pass.started") and not one.wants("proposal.dismissed") and not one.wants("proposals.x")
    assert registered(("proposal.dismissed",)).wants("proposal.dismissed")


@pytest.mark.parametrize(
    "name", ["memory.*", "*", "proposal", "proposal.no_such", "token.issued", "webhook.*", "", "pass.*x"]
)
def test_names_that_nothing_is_sent_for_are_refused(name: str):
    with pytest.raises(InvalidInput) as refused:
        chosen_names(("proposal.*", name))
    assert refused.value.field == "names"


def test_the_secret_before_signs_until_its_time_is_over():
    one = after(registered(), decide_rotate(registered(), AT, secret="second", overlap=timedelta(hours=1)))
    assert one.secrets(AT) == ("second", "first")
    assert one.secrets(AT + timedelta(hours=1)) == ("second",)


def rotated(state: Webhook, secret: str, at: datetime, overlap: timedelta) -> Webhook:
    return after(state, decide_rotate(state, at, secret=secret, overlap=overlap), at)


def test_a_rotation_that_is_tried_again_leaves_the_secret_that_receivers_know_its_time():
    """The answer of the first one was lost, so nobody knows the second secret."""
    day, hour = timedelta(days=1), timedelta(hours=1)
    one = rotated(rotated(registered(), "second", AT, day), "third", AT + hour, day)
    assert one.secrets(AT + hour) == ("third", "second", "first")
    assert one.secrets(AT + day) == ("third", "second"), "no longer than it was said"
    assert one.signs_twice_until(AT + day) == AT + day + hour
    assert one.secrets(AT + day + hour) == ("third",) and one.signs_twice_until(AT + day + hour) is None


def test_a_rotation_without_overlap_ends_every_secret_before():
    one = rotated(registered(), "second", AT, timedelta(days=1))
    assert rotated(one, "third", AT, timedelta(0)).secrets(AT) == ("third",)


@given(st.lists(st.sampled_from(["rotate", "disable", "enable", "change", "remove"]), max_size=12))
def test_whatever_is_done_with_a_webhook_it_is_active_only_enabled_and_not_removed(steps: list[str]):
    state, enabled, removed, secret = registered(), True, False, "first"
    for number, step in enumerate(steps):
        decide = {
            "rotate": lambda one: decide_rotate(one, AT, secret=f"s{number}", overlap=timedelta(hours=1)),  # noqa: B023
            "disable": lambda one: decide_disable(one, FAILING),
            "enable": decide_enable,
            "change": lambda one: decide_change(one, ("pass.*",), None),
            "remove": decide_remove,
        }[step]
        if removed and step in ("rotate", "enable", "change"):
            with pytest.raises(Conflict):
                decide(state)
            continue
        state = after(state, decide(state))
        enabled = {"disable": False, "enable": True}.get(step, enabled)
        removed = removed or step == "remove"
        secret = f"s{number}" if step == "rotate" else secret
    assert state.active == (enabled and not removed) and state.removed == removed
    assert state.secrets(AT)[0] == secret and len(state.secrets(AT)) <= 1 + MOST_EARLIER


def test_ten_attempts_are_made_and_no_more():
    waits = [delay_after(failures, Answer("500")) for failures in range(1, 11)]
    assert waits == [*DELAYS, None]
    assert waits[0] == 5 and waits[8] == 86_400, "from seconds to a day"


@pytest.mark.parametrize(("asked", "waits"), [(None, 5), (2.0, 5), (600.0, 600), (10**9, 86_400)])
def test_a_receiver_that_asks_for_time_is_given_it_up_to_a_day(asked: float | None, waits: float):
    assert delay_after(1, Answer("429", asked)) == waits
