"""What a quota costs on append, where each unit of a commit is judged beside those that stand before it."""

import os
from contextlib import AsyncExitStack
from dataclasses import replace

from ...streams.log import Limits
from .append import CALLERS
from .bench import Bench
from .callers import by_tasks
from .loading import append, open_log
from .rounds import Turn, Turns, alternate
from .row import Row
from .sample import Writer

_NEVER_REACHED = Limits(live_memories=2_000_000_000, writes_per_minute=2_000_000_000)


async def costs(bench: Bench) -> list[Row]:
    """Append by one caller and by many, for a tenant with both quotas and for one without."""
    each, rounds = bench.pick(150, 30), bench.pick(9, 2)
    at_once = bench.pick(1_280, 128)
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(bench.servers.database())
        log = await stack.enter_async_context(open_log(url, os.urandom(32)))
        limited, free = Writer(), Writer()

        async def appended(writer: Writer, limits: Limits | None, number: int, callers: int) -> float:
            driven = await by_tasks(
                writer.texts(number),
                callers,
                lambda text: append(log, replace(writer.remember(text), limits=limits)),
            )
            return driven.rate()

        async def compared(number: int, callers: int) -> Turns:
            subjects: dict[str, Turn] = {
                "with": lambda: appended(limited, _NEVER_REACHED, number, callers),
                "without": lambda: appended(free, None, number, callers),
            }
            return await alternate(subjects, rounds)

        measured = {1: (each, await compared(each, 1)), CALLERS: (at_once, await compared(at_once, CALLERS))}
        flush = bench.servers.flush_ms()
    return [
        Row(
            name=f"quota.append.{'one' if callers == 1 else callers}",
            figure=turns.median("with"),
            unit="events/s",
            says=f"append, one event each, by {'one caller' if callers == 1 else f'{callers} tasks'} of a tenant "
            "with a quota of live memories and of writes per minute, neither reached",
            baseline=turns.median("without"),
            against="the same for a tenant without quotas",
            flush_ms=flush,
            n=number * rounds,
            spread=turns.spread("with", "without"),
        )
        for callers, (number, turns) in measured.items()
    ]
