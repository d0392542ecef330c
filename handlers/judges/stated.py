"""The judge ``stated`` behind the `Judge` port: offline, unmetered, and answering every item it is asked."""

from ...domain.closing import ResolutionRequest
from ...domain.judging import DecisionRequest, DecisionResult, JudgeLimits, JudgeRejected
from ...domain.stated import IDENTITY, answer_item

NO_RULE = (
    "the local rule reads what ends a memory, not whether something was done; the session closer needs "
    "LETHELOG_JUDGE=systemone"
)


class StatedJudge:
    """Answers by the rule of `domain.stated`; nothing leaves the process and nothing costs anything."""

    def __init__(self, limits: JudgeLimits | None = None) -> None:
        self._limits = limits or JudgeLimits()

    @property
    def name(self) -> str:
        return "stated"

    @property
    def identity(self) -> str:
        return IDENTITY

    @property
    def metered(self) -> bool:
        return False

    @property
    def unavailable_because(self) -> str | None:
        return None

    @property
    def limits(self) -> JudgeLimits:
        return self._limits

    async def decide(self, request: DecisionRequest) -> DecisionResult:
        """Answer every item by what its memories state."""
        answers = {item.ref: answer_item(item, request.now) for item in request.items}
        return DecisionResult(answers=answers, model=IDENTITY)

    @property
    def closes_nothing_because(self) -> str | None:
        """No rule for it was measured, and what it said would act unreviewed."""
        return NO_RULE

    async def decide_resolution(self, request: ResolutionRequest) -> DecisionResult:
        """Raises `JudgeRejected`, always."""
        raise JudgeRejected(NO_RULE)

    async def close(self) -> None:
        """Nothing to close."""
