"""The same for programs without asyncio: see `handlers.analytics.doors`."""

from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar, Unpack

from ..arguments import AnyInstant, ReadFields
from ..whatif.asking import Report
from ..whatif.views import WhatIfReport
from ..whatif.whatif import silent
from .doors import AsyncAnalyticsDoor, WhatIfFields
from .views import ReviewStats

T = TypeVar("T")


class BlockingAnalyticsDoor(ABC):
    """Waits for each answer of the asyncio door."""

    @property
    @abstractmethod
    def _analyst(self) -> AsyncAnalyticsDoor:
        """The asyncio door."""

    @abstractmethod
    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the asyncio door and wait for it."""

    def review_stats(self, *, since: AnyInstant | None = None, **waiting: Unpack[ReadFields]) -> ReviewStats:
        """See `AsyncMemory.review_stats`."""
        return self.run(self._analyst.review_stats(since=since, **waiting))

    def what_if(
        self,
        *,
        policy: Mapping[str, Any] | None = None,
        report: Report = silent,
        **other: Unpack[WhatIfFields],
    ) -> WhatIfReport:
        """See `AsyncMemory.what_if`."""
        return self.run(self._analyst.what_if(policy=policy, report=report, **other))
