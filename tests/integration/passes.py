"""What the tests of forgetting passes share: judges that answer as told, and workers around a world."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from lethelog.domain.answers import validate_answer
from lethelog.domain.closing import ResolutionItem, ResolutionRequest
from lethelog.domain.judging import (
    DecisionRequest,
    DecisionResult,
    Item,
    JudgeLimits,
    JudgeRejected,
    JudgeUnavailable,
    NoVerdict,
    PairItem,
)
from lethelog.domain.thresholds import Thresholds, starting_thresholds
from lethelog.handlers.forgetting.requesting import Passes
from lethelog.handlers.forgetting.settings import PassSettings
from lethelog.handlers.operating.views import PassView
from lethelog.handlers.operating.workers import ALL_ROLES, Workers
from lethelog.streams.broker import BrokerSettings

Opinion = Callable[[Item], str | NoVerdict | Mapping[str, float]]
"""What a judge says about an item: the key it is sure of, a whole map, or nothing usable."""


def keep(item: Item) -> str:
    return next(iter(item.options))


@dataclass
class ToldJudge:
    """A judge of the tests' own: answers by a function, counts its calls, and can be held or be down."""

    opinion: Opinion = keep
    metered: bool = True
    identity: str = "told:1"
    name: str = "systemone"
    unavailable_because: str | None = None
    limits: JudgeLimits = field(default_factory=JudgeLimits)
    calls: list[DecisionRequest] = field(default_factory=list)
    down: bool = False
    released: asyncio.Event | None = None
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def decide(self, request: DecisionRequest) -> DecisionResult:
        self.calls.append(request)
        self.asked.set()
        if self.released is not None:
            await self.released.wait()
        if self.down:
            raise JudgeUnavailable("down")
        answers = {}
        for item in request.items:
            said = self.opinion(item)
            if isinstance(said, NoVerdict):
                answers[item.ref] = said
                continue
            chances = (
                dict(said) if isinstance(said, Mapping) else {key: float(key == said) for key in item.options}
            )
            answers[item.ref] = validate_answer(max(chances, key=chances.__getitem__), chances, item.options)
        return DecisionResult(answers=answers, model="told-1.0", input_tokens=10, output_tokens=2)

    async def close(self) -> None:
        pass

    @property
    def judged(self) -> set[UUID]:
        """Every memory a verdict was asked about."""
        found = set()
        for request in self.calls:
            for item in request.items:
                found.add(item.older.memory_id if isinstance(item, PairItem) else item.memory.memory_id)
        return found


@dataclass
class ToldCloser(ToldJudge):
    """A judge that says with what probability a commitment is done; or nothing usable."""

    sure: float | NoVerdict | Callable[[ResolutionItem], float] = 1.0
    closes_nothing_because: str | None = None
    rejects: bool = False

    async def decide_resolution(self, request: ResolutionRequest) -> DecisionResult:
        if self.rejects:
            raise JudgeRejected("no")
        self.opinion = self._opinion
        return await self.decide(request)

    def _opinion(self, item):
        said = self.sure(item) if callable(self.sure) else self.sure
        return said if isinstance(said, NoVerdict) else {"not_done": 1 - said, "done": said}

    @property
    def asked_about(self) -> list[UUID]:
        """The commitments' memories, in the order asked."""
        return [item.commitment.memory_id for call in self.calls for item in call.items]


def sure(action: str, chance: float = 1.0) -> Opinion:
    """The same action for every item that offers it, keep for the others."""

    def opinion(item: Item):
        key = next((option for option in item.options if option.startswith(action)), None)
        if key is None:
            return keep(item)
        rest = (1.0 - chance) / (len(item.options) - 1)
        return {option: chance if option == key else rest for option in item.options}

    return opinion


def pass_settings(
    judge, thresholds: Thresholds | None = None, floor: float = 0.0, enabled: bool = False
) -> PassSettings:
    return PassSettings(
        judge=judge,
        thresholds=thresholds or starting_thresholds(judge.identity),
        default_floor=floor,
        enabled=enabled,
    )


@asynccontextmanager
async def working(
    world, broker: BrokerSettings, settings: PassSettings, roles=ALL_ROLES
) -> AsyncGenerator[Workers]:
    workers = Workers(world.engine, broker=broker, passes=settings, roles=roles)
    await workers.open()
    try:
        yield workers
    finally:
        await workers.close()


async def finish(world, settings: PassSettings, view: PassView, seconds: float = 30) -> PassView:
    """The pass when it is closed and its proposals are in the queue."""
    passes = Passes(world.engine, settings)
    async with asyncio.timeout(seconds):
        while view.phase not in ("completed", "failed"):
            await asyncio.sleep(0.02)
            view = await passes.show(world.caller, {"pass_id": view.id})
    head = await world.engine.log.head()
    await world.reading.list(world.caller, {"after": head})
    await world.reviewing.list(world.caller, {"after": head})
    return view


async def run_pass(world, broker: BrokerSettings, judge, **settings) -> PassView:
    """One pass from request to end, with workers of its own."""
    ready = pass_settings(judge, **settings)
    async with working(world, broker, ready):
        view = await Passes(world.engine, ready).request(world.caller)
        return await finish(world, ready, view)


async def old(world, content: str, days: float = 40, **fields) -> UUID:
    """A memory said some days ago."""
    fields.setdefault("memory_type", "decision")
    return await world.remember(content, occurred_at=world.clock.now - timedelta(days=days), **fields)
