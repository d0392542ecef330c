"""Every error a user of Lethelog can meet.

Each carries a stable ``code`` (the reasons of behaviour.md 1.18), a message that says what was wrong, where,
and what to do, and never any content of a memory: messages reach logs and answers, content must not.
"""

from datetime import datetime
from uuid import UUID


class LethelogError(Exception):
    """Root of all errors raised on purpose. ``code`` is stable, ``details`` is safe to show and to log."""

    code = "error"

    def __init__(self, message: str, **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.details = details

    def as_dict(self) -> dict[str, object]:
        """The error as JSON-ready data, for ``--json`` and for doors that answer over a wire."""
        shown = {name: _plain(value) for name, value in self.details.items() if value is not None}
        return {"code": self.code, "message": self.message, **shown}


def with_article(noun: str) -> str:
    """``a memory``, ``an erasure``."""
    return f"{'an' if noun[:1] in tuple('aeiou') else 'a'} {noun}"


class InvalidInput(LethelogError):
    """An argument breaks a rule of the input boundary (behaviour.md 1.3). Nothing was changed."""

    code = "invalid_input"

    def __init__(self, field: str, problem: str, fix: str = "") -> None:
        super().__init__(f"{field}: {problem}" + (f". {fix}" if fix else ""), field=field, problem=problem)
        self.field = field
        self.problem = problem


class NotFound(LethelogError):
    """No such thing for this caller; an unknown id and a foreign one answer alike (behaviour.md 1.1.7)."""

    code = "not_found"


_WORDS = {"consolidation": "consolidation pass", "session": "session run", "archive": "export or import"}
"""Kinds that people call otherwise than the names of their events do."""


class WrongKind(LethelogError):
    """The id exists and is of another kind, e.g. a proposal's where a memory's is asked for (F50)."""

    code = "wrong_kind"

    @classmethod
    def of(cls, one: UUID, kind: str, wanted: str, **details: object) -> "WrongKind":
        """The error for an id of another kind than was wanted."""
        is_one, not_one = (with_article(_WORDS.get(noun, noun)) for noun in (kind, wanted))
        said = f"{one} is the id of {is_one}, not of {not_one}"
        field = details.get("field")
        return cls(f"{field}: {said}" if field else said, id=one, kind=kind, **details)


class Conflict(LethelogError):
    """The thing changed meanwhile, or is in a state that refuses this. Carries the current version if known."""

    code = "conflict"


class InvalidTransition(Conflict):
    """A commitment cannot go from the status it has to the one that was asked for (behaviour.md 1.5)."""

    code = "invalid_transition"


class Erased(Conflict):
    """It was erased, for good: what is on record is a skeleton of ids, types and times."""

    code = "erased"


class StaleProposal(Conflict):
    """A memory moved on since the proposal saw it (settlement 6). The proposal stays open, shown as stale."""

    code = "stale_proposal"


class KeyReused(Conflict):
    """The command key was used before, for another command."""

    code = "key_reused"


class JudgingOff(Conflict):
    """The tenant does not allow that its texts are put before a judge or an extractor (settlement 13)."""

    code = "judging_off"


class TextTooLong(Conflict):
    """The text is longer than what is put before an extractor, which reads none in part."""

    code = "text_too_long"


class AccessDenied(LethelogError):
    """The caller's credential lacks the scope this needs."""

    code = "access_denied"


class InvalidCredential(LethelogError):
    """The caller showed no valid credential. Says which kind of trouble it is, and nothing of the credential."""

    code = "invalid_credential"


class BudgetExceeded(LethelogError):
    """The tenant's budget for this operation is used up; nothing was sent."""

    code = "budget_exceeded"


class QuotaExceeded(LethelogError):
    """The tenant's policy allows no more memories, or no more in this minute; nothing was written."""

    code = "quota_exceeded"


class Unavailable(LethelogError):
    """A server this needs does not answer. Nothing is half-done; the same command may be tried again."""

    code = "unavailable"


class NotCaughtUp(Unavailable):
    """A read model did not reach the asked position within the time allowed."""

    code = "not_caught_up"


class TooManyStreams(Unavailable):
    """As many streams, replays or archives of this caller are under way as one may have; end one, or try later."""

    code = "too_many_streams"


class EventParked(Unavailable):
    """It is on record, and a read model could not apply it and set it aside: the answer would be wrong."""

    code = "event_parked"


class ExtractorUnavailable(Unavailable):
    """The extractor could not be asked just now (connection, 408, 429, 5xx, deadline); nothing was proposed."""

    code = "extractor_unavailable"


class ExtractorRejected(LethelogError):
    """The extractor refused the request itself (bad key, unknown model). Asking again does not help."""

    code = "extractor_rejected"


class ExtractorMalformed(LethelogError):
    """The extractor answered something that is no answer. It was billed, and no fact was taken from it."""

    code = "extractor_malformed"


class Misconfigured(LethelogError):
    """A setting, file or installed part does not fit; the message names it and the fix."""

    code = "misconfigured"


def _plain(value: object) -> object:
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    return value
