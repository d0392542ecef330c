"""The root of every event, and the registry of stored names.

A stored name is explicit, short, versionless and for ever (a test freezes the list). Payload fields named in
``SEALED`` are personal text: they are encrypted under the data key of the memory that stream is about, and
those in ``SEALED_FOR`` under the key of the memory whose id stands in the named field. Once that key is
destroyed they read as None; everything else stays readable (design.md 4).

Identifiers are opaque ids from the directory, never outside names (design.md 3).
"""

from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

NamedKind = Literal["project", "user", "agent", "run", "session", "subject", "actor"]
_REGISTRY: dict[str, type["Event"]] = {}


class Event(BaseModel):
    """Root of all payloads. ``SCHEMA`` counts payload versions; older ones go through the upcasters."""

    # Written and read back as what they are, also numbers that are none: null would not be read as a number.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, ser_json_inf_nan="constants")

    NAME: ClassVar[str]
    SCHEMA: ClassVar[int] = 1
    SEALED: ClassVar[frozenset[str]] = frozenset()
    SEALED_FOR: ClassVar[dict[str, str]] = {}
    NAMED: ClassVar[dict[str, NamedKind]] = {}
    """Fields that hold the opaque id of an outside name, and the kind of name."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        name = cls.__dict__.get("NAME")
        if name is None:
            return
        if name in _REGISTRY:
            raise TypeError(
                f"two event classes are stored as {name!r}: {_REGISTRY[name].__name__}, {cls.__name__}"
            )
        _REGISTRY[name] = cls


def event_class(name: str) -> type[Event] | None:
    """The payload class stored under this name, or None for a name this version does not know."""
    return _REGISTRY.get(name)


def event_names(prefix: str = "") -> tuple[str, ...]:
    """All stored names that begin with ``prefix``, sorted."""
    return tuple(sorted(name for name in _REGISTRY if name.startswith(prefix)))
