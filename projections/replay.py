"""A past state of every read model, written into a schema of its own for whoever wants to look with SQL."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg import sql
from psycopg.errors import DuplicateSchema

from ..domain.errors import Conflict, InvalidInput, NotFound
from ..streams.database import Database
from ..streams.leadership import Leadership
from ..streams.log import Log
from ..streams.reader import LogTail
from ..streams.recollection import hold_off
from .projection import Projection
from .protection import protect, shared_tables
from .rebuild import Rebuilder, Report, silent
from .scratch import discard, drop_leftovers, read_leftovers, replaying_schema

PREFIX = "lethelog_replay_"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,23}")
"""Short enough for the longest schema made of it: PostgreSQL cuts names at 63 bytes."""


def replay_schema(name: str) -> str:
    """The schema of a replay. Raises `InvalidInput` for a name that cannot be part of one."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):  # pyright: ignore[reportUnnecessaryIsInstance] - callers are not all typed
        raise InvalidInput("name", "must be 1 to 24 of a-z, 0-9 and _, a letter first")
    return PREFIX + name


@dataclass(frozen=True, slots=True)
class Replay:
    """A replay that is whole."""

    schema: str
    parked: int
    """Events that could not be applied, as in the read models of today; what follows them in their streams too."""


class Replayer:
    """Makes and drops replays. They hold the memories of every tenant in clear, like the read models they copy."""

    def __init__(self, database: Database, log: Log, tail: LogTail, projections: Sequence[Projection]) -> None:
        self._database = database
        self._log = log
        self._tail = tail
        self._projections = projections

    async def replay(self, name: str, position: int, at: datetime, report: Report = silent) -> Replay:
        """Fill a new schema with every read model as of a position. It appears when it is whole.

        One that is cancelled or fails leaves nothing; what is left of one that was killed, the next one drops.
        Raises `Conflict` where the schema exists already.
        """
        schema = replay_schema(name)
        lock = Leadership(self._database, f"replay:{name}")
        if not await lock.acquire():
            raise Conflict(f"the replay {name} is being written already")
        try:
            if name in await self.names():
                raise _taken(name)
            await drop_leftovers(self._database)
            parked = 0
            for number, projection in enumerate(self._projections):
                share = _share(report, number, len(self._projections))
                rebuilder = Rebuilder(self._database, self._log, self._tail, projection)
                built = await rebuilder.build(replaying_schema(name, projection.name), position, share)
                parked += (await built.progress()).parked
            await self._publish(name, f"Lethelog's read models as of position {position}, {at.isoformat()}")
            return Replay(schema, parked)
        finally:
            await self._discard(name)
            await lock.release()

    async def names(self) -> tuple[str, ...]:
        """The replays there are."""
        async with self._database.connection() as connection:
            cursor = await connection.execute(
                "select substr(nspname, %s) from pg_namespace where starts_with(nspname::text, %s) order by 1",
                (len(PREFIX) + 1, PREFIX),
            )
            return tuple(name for (name,) in await cursor.fetchall())

    async def leftovers(self) -> tuple[str, ...]:
        """Schemas that replays and comparisons left which were killed. They hold clear text too."""
        async with self._database.connection() as connection:
            return tuple(one.schema for one in await read_leftovers(connection))

    async def drop(self, name: str) -> None:
        """Drop a replay with what was left of one of its name, or one of `leftovers` by its whole name.

        Raises `NotFound` where there is none, `Conflict` where it is being written.
        """
        async with self._database.connection() as connection:
            left = {one.schema: one for one in await read_leftovers(connection)}
        # Callers are not all typed, and what cannot be hashed is no name either.
        if isinstance(name, str) and name in left:  # pyright: ignore[reportUnnecessaryIsInstance]
            await discard(self._database, name)
            return
        schema = replay_schema(name)
        lock = Leadership(self._database, f"replay:{name}")
        if not await lock.acquire():
            raise Conflict(f"the replay {name} is being written")
        try:
            if name not in await self.names() and f"replay:{name}" not in {one.duty for one in left.values()}:
                raise NotFound(f"there is no replay {name}", name=name)
            async with self._database.connection() as connection:
                await connection.execute(f"drop schema if exists {schema} cascade")
            await self._discard(name)
        finally:
            await lock.release()

    async def _publish(self, name: str, says: str) -> None:
        """Let a replay that is whole be seen under its name."""
        schema = replay_schema(name)
        async with self._database.transaction() as connection:
            # An erasure looks for copies where they stand, so none may move meanwhile.
            await hold_off(connection)
            try:
                await connection.execute(f"create schema {schema}")
            except DuplicateSchema:
                raise _taken(name) from None
            comment = sql.SQL("comment on schema {} is {}").format(sql.Identifier(schema), sql.Literal(says))
            await connection.execute(comment.as_string())
            for projection in self._projections:
                for table in projection.tables:
                    await connection.execute(
                        f"alter table {replaying_schema(name, projection.name)}.{table} set schema {schema}"
                    )
            await protect(connection, [schema], [one for each in self._projections for one in shared_tables(each)])

    async def _discard(self, name: str) -> None:
        for projection in self._projections:
            await discard(self._database, replaying_schema(name, projection.name))


def _taken(name: str) -> Conflict:
    return Conflict(f"there is a replay {name} already; drop it first, or choose another name")


def _share(report: Report, number: int, of: int) -> Report:
    """The part of one read model in the progress of all."""
    return lambda done, target: report(number * target + done, of * target)
