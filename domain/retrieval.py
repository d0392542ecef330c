"""The scope that a read is narrowed to by its tenant's retrieval policy (behaviour.md 1.11)."""

from collections.abc import Iterable
from dataclasses import dataclass

from .errors import InvalidInput
from .events import RetrievalMode

NAMED_SCOPES = 8
"""How many scopes a refusal names."""
FIRST_SCOPES = frozenset({"personal", "work"})
"""Every tenant has them (behaviour.md 1.2)."""


@dataclass(frozen=True, slots=True)
class RetrievalPolicy:
    """``scope`` stands exactly with the mode ``default``."""

    mode: RetrievalMode = "off"
    scope: str | None = None

    def applied(self, asked: str | None, known: Iterable[str]) -> str | None:
        """The scope that a read keeps to, which asked for this one or for none; None for all.

        Raises `InvalidInput` where one is required, naming some of those that are ``known``.
        """
        if asked is not None or self.mode == "off":
            return asked
        if self.mode == "default":
            return self.scope
        some = sorted(known)
        more = " and others" if len(some) > NAMED_SCOPES else ""
        raise InvalidInput(
            "scope",
            "is required: this tenant reads nothing without one",
            f"Give one of: {', '.join(some[:NAMED_SCOPES])}{more}",
        )


OFF = RetrievalPolicy()
"""What holds until somebody changes it."""
