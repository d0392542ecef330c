"""How payloads written by earlier versions are read: one pure step per (name, schema).

A step takes the decoded fields of schema n and returns those of n + 1. Steps are chained until the class's
present ``SCHEMA``; a sample of every (name, schema) ever stored is frozen in the tests and replayed.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]


def _superseded_from_1(fields: dict[str, Any]) -> dict[str, Any]:
    """Schema 1 did not say until when the older memory held; then it held until this was recorded."""
    return {**fields, "held_until": None}


def _resolution_staged_from_1(fields: dict[str, Any]) -> dict[str, Any]:
    """Schema 1 did not say what the judge had been shown."""
    return {**fields, "written": []}


def _transitioned_from_1(fields: dict[str, Any]) -> dict[str, Any]:
    """Schema 1 did not name the model of the closer's judge."""
    return {**fields, "model": None}


UPCASTERS: Mapping[tuple[str, int], Upcaster] = MappingProxyType(
    {
        ("commitment.transitioned", 1): _transitioned_from_1,
        ("memory.superseded", 1): _superseded_from_1,
        ("proposal.resolution_staged", 1): _resolution_staged_from_1,
    }
)
"""(stored name, schema it reads) -> step to the next schema."""


def upcast(
    name: str,
    schema: int,
    fields: dict[str, Any],
    *,
    present: int,
    steps: Mapping[tuple[str, int], Upcaster] = UPCASTERS,
) -> dict[str, Any]:
    """Fields as schema ``present`` has them. Raises `KeyError` naming a missing step."""
    while schema < present:
        fields = steps[(name, schema)](fields)
        schema += 1
    return fields
