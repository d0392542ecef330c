"""What a process may keep in its memory beside the database, and that it lets go of it when something is erased.

Every erasure moves the *epoch*, one number for the whole log. A process may remember keys and names only while
it listens: whoever listens is told of every epoch, drops all it remembers, and only then says that it has seen it,
by a lock that others can look at (`unseen`). One whose listening connection is lost remembers nothing until it
listens again.
"""

from collections.abc import Callable
from uuid import UUID

from .database import Connection
from .leadership import lock_number

CHANNEL = "lethelog_erased"
"""Notified with every erasure."""
_SEEN = 7_283_460
"""First half of the advisory locks by which listening processes say which epoch they know of."""
_WRITING = lock_number("clear text is written")
"""Shared by every transaction that writes what it was told earlier; taken alone by the one that erases."""
UNKNOWN = -1
_SAYING = (
    "locktype = 'advisory' and granted and objsubid = 2 and classid = %s::bigint::oid "
    "and database = (select oid from pg_database where datname = current_database())"
)


class Recollection:
    """One per process and log. Caches ask it what they may keep, and are emptied by it."""

    def __init__(self) -> None:
        self._empty: list[Callable[[], None]] = []
        self._listening = False
        self._turn = 0
        self.epoch = UNKNOWN
        """Of the newest erasure this process knows of."""
        self.fences: dict[UUID, UUID | None] = {}
        """The newest erasure of each tenant that was asked for; see `Log.fence`."""

    def register(self, empty: Callable[[], None]) -> None:
        """Have a cache emptied whenever something was erased."""
        self._empty.append(empty)

    def turn(self) -> int:
        """Take it *before* reading what is to be kept, and give it to `may_keep`."""
        return self._turn

    def may_keep(self, turn: int) -> bool:
        """Whether what was read since then may be kept: this process listens, and nothing was erased since."""
        return self._listening and turn == self._turn

    def notice(self, epoch: int) -> None:
        """Something says which epoch it is. A newer one than was known empties every cache."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.forget()

    def listen(self, epoch: int) -> None:
        """From now on every epoch is told."""
        self.notice(epoch)
        self._listening = True

    def lose(self) -> None:
        """Nobody tells any more."""
        self._listening = False
        self.forget()

    def forget(self) -> None:
        """Empty every cache."""
        self._turn += 1
        self.fences.clear()
        for empty in self._empty:
            empty()


async def read_epoch(connection: Connection) -> int:
    """The present epoch."""
    cursor = await connection.execute("select epoch from lethelog.erasing")
    row = await cursor.fetchone()
    return row[0] if row is not None else 0


async def hold_off(connection: Connection) -> int:
    """Keep erasures from happening until this transaction ends; the epoch from which on that is so.

    For whoever is about to write clear text that was read before: it may only be written if the epoch is still
    the one of before.
    """
    # Two statements: the second one sees what was committed while the first one waited.
    await keep_erasures_out(connection)
    return await read_epoch(connection)


async def keep_erasures_out(connection: Connection) -> None:
    """Keep erasures from happening until this transaction ends; what is read next sees those of before."""
    await connection.execute("select pg_advisory_xact_lock_shared(%s)", (_WRITING,))


async def keep_out(connection: Connection) -> int:
    """Wait for everybody who `hold_off`s, and let none begin until this transaction ends; the present epoch."""
    await connection.execute("select pg_advisory_xact_lock(%s)", (_WRITING,))
    return await read_epoch(connection)


async def say_seen(connection: Connection, epoch: int, before: int | None) -> None:
    """Say on a listening connection which epoch this process knows of, for as long as the connection lives."""
    await connection.execute("select pg_advisory_lock_shared(%s, %s)", (_SEEN, epoch))
    if before is not None:
        await connection.execute("select pg_advisory_unlock_shared(%s, %s)", (_SEEN, before))


async def unseen(connection: Connection) -> int:
    """How many processes remember things and have not seen the present epoch yet."""
    cursor = await connection.execute(
        f"select count(*) from pg_locks where {_SAYING} and objid::bigint < (select epoch from lethelog.erasing)",
        (_SEEN,),
    )
    row = await cursor.fetchone()
    return row[0] if row is not None else 0


async def listening(connection: Connection) -> int:
    """How many processes remember things and say which epoch they know of."""
    cursor = await connection.execute(f"select count(*) from pg_locks where {_SAYING}", (_SEEN,))
    row = await cursor.fetchone()
    return row[0] if row is not None else 0
