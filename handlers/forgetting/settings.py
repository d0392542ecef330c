"""What a process needs to take part in forgetting passes."""

import hashlib
from dataclasses import dataclass

from ...domain.closing import SessionJudge
from ...domain.thresholds import Thresholds

ITEMS_PER_TASK = 10
"""Items one task hands to a judge worker; small enough that several workers share a pass."""


def task_queue(judge_identity: str) -> str:
    """The work queue of one judge: only workers that have exactly this judge take its tasks."""
    return f"judge-{hashlib.sha256(judge_identity.encode()).hexdigest()[:12]}"


@dataclass(frozen=True, slots=True)
class PassSettings:
    """Judge, thresholds and flag of this deployment."""

    judge: SessionJudge
    """Asked by passes; the session closer asks the same one."""
    thresholds: Thresholds
    default_floor: float
    """Floor selected for the embedding model; a tenant's policy may set another."""
    enabled: bool = False
    """Deployment flag of the *schedule* (``LETHELOG_FORGETTING_PASS_ENABLED``); off by default."""


def proposes_nothing_because(settings: PassSettings) -> str | None:
    """Why no verdict of this judge can become a proposal, or None."""
    if settings.judge.unavailable_because is not None:
        return settings.judge.unavailable_because
    thresholds = settings.thresholds
    if thresholds.archive is None and thresholds.supersede is None and thresholds.conflict is None:
        return (
            f"no thresholds were selected for the judge {settings.judge.identity}, so nobody knows from which "
            "probability on it is right. Name a file of thresholds in LETHELOG_JUDGE_THRESHOLDS, or set "
            "LETHELOG_JUDGE_STARTING_VALUES=true to propose by values that nobody measured"
        )
    return None
