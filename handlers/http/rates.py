"""How often something may happen, by key, in memory that is bounded."""

import time
from collections import OrderedDict

WINDOW_SECONDS = 10
"""Over which a rate is held: so much of it may come at once."""
KEYS_KEPT = 10_000


class Rates:
    """A rate for each key, by the generic cell rate algorithm (ITU-T I.371): one moment is kept of each.

    Of more keys than are kept, those that were seen longest ago are forgotten, whose moment has mostly passed.
    """

    def __init__(self, per_second: float, kept: int = KEYS_KEPT) -> None:
        self._apart = 1 / per_second
        self._kept = kept
        self._due: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._due)

    def wait(self, key: str) -> float:
        """Seconds until one more is taken: 0 where it may be now."""
        return max(0.0, self._due.get(key, 0.0) + self._apart - WINDOW_SECONDS - time.monotonic())

    def take(self, key: str) -> float:
        """The same; where it may be now, it is counted."""
        seconds = self.wait(key)
        if not seconds:
            self._due[key] = max(self._due.get(key, 0.0), time.monotonic()) + self._apart
            self._due.move_to_end(key)
            if len(self._due) > self._kept:
                self._due.popitem(last=False)
        return seconds
