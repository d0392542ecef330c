"""The same for programs without asyncio: what is done to an installation; see `handlers.installation`."""

from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import Any, TypeVar, Unpack

from ...projections.copy_parking import Failing
from ...projections.rebuild import Comparison, Rebuilt, Report, silent
from ...streams.audit import Checkpoint, Verification
from ...streams.parking_place import DropReason
from ...streams.rotation import Rotated
from ..arguments import AnyId, AnyInstant, DroppedFields, ParkedFields
from ..keys import RotatedKeys
from .audit import AnyCheckpoint
from .installation import AsyncInstallation
from .views import ParkedPage, ParkedView, Replayed, Retried

T = TypeVar("T")


class BlockingInstallation(ABC):
    """Waits for each answer of the asyncio door."""

    _door: AsyncInstallation

    @abstractmethod
    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the asyncio door and wait for it."""

    def rebuild(self, name: str, report: Report = silent, *, failing: Failing = "stop") -> Rebuilt:
        """See `AsyncMemory.rebuild`."""
        return self.run(self._door.rebuild(name, report, failing=failing))

    def cancel_rebuild(self, name: str) -> bool:
        """See `AsyncMemory.cancel_rebuild`."""
        return self.run(self._door.cancel_rebuild(name))

    def compare(self, name: str, report: Report = silent) -> Comparison:
        """See `AsyncMemory.compare`."""
        return self.run(self._door.compare(name, report))

    def replay_into(self, name: str, to: AnyInstant | int, *, report: Report = silent) -> Replayed:
        """See `AsyncMemory.replay_into`."""
        return self.run(self._door.replay_into(name, to, report=report))

    def replays(self) -> tuple[str, ...]:
        """See `AsyncMemory.replays`."""
        return self.run(self._door.replays())

    def leftovers(self) -> tuple[str, ...]:
        """See `AsyncMemory.leftovers`."""
        return self.run(self._door.leftovers())

    def drop_replay(self, name: str) -> None:
        """See `AsyncMemory.drop_replay`."""
        self.run(self._door.drop_replay(name))

    def parked(self, **query: Unpack[ParkedFields]) -> ParkedPage:
        """See `AsyncMemory.parked`."""
        return self.run(self._door.parked(**query))

    def dropped(self, **query: Unpack[DroppedFields]) -> ParkedPage:
        """See `AsyncMemory.dropped`."""
        return self.run(self._door.dropped(**query))

    def retry_parked(
        self,
        *,
        consumer: str | None = None,
        read_model: str | None = None,
        sequence: AnyId | None = None,
        report: Report = silent,
    ) -> Retried:
        """See `AsyncMemory.retry_parked`."""
        return self.run(
            self._door.retry_parked(consumer=consumer, read_model=read_model, sequence=sequence, report=report)
        )

    def drop_parked(
        self,
        id: str,  # noqa: A002 - as the list names it
        *,
        reason: DropReason,
        ticket: int | None = None,
    ) -> ParkedView:
        """See `AsyncMemory.drop_parked`."""
        return self.run(self._door.drop_parked(id, reason=reason, ticket=ticket))

    def verify_log(
        self, *, from_position: int = 1, checkpoint: AnyCheckpoint | None = None, report: Report = silent
    ) -> Verification:
        """See `AsyncMemory.verify_log`."""
        return self.run(self._door.verify_log(from_position=from_position, checkpoint=checkpoint, report=report))

    def checkpoint(self) -> Checkpoint:
        """See `AsyncMemory.checkpoint`."""
        return self.run(self._door.checkpoint())

    def rotate_tenant_key(self, report: Report = silent) -> Rotated:
        """See `AsyncMemory.rotate_tenant_key`."""
        return self.run(self._door.rotate_tenant_key(report))

    def rotate_tenant_keys(self, *, made_before: AnyInstant | None = None, report: Report = silent) -> RotatedKeys:
        """See `AsyncMemory.rotate_tenant_keys`."""
        return self.run(self._door.rotate_tenant_keys(made_before=made_before, report=report))
