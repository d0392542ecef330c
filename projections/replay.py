"""A past state of every read model, written into a schema of its own for whoever wants to look with SQL."""

import re
from collections.abc import Sequence
from datetime import datetime

from psycopg import sql
from psycopg.errors import DuplicateSchema

from ..domain.errors import Conflict, InvalidInput, NotFound
from ..streams.database import Database
from ..streams.log import Log
from ..streams.reader import LogTail
from .projection import Projection
from .rebuild import Rebuilder, Report, silent

PREFIX = "lethelog_replay_"
_SCRATCH = "lethelog_replaying_"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,23}")
"""Short enough for the longest schema made of it: PostgreSQL cuts names at 63 bytes."""


def replay_schema(name: str) -> str:
    """The schema of a replay. Raises `InvalidInput` for a name that cannot be part of one."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):  # pyright: ignore[reportUnnecessaryIsInstance] - callers are not all typed
        raise InvalidInput("name", "must be 1 to 24 of a-z, 0-9 and _, a letter first")
    return PREFIX + name


class Replayer:
    """Makes and drops replays. They hold the memories of every tenant in clear, like the read models they copy."""

    def __init__(self, database: Database, log: Log, tail: LogTail, projections: Sequence[Projection]) -> None:
        self._database = database
        self._log = log
        self._tail = tail
        self._projections = projections

    async def replay(self, name: str, position: int, at: datetime, report: Report = silent) -> str:
        """Fill a new schema with every read model as of a position; returns the schema.

        One that is cancelled or fails leaves nothing. Raises `Conflict` where the schema exists already.
        """
        schema = replay_schema(name)
        await self._create(schema, position, at)
        try:
            for number, projection in enumerate(self._projections):
                await self._fill(projection, schema, position, _share(report, number, len(self._projections)))
        except BaseException:
            await self.drop(name)
            raise
        return schema

    async def names(self) -> tuple[str, ...]:
        """The replays there are."""
        async with self._database.connection() as connection:
            cursor = await connection.execute(
                "select substr(nspname, %s) from pg_namespace where starts_with(nspname::text, %s) order by 1",
                (len(PREFIX) + 1, PREFIX),
            )
            return tuple(name for (name,) in await cursor.fetchall())

    async def drop(self, name: str) -> None:
        """Drop a replay. Raises `NotFound` where there is none of this name."""
        schema = replay_schema(name)
        if name not in await self.names():
            raise NotFound(f"there is no replay {name}", name=name)
        async with self._database.connection() as connection:
            await connection.execute(f"drop schema {schema} cascade")

    async def _create(self, schema: str, position: int, at: datetime) -> None:
        says = f"Lethelog's read models as of position {position}, {at.isoformat()}"
        async with self._database.transaction() as connection:
            try:
                await connection.execute(f"create schema {schema}")
            except DuplicateSchema:
                name = schema.removeprefix(PREFIX)
                raise Conflict(
                    f"there is a replay {name} already; drop it first, or choose another name"
                ) from None
            comment = sql.SQL("comment on schema {} is {}").format(sql.Identifier(schema), sql.Literal(says))
            await connection.execute(comment.as_string())

    async def _fill(self, projection: Projection, schema: str, position: int, report: Report) -> None:
        rebuilder = Rebuilder(self._database, self._log, self._tail, projection)
        scratch = f"{_SCRATCH}{schema.removeprefix(PREFIX)}_{projection.name}"
        try:
            await rebuilder.build(scratch, position, report)
            async with self._database.transaction() as connection:
                for table in projection.tables:
                    await connection.execute(f"alter table {scratch}.{table} set schema {schema}")
        finally:
            await rebuilder.discard(scratch)


def _share(report: Report, number: int, of: int) -> Report:
    """The part of one read model in the progress of all."""
    return lambda done, target: report(number * target + done, of * target)
