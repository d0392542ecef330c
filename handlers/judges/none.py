"""No judge: the pass proposes nothing, and says why."""

from ...domain.closing import ResolutionRequest
from ...domain.errors import Misconfigured
from ...domain.judging import DecisionRequest, DecisionResult, JudgeLimits, JudgeRejected

NOT_CHOSEN = "No judge is configured (LETHELOG_JUDGE=none), so nothing is judged and nothing is proposed."


class NoJudge:
    """Stands where a judge would, and never answers. Keeping it is a choice, not a fallback."""

    def __init__(self, reason: str = NOT_CHOSEN) -> None:
        if not reason.strip():
            raise Misconfigured("The reason why there is no judge must say something.")
        self._reason = reason

    @property
    def name(self) -> str:
        return "none"

    @property
    def identity(self) -> str:
        return "none"

    @property
    def metered(self) -> bool:
        return False

    @property
    def unavailable_because(self) -> str | None:
        """Why nothing is proposed; shown by passes and by ``doctor``."""
        return self._reason

    @property
    def limits(self) -> JudgeLimits:
        return JudgeLimits()

    async def decide(self, request: DecisionRequest) -> DecisionResult:
        """Raises `JudgeRejected`, always: an answer made up here would be a verdict nobody gave (F34)."""
        raise JudgeRejected(self._reason)

    @property
    def closes_nothing_because(self) -> str | None:
        return self._reason

    async def decide_resolution(self, request: ResolutionRequest) -> DecisionResult:
        """Raises `JudgeRejected`, always, too."""
        raise JudgeRejected(self._reason)

    async def close(self) -> None:
        return None
