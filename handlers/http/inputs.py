"""What some routes take that the Python door takes as plain arguments."""

from typing import Any, Literal

from pydantic import Field

from ...domain.commands import Remember, RememberImported
from ...domain.fields import Id, Input, KnownAt, Reason, Topic
from ..as_of import Timed
from ..briefing import BriefingQuery
from ..whatif.whatif import WhatIfQuery


class Nothing(Input):
    """No arguments."""


class RememberBody(Remember):
    """Write a new memory; the topic is taken from the content where none is given."""

    topic: Topic | None = None  # pyright: ignore[reportIncompatibleVariableOverride] - optional only here


class ImportBody(RememberImported):
    """The same for what was written elsewhere: longer content, own date."""

    topic: Topic | None = None  # pyright: ignore[reportIncompatibleVariableOverride] - optional only here


class RememberManyBody(Input):
    """Memories to write, each by the ordinary rules and with its own result."""

    items: tuple[dict[str, Any], ...] = Field(min_length=1, max_length=100)
    """What `POST /memories` takes, up to 100 times."""


class ArchiveManyBody(Input):
    """Memories to put away, each with its own result."""

    memory_ids: tuple[Id, ...] = Field(min_length=1, max_length=100)
    reason: Reason | None = None
    session_run_id: Id | None = None


class OneMemory(Timed):
    """One memory, at the times that are given."""

    memory_id: Id


class HandoffQuery(BriefingQuery):
    """What a handoff is about."""

    mode: Literal["handoff"] = "handoff"  # pyright: ignore[reportIncompatibleVariableOverride] - one of them


class StartPass(Input):
    """Ask for a pass now, and wait so long for its end."""

    wait_seconds: float | None = Field(default=None, ge=0, le=60, allow_inf_nan=False)


class WaitForPass(Input):
    """Which pass, and how long to wait for its end."""

    pass_id: Id
    seconds: float = Field(ge=0, le=300, allow_inf_nan=False)


class SetJudgment(Input):
    """Whether judging is allowed."""

    enabled: bool = Field(strict=True)


class SetPolicy(Input):
    """Fields of the forgetting policy that change; the others stay."""

    changes: dict[str, Any]


class WhatIfBody(WhatIfQuery):
    """What is to be different; ``policy`` holds fields of the forgetting policy."""

    policy: dict[str, Any] | None = None


class CertificateBody(Input):
    """A certificate of erasure, as it was given."""

    document: dict[str, Any]


class ReplayBody(Input):
    """Up to where the log is folded."""

    to: KnownAt
