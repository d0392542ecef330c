"""What every measure is given, and the shape of a measure."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from .row import Row
from .servers import Servers

T = TypeVar("T")


@dataclass(frozen=True)
class Bench:
    """One run. ``pick`` chooses sizes: a short run measures the same on less."""

    servers: Servers
    quick: bool
    say: Callable[[str], None]
    """Tell whoever watches what is going on, in a few words."""

    def pick(self, full: T, quick: T) -> T:
        return quick if self.quick else full


@dataclass(frozen=True)
class Measure:
    """One or several figures that are measured together."""

    name: str
    title: str
    run: Callable[[Bench], Awaitable[list[Row]]]
    only_by_name: bool = False
    """Takes so long that a run of all leaves it out."""
