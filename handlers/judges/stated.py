"""The judge ``stated`` behind the `Judge` port: offline, unmetered, and answering every item it is asked."""

from ...domain.judging import DecisionRequest, DecisionResult, JudgeLimits
from ...domain.stated import IDENTITY, answer_item


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

    async def close(self) -> None:
        """Nothing to close."""
