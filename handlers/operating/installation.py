"""The part of the Python door that is about what all tenants share, and needs ``installation:admin``.

Read models and copies of them, what was parked, and the log as a whole.
"""

from typing import Unpack

from ...domain.errors import InvalidInput
from ...projections.copy_parking import Failing
from ...projections.projection import Projection
from ...projections.rebuild import Comparison, Rebuilder, Rebuilt, Report, silent
from ...streams.audit import Checkpoint, Verification
from ...streams.broker import BrokerSettings
from ...streams.parking_place import DropReason
from ...streams.rotation import Rotated
from ..access.caller import Caller
from ..access.credentials import Credential
from ..arguments import AnyId, AnyInstant, DroppedFields, ParkedFields
from ..engine import Engine
from ..keys import Keys, RotatedKeys
from .audit import AnyCheckpoint, Audit
from .parked import Parked
from .replaying import Replaying
from .views import ParkedPage, ParkedView, Replayed, Retried


class AsyncInstallation:
    """What is done to an installation, for one caller."""

    def __init__(self, engine: Engine, whose: Caller | Credential, broker: BrokerSettings | None) -> None:
        self.engine = engine
        self.broker = broker
        self._whose = whose
        self._replaying = Replaying(engine)
        self._parked = Parked(engine, broker)
        self._audit = Audit(engine)
        self._keys = Keys(engine)

    async def caller(self) -> Caller:
        """Who calls, from the credential as it is now. Raises `InvalidCredential`, `Unavailable`."""
        return self._whose if isinstance(self._whose, Caller) else await self._whose.caller()

    async def rebuild(self, name: str, report: Report = silent, *, failing: Failing = "stop") -> Rebuilt:
        """Build a read model anew from the log and switch to it; goes on with what a broken off rebuild left.

        Stops at an event that cannot be applied and was not parked before, or parks it with ``failing="park"``.
        """
        if failing not in ("stop", "park"):
            raise InvalidInput("failing", "must be stop or park")
        return await (await self._rebuilder(name)).rebuild(report, failing=failing)

    async def cancel_rebuild(self, name: str) -> bool:
        """Drop what a rebuild that was broken off has built; False where there is nothing."""
        return bool(await (await self._rebuilder(name)).cancel())

    async def compare(self, name: str, report: Report = silent) -> Comparison:
        """Hold a read model against its rebuild."""
        return await (await self._rebuilder(name)).compare(report)

    async def replay_into(self, name: str, to: AnyInstant | int, *, report: Report = silent) -> Replayed:
        """Write every read model as of ``to`` into the schema ``lethelog_replay_NAME``, to be read with SQL.

        It holds the memories of all tenants in clear; drop it when you are done.
        """
        return await self._replaying.into(await self.caller(), {"name": name, "to": to}, report)

    async def replays(self) -> tuple[str, ...]:
        """The names of the replays there are."""
        return await self._replaying.names(await self.caller())

    async def leftovers(self) -> tuple[str, ...]:
        """Schemas that replays and comparisons left which were killed; `drop_replay` takes their names too."""
        return await self._replaying.leftovers(await self.caller())

    async def drop_replay(self, name: str) -> None:
        """Drop a replay, or one of the leftovers."""
        await self._replaying.drop(await self.caller(), name)

    async def parked(self, **query: Unpack[ParkedFields]) -> ParkedPage:
        """A page of what was set aside after failing again and again, by read models and by consumers."""
        return await self._parked.list(await self.caller(), query)

    async def dropped(self, **query: Unpack[DroppedFields]) -> ParkedPage:
        """A page of the messages that were taken out for good, with reasons."""
        return await self._parked.dropped(await self.caller(), query)

    async def retry_parked(
        self,
        *,
        consumer: str | None = None,
        read_model: str | None = None,
        sequence: AnyId | None = None,
        report: Report = silent,
    ) -> Retried:
        """Try again what was set aside: all of it, or one place's or one memory's, each sequence in order.

        Read models apply their events at once; messages are with their consumers again, which handle them while
        they run.
        """
        arguments = {"consumer": consumer, "read_model": read_model, "sequence": sequence}
        return await self._parked.retry(await self.caller(), arguments, report)

    async def drop_parked(
        self,
        id: str,  # noqa: A002 - as the list names it
        *,
        reason: DropReason,
        ticket: int | None = None,
    ) -> ParkedView:
        """Take a parked message out for good. ``reason`` is a code and ``ticket`` a number; both stay in clear."""
        return await self._parked.drop(await self.caller(), {"id": id, "reason": reason, "ticket": ticket})

    async def verify_log(
        self, *, from_position: int = 1, checkpoint: AnyCheckpoint | None = None, report: Report = silent
    ) -> Verification:
        """Recompute the hash chain over every stored byte; ``finding`` is the first thing that does not fit.

        ``checkpoint``, or its file, shows also a log that was shortened or written anew as a whole.
        """
        return await self._audit.verify(await self.caller(), {"from_position": from_position}, checkpoint, report)

    async def checkpoint(self) -> Checkpoint:
        """What the log says now; ``write`` it to a file, and keep that elsewhere."""
        return await self._audit.checkpoint(await self.caller())

    async def rotate_tenant_key(self, report: Report = silent) -> Rotated:
        """Replace the key of this tenant, while everything runs; goes on with what was broken off.

        ``report`` is told (done, all) in data keys.
        """
        return await self._keys.rotate(await self.caller(), report)

    async def rotate_tenant_keys(
        self, *, made_before: AnyInstant | None = None, report: Report = silent
    ) -> RotatedKeys:
        """Replace the keys of all tenants, or of those whose key was made before an instant.

        Give the same instant again to one that was broken off. ``report`` is told (done, all) in tenants.
        """
        return await self._keys.rotate_all(await self.caller(), {"made_before": made_before}, report)

    async def _rebuilder(self, name: str) -> Rebuilder:
        (await self.caller()).require("installation:admin")
        engine = self.engine
        return Rebuilder(engine.database, engine.log, engine.tail, self._projection(name), grace=engine.grace)

    def _projection(self, name: str) -> Projection:
        projection = self.engine.projection(name)
        if projection is None:
            known = ", ".join(one.name for one in self.engine.projections)
            raise InvalidInput("name", "is no read model", f"There are: {known}")
        return projection
