"""How long one waits for an import and for an MCP server that a client starts, and for each of its answers."""

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from statistics import median

from mcp import Client, StdioServerParameters

from ..settings import Settings
from .bench import Bench
from .installation import command, environment, installation
from .row import Row, Target, quantile
from .sample import Writer

_PATIENCE_SECONDS = 60
_IMPORTS = {
    "import.lethelog": "import lethelog",
    # What stands in it is imported when it is first named.
    "import.Memory": "from lethelog import Memory",
    "import.Client": "from lethelog import Client",
}


async def starts(bench: Bench) -> list[Row]:
    """An import, the start of `lethelog mcp`, and round trips through it."""
    bench.say("import lethelog")
    rows = await _imports(bench.pick(11, 3))
    async with bench.servers.broker() as broker, installation(bench, broker) as settings:
        # Migrates, and makes the keys.
        await _started(settings)
        bench.say("lethelog mcp")
        rows.append(_start([await _started(settings) for _ in range(bench.pick(7, 2))]))
        rows += await _round_trips(bench, settings, bench.pick(200, 10))
    return rows


async def _imports(times: int) -> list[Row]:
    taken: dict[str, list[float]] = {code: [] for code in ("pass", *_IMPORTS.values())}
    for _ in range(times):
        for code, so_far in taken.items():
            so_far.append(await _ran(code))
    return [
        Row(
            name=name,
            figure=median(taken[code]),
            unit="ms",
            says=f"an interpreter that does {code}",
            target=Target("at most", 150, of="figure") if name == "import.lethelog" else None,
            baseline=median(taken["pass"]),
            against="one that imports nothing, in turns",
            n=times,
        )
        for name, code in _IMPORTS.items()
    ]


async def _ran(code: str) -> float:
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, env=os.environ)
    await process.wait()
    return 1e3 * (time.perf_counter() - began)


def _start(times: Sequence[float]) -> Row:
    return Row(
        name="mcp.start",
        figure=median(times),
        unit="ms",
        says="from starting lethelog mcp, servers running, to its answer to initialize, by the official client",
        target=Target("at most", 1_500, of="figure"),
        n=len(times),
        spread=(min(times), max(times)),
    )


async def _started(settings: Settings) -> float:
    began = time.perf_counter()
    async with Client(_server(settings), read_timeout_seconds=_PATIENCE_SECONDS):
        return 1e3 * (time.perf_counter() - began)


async def _round_trips(bench: Bench, settings: Settings, times: int) -> list[Row]:
    texts = list(Writer().texts(times))
    remembered: list[float] = []
    searched: list[float] = []
    async with Client(_server(settings), read_timeout_seconds=_PATIENCE_SECONDS) as client:

        async def call(times: list[float], tool: str, **arguments: str) -> None:
            began = time.perf_counter()
            answer = await client.call_tool(tool, arguments)
            times.append(1e3 * (time.perf_counter() - began))
            assert not answer.is_error

        # Connections open, weights are read.
        for tool, given in (("remember", "content"), ("search", "query")):
            await call([], tool, **{given: "deploys"})
        bench.say(f"{times} calls of remember, {times} of search")
        for text in texts:
            await call(remembered, "remember", content=text)
        await call([], "search", query="deploys")
        for text in texts:
            await call(searched, "search", query=text[:60])
    flush = bench.servers.flush_ms()
    return [
        Row(
            name=f"mcp.{verb}.{label}",
            figure=quantile(taken, share),
            unit="ms",
            says=f"{label} of a call of {verb} over stdio by the official client, one after another",
            flush_ms=flush if verb == "remember" else None,
            n=len(taken),
        )
        for verb, taken in (("remember", remembered), ("search", searched))
        for label, share in (("p50", 0.5), ("p99", 0.99))
    ]


def _server(settings: Settings) -> StdioServerParameters:
    program, *arguments = command("mcp")
    return StdioServerParameters(command=program, args=arguments, env=dict(environment(settings)))
