"""What sealing costs where it matters: append, read and rebuild, with it and without, side by side."""

import time
from collections.abc import Collection, Generator, Iterable
from contextlib import AsyncExitStack, contextmanager
from uuid import UUID

from ...projections.live_memory import LiveMemory
from ...projections.rebuild import Rebuilder
from ...streams import sealing
from ...streams.log import Log
from ...streams.vault import DataKeys, Vault, WrappedKey
from .bench import Bench
from .loading import PAGE, append, load
from .no_vectors import NoVectors
from .rounds import Turn, Turns, alternate
from .row import Row
from .sample import Writer

_PAGE = 1_000
_KEY = bytes(sealing.KEY_BYTES)


class NoKeys(Vault):
    """Makes, stores and reads no data key, as if nothing ever had to be erased."""

    async def new_data_keys(
        self, tenant: UUID, ids: Collection[UUID]
    ) -> tuple[dict[UUID, bytes], list[WrappedKey]]:
        return dict.fromkeys(ids, _KEY), []

    async def data_keys(self, tenant: UUID, ids: Iterable[UUID]) -> DataKeys:
        return DataKeys(dict.fromkeys(ids, _KEY))


@contextmanager
def unsealed() -> Generator[None]:
    """While inside, this process writes and reads sealed parts in clear."""
    seal, unseal = sealing.seal, sealing.unseal
    sealing.seal = sealing.unseal = lambda key, text, bound_to: text
    try:
        yield
    finally:
        sealing.seal, sealing.unseal = seal, unseal


async def costs(bench: Bench) -> list[Row]:
    """Append in pages, reading in pages with no key at hand, and live memory built anew."""
    pages, events, rounds = bench.pick(20, 1), bench.pick(20_000, 1_000), bench.pick(5, 2)
    async with AsyncExitStack() as stack:
        sealed = await stack.enter_async_context(bench.servers.engine(NoVectors()))
        bare = await stack.enter_async_context(bench.servers.engine(NoVectors()))
        clear = Log(bare.database, NoKeys(bare.database, bare.vault.keyring))
        await clear.open()
        stack.push_async_callback(clear.close)
        writer = Writer()

        async def appended(log: Log) -> float:
            units = [writer.remember(*writer.texts(PAGE)) for _ in range(pages)]
            began = time.perf_counter()
            for unit in units:
                await append(log, unit)
            return pages * PAGE / (time.perf_counter() - began)

        async def read(log: Log) -> float:
            sealed.vault.forget()
            began, after = time.perf_counter(), 0
            while page := await log.read_page(after, _PAGE):
                after = page[-1].position
            return after / (time.perf_counter() - began)

        rebuilders = {
            "with": Rebuilder(sealed.database, sealed.log, sealed.tail, sealed.live_memory),
            "without": Rebuilder(bare.database, clear, bare.tail, LiveMemory(clear, NoVectors())),
        }

        async def rebuilt(which: str) -> float:
            sealed.vault.forget()
            began = time.perf_counter()
            done = await rebuilders[which].rebuild()
            return done.position / (time.perf_counter() - began)

        appends = await _side_by_side(lambda: appended(sealed.log), lambda: appended(clear), rounds)
        bench.say("filling two logs")
        await load(sealed.log, writer, events)
        with unsealed():
            await load(clear, writer, events)
        bench.say("reading and rebuilding")
        reads = await _side_by_side(lambda: read(sealed.log), lambda: read(clear), rounds)
        builds = await _side_by_side(lambda: rebuilt("with"), lambda: rebuilt("without"), rounds)
        flush = bench.servers.flush_ms()
    against = "the same without sealing and data keys, in a database of its own"
    says = {
        "seal.append": (appends, f"append in pages of {PAGE} memories, text sealed, a data key for each", flush),
        "seal.read": (reads, f"the log in pages of {_PAGE:,}, opened, with no data key remembered at first", None),
        "seal.rebuild": (builds, "live memory built anew, without vectors", flush),
    }
    return [
        Row(
            name=name,
            figure=turns.median("with"),
            unit="events/s",
            says=text,
            baseline=turns.median("without"),
            against=against,
            flush_ms=disk,
            n=rounds * (pages * PAGE if name == "seal.append" else events),
            spread=turns.spread("with", "without"),
        )
        for name, (turns, text, disk) in says.items()
    ]


async def _side_by_side(sealed: Turn, clear: Turn, rounds: int) -> Turns:
    async def without() -> float:
        with unsealed():
            return await clear()

    return await alternate({"with": sealed, "without": without}, rounds)
