"""A process that performs an erasure and kills itself at a checkpoint. Arguments: database, ledger, tenant, id, point."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from uuid import UUID

from lethelog.handlers.engine import open_engine
from lethelog.handlers.erasure.means import ErasureMeans
from lethelog.handlers.erasure.saga import Saga
from lethelog.streams.erasure_ledger import Ledger
from lethelog.streams.master_keys import Keyring
from lethelog.streams.signing import SigningKey


class NoEmbedder:
    """An erasure embeds nothing."""

    model = "none"
    dimensions = 8


async def main(database_url: str, ledger: str, tenant: str, erasure: str, point: str) -> None:
    async def checkpoint(reached: str) -> None:
        if reached == point:
            os.kill(os.getpid(), signal.SIGKILL)

    means = ErasureMeans(Ledger(Path(ledger)), SigningKey(b"s" * 32))
    engine = await open_engine(database_url, Keyring.of(b"m" * 32), NoEmbedder(), erasure=means)
    await Saga(engine, checkpoint=checkpoint).carry_on(UUID(tenant), UUID(erasure))


asyncio.run(main(*sys.argv[1:]))
