"""A service of another team: keeps the proposals of its tenants in an SQLite file of its own, and resumes.

LETHELOG_BROKER_URL=nats://TOKEN@HOST:4222 python subscriber.py [--rebuild]

The embedded broker stops with its last user, so run `lethelog up` first. With the same LETHELOG_DATA_DIR it is at:
python -c 'from lethelog.ops import embedded; print(embedded.join().broker_url)'
"""

import asyncio
import os
import sqlite3
import sys

from lethelog.domain.errors import Unavailable
from lethelog.streams import BrokerSettings, Erased, RecordedEvent, subscribe

db = sqlite3.connect(os.environ.get("PROPOSALS_DB", "proposals.sqlite"))
db.execute("create table if not exists proposals (position integer primary key, memory text, action text)")
db.execute("create table if not exists erased (id text primary key, position integer)")


def position() -> int:
    """How far this read model is; stored with every row, so that the two cannot disagree."""
    both = "select position from proposals union all select position from erased"
    return db.execute(f"select coalesce(max(position), 0) from ({both})").fetchone()[0]


async def apply(event: RecordedEvent) -> None:
    proposal = event.event
    memory = str(proposal.memory_id)
    with db:  # one that was parked and is sent again comes late, and may come twice or after its erasure
        if db.execute("select 1 from erased where id = ?", (memory,)).fetchone() is None:
            row = (event.position, memory, proposal.action)
            db.execute("insert or ignore into proposals values (?, ?, ?)", row)
    print(f"{proposal.action} proposed for memory {memory}", flush=True)


async def erase(erased: Erased) -> None:
    """Once this returns, it goes on record that the copies are erased; it may be called again for the same."""
    with db:
        for gone in (erased.erasure, *erased.memories):
            db.execute("insert or ignore into erased values (?, ?)", (str(gone), erased.position))
            db.execute("delete from proposals where memory = ?", (str(gone),))
    print(f"{len(erased.memories)} memories erased", flush=True)


if __name__ == "__main__":
    if "--rebuild" in sys.argv:
        with db:  # empty is position 0: everything is read again
            db.execute("delete from proposals")
            db.execute("delete from erased")
    broker = BrokerSettings(
        os.environ["LETHELOG_BROKER_URL"], os.environ.get("LETHELOG_BROKER_PREFIX", "lethelog")
    )
    listening = subscribe(broker, "proposal-listener", ["proposal.staged"], apply, position=position, erased=erase)
    try:
        asyncio.run(listening)
    except Unavailable as error:
        sys.exit(f"{error} (the embedded one runs while `lethelog up` does)")
