"""Memories that stand apart from others of the same text: those of a facade with a rule of sameness of its own.

What tells them apart stands in their metadata, sealed with the text, under names that no other door writes:

- an *item* of a store (LangGraph) is known by namespace and key. Of one name there is one live item, whatever it
  says; two items of one value are two memories.
- a *kept* memory (mem0) belongs to those it was said for. The same text of two users is two memories.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, cast
from uuid import UUID

ITEM = "langgraph_item"
KEPT = "mem0_memory"
RESERVED = frozenset({ITEM, KEPT})
"""Keys of the metadata that only the facades write."""


class Apart(NamedTuple):
    """What a memory is compared within."""

    among: str
    """The name of an item, or whose memory it is."""
    named: bool
    """Whether that alone makes two of them the same, and not the text."""


_ANY = Apart(json.dumps(["any"]), named=False)
"""Within this a text is refuted of any memory that stands apart."""


class ItemName(NamedTuple):
    """Where an item of a store is found."""

    namespace: tuple[str, ...]
    key: str

    @property
    def apart(self) -> Apart:
        """What an item of this name is compared within."""
        return Apart(json.dumps([ITEM, list(self.namespace), self.key]), named=True)


def item_name(metadata: Mapping[str, Any] | None) -> ItemName | None:
    """The name of the item that a memory of this metadata is; None where it is none."""
    said = _object(metadata, ITEM)
    if said is None:
        return None
    namespace, key = said.get("namespace"), said.get("key")
    if not isinstance(namespace, list | tuple) or not isinstance(key, str):
        return None
    labels = tuple(cast("list[Any]", namespace))
    return ItemName(labels, key) if all(isinstance(label, str) for label in labels) else None


def standing_apart(metadata: Mapping[str, Any] | None, *owners: UUID | None) -> Apart | None:
    """What a memory is compared within; None for one that is compared with all of its scope.

    ``owners`` are the opaque ids of user, agent and run.
    """
    name = item_name(metadata)
    if name is not None:
        return name.apart
    if _object(metadata, KEPT) is None:
        return None
    return Apart(json.dumps([KEPT, *(None if one is None else str(one) for one in owners)]), named=False)


def refuted_within(apart: Apart | None) -> tuple[Apart | None, ...]:
    """Within what the refutation of a memory is a bar to its text (settlement 4, F09).

    Of one that stands apart: for those of its name or owners, and for those that are compared with all.
    """
    return (None,) if apart is None else (apart, _ANY)


def barred_within(apart: Apart | None) -> tuple[Apart | None, ...]:
    """Within what a refutation of its text is a bar to a memory.

    What was refuted among all bars every memory; what was refuted of one that stands apart bars none that stands
    apart from it, and one that is compared with all, since that says it of those, too.
    """
    return (None, _ANY) if apart is None else (apart, None)


def blocked_within(apart: Apart | None) -> tuple[Apart | None, ...]:
    """Within what the text of an erased memory is kept out, where its re-entry is blocked.

    Whoever is forgotten comes back under another id, so the text of a person is kept out of all; the value of an
    item, which is often one of a few, under its name and where it would be compared with all.
    """
    return refuted_within(apart) if apart is not None and apart.named else (None,)


def carried(before: Mapping[str, Any] | None, given: Mapping[str, Any]) -> dict[str, Any] | None:
    """The metadata of a successor that was given some: a memory stays what it is, whoever revises it."""
    kept = {key: value for key, value in (before or {}).items() if key in RESERVED}
    return {**kept, **given} or None


def _object(metadata: Mapping[str, Any] | None, key: str) -> Mapping[str, Any] | None:
    found = (metadata or {}).get(key)
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else None
