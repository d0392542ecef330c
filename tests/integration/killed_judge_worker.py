"""A judge worker that ends itself, without any clean-up, at one point. Run by test_killed_judge_workers.py.

Arguments: database URL, broker URL, broker prefix, point.
"""

import asyncio
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from lethelog.handlers.engine import open_engine
from lethelog.handlers.forgetting.judge_worker import JudgeWorker
from lethelog.handlers.forgetting.settings import task_queue
from lethelog.handlers.workers import JUDGE_POLICY
from lethelog.projections.embedders import open_embedder
from lethelog.streams.broker import BrokerSettings
from lethelog.streams.consumers import Consumers
from lethelog.streams.master_keys import Keyring
from lethelog.streams.subscriptions import TaskSubscription
from passes import ToldJudge, pass_settings, sure


async def main() -> None:
    database_url, broker_url, prefix, fatal = sys.argv[1:]

    async def checkpoint(point: str) -> None:
        if point == fatal:
            os._exit(9)

    engine = await open_engine(database_url, Keyring.of(b"m" * 32), open_embedder())
    settings = pass_settings(ToldJudge(sure("archive")))
    worker = JudgeWorker(engine, settings, checkpoint=checkpoint)
    consumers = Consumers(BrokerSettings(broker_url, prefix), engine.log.decode)
    await consumers.open(
        [TaskSubscription(task_queue(settings.judge.identity), worker.handle, policy=JUDGE_POLICY)]
    )
    await asyncio.Event().wait()


asyncio.run(main())
