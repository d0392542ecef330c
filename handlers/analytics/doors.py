"""The part of the Python doors that tells how reviewing goes, and what would have been otherwise."""

from collections.abc import Mapping
from typing import Any, TypedDict, Unpack

from ..access.caller import Caller
from ..arguments import AnyInstant, ReadFields
from ..whatif.asking import Report
from ..whatif.views import WhatIfReport
from ..whatif.whatif import WhatIf, silent
from .review_stats import ReviewFigures
from .views import ReviewStats


class WhatIfFields(TypedDict, total=False):
    """What is to be different: thresholds, or the judge, which thresholds may go with."""

    archive: float
    supersede: float
    conflict: float
    judge: str
    since: AnyInstant
    passes: int
    questions: int
    after: int


class AsyncAnalyticsDoor:
    """Figures of the review desk."""

    position: int
    _figures: ReviewFigures
    _what_if: WhatIf

    async def caller(self) -> Caller:
        """Who calls; whoever has this door says so."""
        raise NotImplementedError

    def _dated(self, given: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
        """The arguments of a read; whoever has this door says so."""
        raise NotImplementedError

    async def review_stats(self, *, since: AnyInstant | None = None, **waiting: Unpack[ReadFields]) -> ReviewStats:
        """Since a moment, 30 days by default: waits, acceptance, reversals, disagreement, cost."""
        return await self._figures.stats(await self.caller(), self._dated(waiting, since=since))

    async def what_if(
        self,
        *,
        policy: Mapping[str, Any] | None = None,
        report: Report = silent,
        **other: Unpack[WhatIfFields],
    ) -> WhatIfReport:
        """What passes would have proposed under other thresholds, another policy or another judge, and how often
        reviewers had agreed.

        Only another judge is asked anything: recorded questions it never answered, with the tenant's opt-in, out
        of its budget and on record. Nothing is ever proposed by it.
        """
        done = await self._what_if.replay(await self.caller(), self._dated(other), policy, report)
        self.position = max(self.position, done.position)
        return done
