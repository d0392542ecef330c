"""How long an erasure takes from asking for it to being verified: what grows with the log, what with the memories.

Rows carry no vectors here, so that filling takes minutes and not hours; deleting them would come on top.
"""

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

from ...handlers.access.caller import Caller
from ...handlers.engine import Engine
from ...handlers.erasure.erasures import Erasures
from ...handlers.erasure.means import ErasureMeans
from ...projections.runner import ProjectionRunner
from ...streams import sealing
from ...streams.erasure_ledger import Ledger
from ...streams.signing import SigningKey
from .bench import Bench
from .loading import PAGE, append
from .no_vectors import NoVectors
from .rounds import Turn, alternate
from .row import Row
from .sample import Writer

_SETTLE = "erase asked for until verified, every place looked at again, without vectors"


@dataclass
class _Filled:
    """A tenant with an engine of its own, filled through the log in pages."""

    engine: Engine
    writer: Writer = field(default_factory=Writer)

    @property
    def caller(self) -> Caller:
        return Caller(self.writer.tenant, self.writer.actor)

    async def open(self) -> None:
        await self.engine.tenants.ensure(self.writer.tenant, self.writer.actor)

    async def remember(self, memories: int, subject: str | None = None) -> list[UUID]:
        """So many memories, of a person where one is named; returns their ids."""
        who = None
        if subject is not None:
            who = await self.engine.directory.register(self.writer.tenant, "user", subject)
        written: list[UUID] = []
        for done in range(0, memories, PAGE):
            unit = self.writer.remember(*self.writer.texts(min(PAGE, memories - done)), user=who)
            await append(self.engine.log, unit)
            written += [new.stream for new in unit.events]
        return written

    async def catch_up(self) -> int:
        """Every read model holds all of the log; returns how long that is."""
        engine, head = self.engine, await self.engine.log.head()
        for one in engine.projections:
            await ProjectionRunner(engine.database, engine.log, engine.tail, one).catch_up(head)
        return head

    async def erase(self, memories: int, **what: object) -> float:
        """Seconds from asking for it until it is verified; what it reaches was looked at before."""
        erasures = Erasures(self.engine)
        preview = await erasures.preview(self.caller, what)
        began = time.perf_counter()
        done = await erasures.erase(self.caller, {"erasure_id": preview.id, "reason": "measured"})
        took = time.perf_counter() - began
        assert done.verified and done.memories == memories, done
        return took


@asynccontextmanager
async def _filled(bench: Bench) -> AsyncGenerator[_Filled]:
    with TemporaryDirectory(prefix="lethelog-bench-") as folder:
        means = ErasureMeans(Ledger(Path(folder) / "erasures.ledger"), SigningKey(sealing.new_key()))
        async with bench.servers.engine(NoVectors(), means) as engine:
            filled = _Filled(engine)
            await filled.open()
            yield filled


async def erasure(bench: Bench) -> list[Row]:
    """One memory in a long log and in a short one; a person of many memories and one of few, in the long log."""
    long, short, rounds = bench.pick(20_000, 400), bench.pick(2_000, 100), bench.pick(5, 2)
    many, few = bench.pick(1_000, 50), bench.pick(100, 5)
    persons = range(-1, rounds)
    async with _filled(bench) as large, _filled(bench) as small:
        heads: dict[str, int] = {}
        turns: dict[str, Turn] = {}
        for name, filled, memories in (("long", large, long), ("short", small, short)):
            bench.say(f"filling a log with {memories:,} memories")
            left = await filled.remember(memories)
            if filled is large:
                for number in persons:
                    await filled.remember(many, f"many {number}")
                    await filled.remember(few, f"few {number}")
            heads[name] = await filled.catch_up()
            turns[name] = lambda filled=filled, left=left: filled.erase(1, memory_id=left.pop())
        bench.say("erasing")
        of_one = await alternate(turns, rounds)
        waiting = {name: [f"{name} {number}" for number in persons] for name in ("many", "few")}
        of_persons = await alternate(
            {
                "many": lambda: large.erase(many, subject=waiting["many"].pop()),
                "few": lambda: large.erase(few, subject=waiting["few"].pop()),
            },
            rounds,
        )
        flush = bench.servers.flush_ms()
    return [
        Row(
            name="erasure.memory",
            figure=of_one.median("long") * 1_000,
            unit="ms",
            says=f"one memory, {_SETTLE}, in a log of {heads['long']:,} events",
            baseline=of_one.median("short") * 1_000,
            against=f"the same in a log of {heads['short']:,} events",
            flush_ms=flush,
            n=rounds,
            spread=of_one.spread("long", "short"),
        ),
        Row(
            name="erasure.subject",
            figure=of_persons.median("many") * 1_000,
            unit="ms",
            says=f"a person of {many:,} memories, {_SETTLE}, in a log of {heads['long']:,} events",
            baseline=of_persons.median("few") * 1_000,
            against=f"a person of {few:,} memories in the same log",
            flush_ms=flush,
            n=rounds,
            spread=of_persons.spread("many", "few"),
        ),
    ]


async def tenant(bench: Bench) -> list[Row]:
    """A whole tenant of many memories, and one of a tenth of them; each once, since nothing is left of it."""
    many = bench.pick(100_000, 500)
    took: dict[int, float] = {}
    heads: dict[int, int] = {}
    for memories in (many // 10, many):
        async with _filled(bench) as filled:
            bench.say(f"filling a log with {memories:,} memories")
            await filled.remember(memories)
            heads[memories] = await filled.catch_up()
            bench.say(f"erasing a tenant of {memories:,} memories")
            took[memories] = await filled.erase(memories, tenant=True)
    return [
        Row(
            name="erasure.tenant",
            figure=took[many],
            unit="s",
            says=f"a tenant of {many:,} memories, {_SETTLE}, in a log of {heads[many]:,} events",
            baseline=took[many // 10],
            against=f"a tenant of {many // 10:,} memories in a log of its own",
            flush_ms=bench.servers.flush_ms(),
            n=1,
            detail={"memories a second": many / took[many]},
        )
    ]
