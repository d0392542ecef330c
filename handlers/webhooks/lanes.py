"""Whose deliveries."""

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Lane:
    """The deliveries of one webhook; they are sent one after another."""

    tenant: UUID
    webhook: UUID
