"""Which memories a read is about: one place where every read path gets its conditions from."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from .as_of import AsOf
from .live_memory import LIVE, RETRIEVABLE
from .stale import stale

StatusFilter = Literal[
    "retrievable",
    "active",
    "live",
    "superseded",
    "archived",
    "suppressed",
    "refuted",
    "quarantined",
    "expired",
    "all",
]
_STATUS: Mapping[str, str] = {
    "retrievable": RETRIEVABLE,
    "active": f"{RETRIEVABLE} and successor is null",
    "live": LIVE,
    "superseded": "successor is not null and not (suppressed or refuted or quarantined)",
    "archived": "archived and successor is null and not (refuted or quarantined)",
    "suppressed": "suppressed and not (archived or refuted or quarantined) and successor is null",
    "refuted": "refuted",
    "quarantined": "quarantined and not refuted",
    "expired": "expires_at <= %(now)s and not (archived or suppressed or refuted or quarantined) "
    "and successor is null",
    "all": "true",
}


@dataclass(frozen=True, slots=True)
class MemoryFilter:
    """Conditions over live memory. The tenant is never optional."""

    tenant: UUID
    as_of: AsOf
    status: StatusFilter = "retrievable"
    current: bool = False
    memory_types: tuple[str, ...] = ()
    scope: str | None = None
    references: Mapping[str, UUID] = field(default_factory=dict[str, UUID])
    """Column (project, user_ref, …) -> opaque id it must equal."""
    no_project: bool = False
    or_no_project: bool = False
    """What belongs to no project counts as that of the project asked for."""
    projects: tuple[UUID, ...] | None = None
    """Any of these; None for all there are."""
    only: tuple[UUID, ...] | None = None
    """Only these memories; None for all there are."""
    tags: tuple[str, ...] = ()
    without_tag: str | None = None
    recorded_after: datetime | None = None
    recorded_before: datetime | None = None
    stale_before: datetime | None = None
    """Only what is stale, by the rule of the forgetting pass."""
    session_run: UUID | None = None
    """The session run that an event of the memory was made in."""
    without: tuple[UUID, ...] = ()
    """Memories that are left out."""

    def where(self) -> str:
        """SQL condition; its values are `values`."""
        parts = ["tenant = %(tenant)s", f"({_STATUS[self.status]})", *self.as_of.where()]
        if self.current:
            parts.append(f"not {self.as_of.closed}")
        if self.memory_types:
            parts.append("memory_type = any(%(memory_types)s)")
        if self.scope is not None:
            parts.append("scope = %(scope)s")
        for column in self.references:
            one = f"{column} = %(ref_{column})s"
            parts.append(f"({one} or project is null)" if column == "project" and self.or_no_project else one)
        if self.no_project:
            parts.append("project is null")
        if self.projects is not None:
            parts.append("project = any(%(projects)s)")
        if self.only is not None:
            parts.append("memory_id = any(%(only)s)")
        if self.tags:
            parts.append("tags @> %(tags)s::jsonb")
        if self.without_tag is not None:
            parts.append("not tags @> to_jsonb(%(without_tag)s::text)")
        if self.recorded_after is not None:
            parts.append("recorded_at >= %(recorded_after)s")
        if self.recorded_before is not None:
            parts.append("recorded_at < %(recorded_before)s")
        if self.stale_before is not None:
            parts.append(stale())
        if self.session_run is not None:
            parts.append(
                "memory_id in (select h.memory_id from memory_history h "
                "where h.tenant = %(tenant)s and h.session = %(session_run)s "
                "and (%(known)s::bigint is null or h.position <= %(known)s))"
            )
        if self.without:
            parts.append("memory_id <> all(%(without)s)")
        return " and ".join(parts)

    def values(self) -> dict[str, Any]:
        """Parameters of `where`."""
        return {
            "tenant": self.tenant,
            **self.as_of.values(),
            "memory_types": list(self.memory_types),
            "scope": self.scope,
            "tags": json.dumps(self.tags, ensure_ascii=False),
            "projects": list(self.projects or ()),
            "only": list(self.only or ()),
            "without_tag": self.without_tag,
            "recorded_after": self.recorded_after,
            "recorded_before": self.recorded_before,
            "stale_before": self.stale_before,
            "session_run": self.session_run,
            "without": list(self.without),
            **{f"ref_{column}": value for column, value in self.references.items()},
        }
