"""A process that feeds or rebuilds one read model, and stops inside a page for whoever wants to kill it there.

Arguments: database URL, read model, ``run``, ``rebuild``, ``compare`` or ``replay``, and a position (0 for none) whose page it never ends: it
says ``holding`` and waits, with the page written and its transaction open.
"""

import asyncio
import sys
from datetime import UTC, datetime

from lethelog.handlers.engine import open_engine
from lethelog.projections import runner
from lethelog.projections.embedders import open_embedder
from lethelog.projections.rebuild import Rebuilder
from lethelog.projections.replay import Replayer
from lethelog.projections.runner import ProjectionRunner
from lethelog.streams.master_keys import Keyring


def hold(projection, position: int):
    """Make pages with this position endless."""
    apply, loading = projection.apply, projection.loading

    async def held(connection, schema, page, prepared) -> None:
        await apply(connection, schema, page, prepared)
        if page[0].position <= position <= page[-1].position:
            print("holding", flush=True)
            await asyncio.Event().wait()

    projection.apply = held
    projection.loading = lambda start, target: hold(loading(start, target), position)
    return projection


async def main() -> None:
    database_url, name, what, position = sys.argv[1:]
    runner.LARGEST_PAGE = 10
    engine = await open_engine(database_url, Keyring.of(b"m" * 32), open_embedder())
    projection = engine.projection(name)
    assert projection is not None
    if int(position):
        hold(projection, int(position))
    print("ready", flush=True)
    if what == "rebuild":
        await Rebuilder(engine.database, engine.log, engine.tail, projection).rebuild()
        print("rebuilt", flush=True)
    elif what == "compare":
        await Rebuilder(engine.database, engine.log, engine.tail, projection).compare()
    elif what == "replay":
        replayer = Replayer(engine.database, engine.log, engine.tail, engine.projections)
        await replayer.replay("may", await engine.log.head(), datetime.now(UTC))
    else:
        await ProjectionRunner(engine.database, engine.log, engine.tail, projection).run()


asyncio.run(main())
