"""How a System One judge is asked, checked once, at start.

Every problem is a `Misconfigured` that names the ``LETHELOG_JUDGE_*`` setting to change. A setting that could
change an answer is part of the judge's identity.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from ...domain.errors import LethelogError
from ...domain.judging import MAX_QUESTIONS, MAX_STATE_CHARS, JudgeRejected, JudgeUnavailable
from .endpoint import Endpoint, is_model_id

DEFAULT_PATH = "/v1/systemone"
LEAST_STATE_CHARS = 16_000
"""Room for any single item, all of whose texts are cut (behaviour.md 1.16)."""

_MOVING = frozenset({"latest", "preview", "auto", "default", "stable", "nightly"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemOneSettings(Endpoint):
    """One System One endpoint (judges.md 1.1, 1.2) and the bounds of one call to it.

    Raises `Misconfigured` when a value cannot work or would let an answer change unnoticed.
    """

    NOUN: ClassVar[str] = "judge"
    PREFIX: ClassVar[str] = "LETHELOG_JUDGE"
    EXAMPLE: ClassVar[str] = "https://api.typesafe.ai"
    EXAMPLE_MODEL: ClassVar[str] = "jev-1.14.0"
    USUAL_PATH: ClassVar[str] = DEFAULT_PATH
    KEYED_HOSTS: ClassVar[tuple[str, ...]] = ("api.typesafe.ai", "openrouter.ai")
    OWN_BODY_FIELDS: ClassVar[tuple[str, ...]] = ("model", "state", "questions")
    UNAVAILABLE: ClassVar[type[LethelogError]] = JudgeUnavailable
    REJECTED: ClassVar[type[LethelogError]] = JudgeRejected
    AFTERWARDS: ClassVar[str] = "Nothing was decided; the items are asked again later."
    FIXES: ClassVar[Mapping[int, str]] = MappingProxyType(
        {
            413: "Lower LETHELOG_JUDGE_ITEMS_PER_CALL.",
            501: "The model served there is no decision model; set LETHELOG_JUDGE_MODEL to one that is.",
        }
    )

    path: str = DEFAULT_PATH
    answers_as: tuple[str, ...] = ()
    """Further exact ids under which the server may name that same model, e.g. a dated snapshot."""
    allow_unpinned: bool = False
    """Accept a moving id such as ``jev-latest``. The first model that answers is then the only one accepted."""
    permute: bool = True
    """Ask every item in two orders (judges.md 4.4, position bias)."""
    items_per_call: int = 1
    """Items that share one state. Part of the identity: shared state changes answers (judges.md 4.4)."""
    max_state_chars: int = MAX_STATE_CHARS
    max_questions: int = MAX_QUESTIONS
    """Questions in one request, each order of an item counted (behaviour.md 1.16)."""

    def __post_init__(self) -> None:
        Endpoint.__post_init__(self)  # Without arguments `super` does not work in a dataclass with slots.
        _check_questions(self)

    def check_model(self) -> None:
        """Raise `Misconfigured` unless the model is pinned, or may move."""
        if not is_model_id(self.model):
            raise self.refusal(
                "MODEL", "missing or not a model id", f"Give a pinned id, e.g. {self.EXAMPLE_MODEL}"
            )
        if is_unpinned(self.model) and not self.allow_unpinned:
            raise self.refusal(
                "MODEL",
                f"{self.model} can come to mean another model, and thresholds belong to one",
                "Give a pinned id, or set LETHELOG_JUDGE_ALLOW_UNPINNED=true",
            )
        if not all(is_model_id(name) for name in self.answers_as):
            raise self.refusal("ANSWERS_AS", "holds something that is no model id", "List exact ids")

    @property
    def orders(self) -> int:
        """In how many orders each item is asked."""
        return 2 if self.permute else 1


def is_unpinned(model: str) -> bool:
    """Whether an id follows a moving target: OpenRouter's ``~`` aliases, and words such as ``latest``."""
    return model.startswith("~") or not _MOVING.isdisjoint(re.split(r"[-:/@._~+]", model.lower()))


def _check_questions(settings: SystemOneSettings) -> None:
    if not LEAST_STATE_CHARS <= settings.max_state_chars <= MAX_STATE_CHARS:
        raise settings.refusal(
            "MAX_STATE_CHARS",
            f"not between {LEAST_STATE_CHARS} and {MAX_STATE_CHARS}",
            f"The default is {MAX_STATE_CHARS}",
        )
    if not settings.orders <= settings.max_questions <= MAX_QUESTIONS:
        raise settings.refusal(
            "MAX_QUESTIONS",
            f"not between {settings.orders} and {MAX_QUESTIONS}",
            f"The default is {MAX_QUESTIONS}",
        )
    most = settings.max_questions // settings.orders
    if not 1 <= settings.items_per_call <= most:
        raise settings.refusal(
            "ITEMS_PER_CALL",
            f"not between 1 and {most}, the questions of one request over the orders asked",
            "The default is 1",
        )
