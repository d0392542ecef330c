"""Taking turns: what is compared runs again and again in one process, so that both see the same machine."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from statistics import median

Turn = Callable[[], Awaitable[float]]
"""One measured turn; gives its figure."""


@dataclass(frozen=True, slots=True)
class Turns:
    """Figures of several subjects, round by round."""

    figures: Mapping[str, list[float]]

    def median(self, subject: str) -> float:
        return median(self.figures[subject])

    def spread(self, subject: str, baseline: str | None = None) -> tuple[float, float]:
        """Lowest and highest figure of one round, or ratio to the baseline's of the same round."""
        mine = self.figures[subject]
        if baseline is not None:
            mine = [a / b for a, b in zip(mine, self.figures[baseline], strict=True)]
        return min(mine), max(mine)


async def alternate(subjects: Mapping[str, Turn], rounds: int, *, warm_up: bool = True) -> Turns:
    """Run every subject once per round, each round beginning with another one; a first round may be left out."""
    names = list(subjects)
    figures: dict[str, list[float]] = {name: [] for name in names}
    for number in range(-1 if warm_up else 0, rounds):
        for place in range(len(names)):
            name = names[(number + place) % len(names)]
            figure = await subjects[name]()
            if number >= 0:
                figures[name].append(figure)
    return Turns(figures)
