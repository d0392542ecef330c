"""A service of another team: keeps the proposals of its tenants in an SQLite file of its own, and resumes.

LETHELOG_BROKER_URL=nats://TOKEN@HOST:4222 python subscriber.py [--rebuild]

For the embedded broker: python -c 'from lethelog.ops import embedded; print(embedded.join().broker_url)'
"""

import asyncio
import os
import sqlite3
import sys

from lethelog.streams import BrokerSettings, RecordedEvent, subscribe

db = sqlite3.connect(os.environ.get("PROPOSALS_DB", "proposals.sqlite"))
db.execute("create table if not exists proposals (position integer primary key, memory text, action text)")


def position() -> int:
    """How far this read model is; stored with every row, so that the two cannot disagree."""
    return db.execute("select coalesce(max(position), 0) from proposals").fetchone()[0]


async def apply(event: RecordedEvent) -> None:
    proposal = event.event
    with db:  # one that was parked and is sent again comes late, and may come twice
        row = (event.position, str(proposal.memory_id), proposal.action)
        db.execute("insert or ignore into proposals values (?, ?, ?)", row)
    print(f"{proposal.action} proposed for memory {proposal.memory_id}", flush=True)


if __name__ == "__main__":
    if "--rebuild" in sys.argv:
        with db:  # empty is position 0: everything is read again
            db.execute("delete from proposals")
    broker = BrokerSettings(
        os.environ["LETHELOG_BROKER_URL"], os.environ.get("LETHELOG_BROKER_PREFIX", "lethelog")
    )
    asyncio.run(subscribe(broker, "proposal-listener", ["proposal.staged"], apply, position=position))
