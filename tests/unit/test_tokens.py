"""What a token looks like, and when it is valid."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lethelog.domain.errors import Conflict
from lethelog.domain.events import TokenIssued, TokenRevoked
from lethelog.domain.token import Token, decide_revoke, decide_rotate, evolve_token
from lethelog.handlers.access.token_text import PATTERN, TokenText, read_token

NOW = datetime(2026, 3, 1, 9, tzinfo=UTC)
TOKENS = st.builds(TokenText, st.uuids(), st.uuids(), st.binary(min_size=32, max_size=32))


def issued(**fields) -> Token:
    event = TokenIssued(actor_kind="agent", actor=UUID(int=7), permissions=("memory:read",), digest="d", **fields)
    return evolve_token(None, event, stream=UUID(int=1), version=1, recorded_at=NOW)


def rotated(state: Token, grace: float) -> tuple[TokenIssued, Token]:
    successor, event = decide_rotate(
        state, NOW, successor=UUID(int=2), digest="e", expires_at=None, grace=timedelta(seconds=grace)
    )
    return successor, evolve_token(state, event, stream=state.id, version=2, recorded_at=NOW)


@given(TOKENS)
def test_a_token_is_read_back_as_it_was_written_and_its_secret_is_not_shown(token: TokenText):
    text = token.write()
    assert PATTERN.fullmatch(text) and len(text) == 113
    assert read_token(text) == token
    assert token.secret.hex() not in repr(token) and text not in repr(token)


@given(TOKENS, st.integers(4, 112), st.sampled_from("abcdefghijklmnopqrstuvwxyz234567"))
def test_a_token_with_one_wrong_letter_is_told_to_be_damaged(token: TokenText, at: int, letter: str):
    text = token.write()
    damaged = text[:at] + letter + text[at + 1 :]
    # The last letter carries spare bits, which say nothing.
    assert damaged == text or read_token(damaged) in (None, token)
    assert at == 112 or damaged == text or read_token(damaged) is None


@pytest.mark.parametrize("wrong", ["", "lth_", "lth_" + "a" * 109, "lth_" + "A" * 109, "x" * 113])
def test_what_is_no_token_is_none(wrong: str):
    assert read_token(wrong) is None


def test_a_token_is_valid_until_it_expires_is_revoked_or_its_grace_is_over():
    assert issued().status(NOW + timedelta(days=10_000)) == "active"
    assert issued(expires_at=NOW).status(NOW) == "expired"
    successor, old = rotated(issued(), 60)
    assert (successor.actor, successor.permissions, successor.predecessor) == (
        UUID(int=7),
        ("memory:read",),
        UUID(int=1),
    )
    assert old.status(NOW + timedelta(seconds=59)) == "rotated"
    assert old.status(NOW + timedelta(seconds=60)) == "expired"
    ended = evolve_token(old, TokenRevoked(), stream=old.id, version=3, recorded_at=NOW)
    assert ended.status(NOW) == "revoked" and decide_revoke(ended) == []


def test_grace_never_lengthens_the_life_of_a_token():
    _, old = rotated(issued(expires_at=NOW + timedelta(seconds=5)), 60)
    assert old.expires_at == NOW + timedelta(seconds=5)


def test_only_an_active_token_is_rotated():
    for state in (rotated(issued(), 60)[1], issued(expires_at=NOW)):
        with pytest.raises(Conflict):
            rotated(state, 60)
