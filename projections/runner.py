"""Feeds projections from the log: pages, one transaction each, position written with the rows.

One process leads per projection, the others stand by. A page that fails is bisected to the one event that fails;
that event is tried again with a delay. If it goes on failing by itself it is parked with everything behind it in
its stream; if something else is wrong, the projection says that it is stalled, and where, until it works (ADR 5).
It never skips silently (engine-notes 1.8, F44).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from ..domain.errors import Misconfigured, Unavailable
from ..streams.database import Database
from ..streams.leadership import Leadership
from ..streams.log import Log
from ..streams.payloads import RecordedEvent
from ..streams.portions import seldom_collected
from ..streams.reader import LogTail
from .applying import Applier, CannotApply, CannotRead, MovedMeanwhile, Page
from .generations import HOME, SHARED, prepare_home
from .progress import Progress, duty, read_progress
from .projection import Projection
from .protection import protect, refuse_undeclared, shared_tables

SMALLEST_PAGE = 100
LARGEST_PAGE = 2_000
"""Pages double from the one to the other while they come full: short transactions when live, few when behind."""
AT_ONCE = 10
"""Largest pages in a row before the leadership is looked at again."""
LEADING_SECONDS = 0.5
"""How often it is looked at while pages are smaller. Two who believe that they lead apply nothing twice: each page
is applied under the lock of the tracking row, by whoever finds it where the page begins."""
RETRY_SECONDS = (0.2, 1.0, 5.0)
"""An event that fails is tried again after each of these, and then parked."""
STALL_SECONDS = 30.0
"""How often one that cannot be parked is tried again."""
MOST_PARKED = 100
"""Streams that may be parked, or tenants for their keys; beyond that the trouble is not theirs, and the projection
stalls."""
PassBy = Callable[[CannotApply], Awaitable[int]]
"""What is done instead of stopping at an event that cannot be applied: returns where to go on, or raises it."""
Report = Callable[[int, int], None]
"""Called with (position reached, position to reach)."""


async def ensure_tables(database: Database, projections: Sequence[Projection]) -> None:
    """Make what is missing, and refuse what another version made.

    Raises `Misconfigured` naming the rebuild command when a stored version differs, for instance because its
    vectors come from another embedding model: they are never mixed (F40).
    """
    async with database.transaction() as connection:
        await prepare_home(connection)
        cursor = await connection.execute(f"select name, version from {HOME}.tracking where state = 'current'")
        stored = dict(await cursor.fetchall())
        for projection in projections:
            present = stored.get(projection.name)
            if present is None:
                await projection.create_tables(connection, HOME)
                await projection.create_indexes(connection, HOME)
                await refuse_undeclared(connection, projection, HOME)
                await connection.execute(
                    f"insert into {HOME}.tracking (name, version, position) values (%s, %s, 0)",
                    (projection.name, projection.version),
                )
            elif present != projection.version:
                raise Misconfigured(
                    f"the read model {projection.name} was built as {present} and this process builds "
                    f"{projection.version}; run: lethelog rebuild {projection.name}",
                    read_model=projection.name,
                )
        # Also what an earlier Lethelog made, which knew nothing of this.
        cursor = await connection.execute(
            f"select distinct schema from {HOME}.tracking where state in ('current', 'retired', 'filled') "
            "union select nspname from pg_namespace where starts_with(nspname::text, 'lethelog_replay_')"
        )
        schemas = [schema for (schema,) in await cursor.fetchall()]
        shared = [table for projection in projections for table in shared_tables(projection)]
        await protect(connection, schemas, [*SHARED, *shared])


def _nobody(_position: int, _target: int) -> None:
    """Report to nobody."""


class ProjectionRunner:
    """Runs one projection. `run` goes on until cancelled; `catch_up` once to a position.

    It feeds the current generation, whichever that is, or with ``schema`` the one that stands there.
    """

    def __init__(
        self,
        database: Database,
        log: Log,
        tail: LogTail,
        projection: Projection,
        schema: str | None = None,
        *,
        retry_seconds: Sequence[float] = RETRY_SECONDS,
        pass_by: PassBy | None = None,
    ) -> None:
        self._database = database
        self._log = log
        self._tail = tail
        self._projection = projection
        self._schema = schema
        self._retry_seconds = retry_seconds
        self._pass_by = pass_by
        self._applier = Applier(database, projection, schema, log.recollection)
        self.leadership = Leadership(database, duty(projection.name))

    async def run(self) -> None:
        """Lead when nobody else does, and follow the log."""
        await self.leadership.lead(self._follow)

    async def position(self) -> int:
        """Up to where the read model is built. Raises `Unavailable` when another version is the current one."""
        progress = await self.progress()
        if progress.version and progress.version != self._projection.version:
            raise Unavailable(
                f"the read model {progress.name} is built as {progress.version} now; restart this process"
            )
        return progress.position

    async def progress(self) -> Progress:
        async with self._database.connection() as connection:
            return await read_progress(connection, self._projection.name, self._schema)

    async def catch_up(self, target: int) -> int:
        """Apply pages until the target position, whoever leads; returns the position.

        Raises `CannotApply` where an event fails and ``pass_by`` raises it, `CannotRead` where the log fails.
        """
        target = min(target, await self._log.head())
        position = await self.position()
        while position < target:
            try:
                position = await self._overlapped(position, target)
                epoch = await self._applier.epoch()
                page = await self._read(position, LARGEST_PAGE, target)
                position = await self._applier.apply(page, position, epoch) if page else position
            except MovedMeanwhile:
                position = await self.position()
            except CannotApply as failed:
                position = await self._pass(failed)
            except CannotRead as failed:
                await self._applier.stall(failed)
                raise
        return position

    async def load(self, target: int, report: Report) -> int:
        """Bring a copy that nobody reads up to a position, as fast as can be; returns the position.

        Raises `CannotApply` where an event fails and ``pass_by`` raises it, `CannotRead` where the log fails.
        """
        size = LARGEST_PAGE
        position = await self.position()
        report(position, target)
        while position < target:
            try:
                loading = self._projection.loading(position, target)
                # Small pages only past the trouble: they grow again.
                upto = target if size == LARGEST_PAGE else min(target, position + 8 * size)
                position = await self._write_pages(loading, position, upto, size, report)
                size = min(8 * size, LARGEST_PAGE)
            except MovedMeanwhile:
                position = await self.position()
            except Unavailable:
                raise
            except Exception as error:
                position = await self.position()
                if size == 1:
                    failed = await self._cause(error, position, target)
                    if isinstance(failed, CannotRead):
                        await self._applier.stall(failed)
                        raise failed from error
                    position = await self._pass(failed)
                    continue
                # In smaller pages, from where it stands, until it is the one event.
                size = max(1, size // 8)
        return position

    async def _cause(self, error: Exception, position: int, target: int) -> CannotApply | CannotRead:
        """What to say of an error that the one event behind a position leads to."""
        if isinstance(error, CannotRead):
            return error
        [event] = await self._read(position, 1, target)
        return CannotApply(self._projection.name, position, event, error)

    async def _read(self, position: int, size: int, target: int | None = None) -> list[RecordedEvent]:
        """A page of the log. Raises `Unavailable`, and `CannotRead` for whatever else goes wrong."""
        try:
            return await self._log.read_page(position, size, target, namespaces=self._applier.namespaces)
        except Unavailable:
            raise
        except Exception as error:
            raise CannotRead(self._projection.name, position, error) from error

    async def _pass(self, failed: CannotApply) -> int:
        """Where to go on after an event that cannot be applied, or say that it stalls, and raise."""
        try:
            if self._pass_by is None:
                raise failed
            if await self._applier.sees_parked(failed.event):
                return failed.before
            position = await self._pass_by(failed)
            await self._applier.sees_parked(failed.event)
            return position
        except MovedMeanwhile:
            return await self.position()
        except CannotApply as first:
            await self._applier.stall(first)
            raise

    async def _overlapped(self, position: int, target: int) -> int:
        """Apply large pages, each prepared while the one before is written; returns how far that went.

        Where an event fails it stops before its page, which is for `Applier.apply` to take apart.
        """
        try:
            return await self._write_pages(self._projection, position, target, LARGEST_PAGE, _nobody)
        except (Unavailable, MovedMeanwhile):
            raise
        except Exception:
            return await self.position()

    async def _write_pages(self, by: Projection, position: int, target: int, size: int, report: Report) -> int:
        # Of them all: ``by`` may keep what it read for one page until it writes a later one.
        epoch = await self._applier.epoch()
        with seldom_collected() as collect:
            page = await self._next_page(by, position, target, size, epoch)
            while page is not None:
                following = asyncio.create_task(self._next_page(by, page.end, target, size, epoch))
                try:
                    await self._applier.write(page, position, by)
                except BaseException:
                    following.cancel()
                    await asyncio.gather(following, return_exceptions=True)
                    raise
                position = page.end
                report(position, target)
                page = await following
                collect()
        return position

    async def _next_page(self, by: Projection, position: int, target: int, size: int, epoch: int) -> Page | None:
        events = await self._read(position, size, target)
        return await self._applier.prepare(events, epoch, by) if events else None

    async def _follow(self) -> None:
        position = await self.position()
        size = SMALLEST_PAGE
        failing_at = failures = 0
        looked = 0.0
        while True:
            now = asyncio.get_running_loop().time()
            if now >= looked + LEADING_SECONDS:
                if not await self.leadership.still_held():
                    return
                looked = now
            ticks = self._tail.ticks
            try:
                if size == LARGEST_PAGE:
                    position = await self._overlapped(position, position + AT_ONCE * LARGEST_PAGE)
                epoch = await self._applier.epoch()
                page = await self._read(position, size)
                position = await self._applier.apply(page, position, epoch) if page else position
            except CannotApply as failed:
                failures = failures + 1 if failed.event.position == failing_at else 1
                failing_at, size = failed.event.position, 1
                position = await self._put_off(failed, failures)
                continue
            except CannotRead as failed:
                # In pages of one, so that what can be read before it is applied and the place is exact.
                alone, size = size == 1, 1
                if alone:
                    await self._applier.stall(failed)
                    await asyncio.sleep((self._retry_seconds or RETRY_SECONDS)[-1])
                continue
            except MovedMeanwhile:
                position = await self.position()
                continue
            if not page:
                await self._tail.wait(ticks)
            size = min(size * 2, LARGEST_PAGE) if len(page) == size else SMALLEST_PAGE

    async def _put_off(self, failed: CannotApply, failures: int) -> int:
        """Wait before an event is tried again, or park it; returns where to go on."""
        if failed.may_pass and failures <= len(self._retry_seconds):
            await self._applier.stall(failed)
            await asyncio.sleep(self._retry_seconds[failures - 1])
        elif failed.of_the_event and await self._applier.troubles() < MOST_PARKED:
            try:
                return await self._applier.set_aside(failed, failures)
            except MovedMeanwhile:
                return await self.position()
        else:
            await self._applier.stall(failed)
            await asyncio.sleep(STALL_SECONDS)
        return failed.before
