"""A log of a database, and filling it, for measures of what comes after it."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from ...domain.events import Event, MemoryArchived
from ...streams.database import Database
from ...streams.log import Appended, Log, NewEvent, Unit
from ...streams.master_keys import Keyring
from ...streams.reader import LogTail
from ...streams.vault import Vault
from .sample import Writer

PAGE = 500
_LATER = 100
"""Events of a page that are about memories of the page: of five events four remember and one archives."""


@asynccontextmanager
async def open_log(url: str, master_key: bytes) -> AsyncGenerator[Log]:
    """A log over a migrated database, in this event loop, that hears of erasures: else it may keep no key."""
    database = Database(url)
    await database.open()
    log = Log(database, Vault(database, Keyring.of(master_key)))
    tail = LogTail(database, log.recollection)
    await log.open()
    await tail.open()
    try:
        yield log
    finally:
        await log.close()
        await tail.close()
        await database.close()


async def load(log: Log, writer: Writer, events: int, say: Callable[[str], None] = lambda _: None) -> int:
    """Append so many events, in pages; four of five remember, the fifth archives. Returns the log's head."""
    for done in range(0, events, PAGE):
        say(f"writing {events:,} events, {done:,} so far")
        number = min(PAGE, events - done)
        later = number * _LATER // PAGE
        unit = writer.remember(*writer.texts(number - later))
        await append(log, unit)
        if later:
            await append(log, _about(unit, later, MemoryArchived(reason="no longer used")))
    return await log.head()


async def append(log: Log, unit: Unit) -> None:
    """Append a unit that nothing stands against."""
    outcome = await log.append(unit)
    assert isinstance(outcome, Appended), outcome


def _about(unit: Unit, number: int, event: Event) -> Unit:
    streams = [new.stream for new in unit.events[:number]]
    return Unit(
        tenant=unit.tenant,
        subject=unit.subject,
        events=[NewEvent(stream, 2, event) for stream in streams],
        envelope=unit.envelope,
    )
