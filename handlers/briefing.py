"""Briefing and handoff: what somebody who starts, or takes over, should know first (behaviour.md 1.12).

Nothing without a selector: there is no default that tells everything. Only live memories are told, or with
``valid_at`` those that held then; every section says how many there are, however few it lists.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, Self, get_args
from uuid import UUID

from pydantic import Field, model_validator

from ..domain.fields import MemoryType, Name, Scope, parse
from ..domain.policy import STALE_TYPES, ForgettingPolicy
from ..projections.as_of import AsOf
from ..projections.briefing import (
    LATEST_DUE,
    NEWEST,
    OLDEST,
    SURFACING,
    CommitmentRow,
    SectionRows,
    read_commitments,
    read_section,
)
from ..projections.commitments import CommitmentStates
from ..projections.filters import MemoryFilter
from ..projections.generations import tenant_read_models
from ..projections.live_memory import LiveMemory
from ..projections.rows import matching_ids
from ..streams.database import Connection
from .access.caller import Caller
from .as_of import Timed, echoed, look_from
from .choices import Mode, SectionName, Selector
from .contradictions.refusing import presented, refused_pairs, sides_of
from .engine import Engine
from .operating.views import BriefingItem, BriefingView, MemoryView, PromisedView, SectionView, SelectorView
from .present import present_rows
from .tenancy.scopes import applied_scope

EXCERPT = 600
"""Characters of an excerpt, its mark included."""
BRIEFING: tuple[SectionName, ...] = get_args(SectionName)
HANDOFF: tuple[SectionName, ...] = ("recent_decisions", "commitments", "preferences")
_LIMITS: Mapping[Mode, int] = {"brief": 3, "full": 25, "handoff": 25}


class BriefingQuery(Timed):
    """What to be told about, and how much. ``section_limit`` 1 to 100."""

    selector: Selector
    scope: Scope | None = None
    project: Name | None = None
    include_unscoped: bool = False
    """With a project: also what belongs to none."""
    mode: Mode = "brief"
    sections: tuple[SectionName, ...] | None = Field(default=None, min_length=1, max_length=16)
    """None for those of the mode."""
    section_limit: int | None = Field(default=None, ge=1, le=100)
    generated_for: Name | None = None
    """Who takes over; only echoed."""

    @model_validator(mode="after")
    def _selector_has_what_it_names(self) -> Self:
        for field in ("scope", "project"):
            named = self.selector in (field, "scope_project")
            if named != (getattr(self, field) is not None):
                raise ValueError(
                    f"{field} must {'' if named else 'not '}be given with the selector {self.selector}"
                )
        if self.include_unscoped and self.selector != "scope_project":
            raise ValueError("include_unscoped goes with the selector scope_project")
        if self.generated_for is not None and self.mode != "handoff":
            raise ValueError("generated_for goes with the mode handoff")
        return self


@dataclass(frozen=True, slots=True)
class _Section:
    types: tuple[MemoryType, ...]
    order: str = NEWEST
    only: Literal["all", "stale", "commitments", "overdue"] = "all"


_SECTIONS: Mapping[SectionName, _Section] = {
    "commitments": _Section((), SURFACING, "commitments"),
    "overdue": _Section((), LATEST_DUE, "overdue"),
    "blockers": _Section(("blocker",)),
    "stale_candidates": _Section(STALE_TYPES, OLDEST, "stale"),
    "recent_decisions": _Section(("decision",)),
    "preferences": _Section(("preference",)),
}


class Briefing:
    """Briefs one caller."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def brief(self, caller: Caller, arguments: Mapping[str, Any]) -> BriefingView:
        """The sections asked for, each with its exact count, all of one moment.

        Raises `InvalidInput` without a selector, and where the tenant requires a scope and none is named.
        """
        caller.require("memory:read")
        query = parse(BriefingQuery, arguments)
        scope = await applied_scope(self._engine, caller.tenant, query.scope)
        as_of = await look_from(self._engine, caller.tenant, query, LiveMemory.name, CommitmentStates.name)
        stale_before = (await self._policy(caller.tenant, as_of)).stale_before(as_of.now)
        wanted = query.sections or (HANDOFF if query.mode == "handoff" else BRIEFING)
        limit = query.section_limit or _LIMITS[query.mode]
        matching = await self._matching(caller.tenant, query, scope, as_of)
        pairs = await refused_pairs(self._engine, caller.tenant, as_of, query.after)
        sides, touched = sides_of(pairs), set[UUID]()
        found: dict[str, SectionRows] = {}
        if matching is not None:
            async with tenant_read_models(
                self._engine.doors, caller.tenant, isolation="repeatable read"
            ) as connection:
                if sides:
                    touched = await matching_ids(connection, matching, sides)
                told = replace(matching, without=sides)
                for name in dict.fromkeys(wanted):
                    found[name] = await self._section(connection, told, _SECTIONS[name], stale_before, limit)
        sections = {
            name: await self._presented(caller.tenant, found.get(name), as_of, stale_before, query.mode)
            for name in dict.fromkeys(wanted)
        }
        return BriefingView(
            selector=SelectorView(
                kind=query.selector,
                scope=query.scope,
                project=query.project,
                include_unscoped=query.include_unscoped,
            ),
            mode=query.mode,
            generated_at=self._engine.clock(),
            generated_for=query.generated_for,
            sections=sections,
            refused=await presented(self._engine, caller.tenant, pairs, touched),
            applied_scope=scope,
            as_of=echoed(as_of),
        )

    async def _matching(
        self, tenant: UUID, query: BriefingQuery, scope: str | None, as_of: AsOf
    ) -> MemoryFilter | None:
        """What every section is taken from; None where the project was never named and all of it is asked for."""
        references: dict[str, UUID] = {}
        if query.project is not None:
            project = await self._engine.directory.find(tenant, "project", query.project)
            if project is None and not query.include_unscoped:
                return None
            if project is not None:
                references["project"] = project
        return MemoryFilter(
            tenant=tenant,
            as_of=as_of,
            # What held then may have been superseded since.
            status="active" if as_of.valid_at is None else "retrievable",
            current=as_of.valid_at is None,
            scope=scope,
            references=references,
            no_project=query.include_unscoped and not references,
            or_no_project=query.include_unscoped,
        )

    async def _section(
        self, connection: Connection, matching: MemoryFilter, section: _Section, stale_before: datetime, limit: int
    ) -> SectionRows:
        if section.only in ("commitments", "overdue"):
            due_before = matching.as_of.now if section.only == "overdue" else None
            return await read_commitments(connection, matching, section.order, limit, due_before=due_before)
        narrowed = replace(
            matching,
            memory_types=section.types,
            stale_before=stale_before if section.only == "stale" else None,
        )
        return await read_section(connection, narrowed, section.order, limit)

    async def _presented(
        self, tenant: UUID, found: SectionRows | None, as_of: AsOf, stale_before: datetime, mode: Mode
    ) -> SectionView:
        if found is None:
            return SectionView(count=0, items=(), has_more=False)
        views = await present_rows(self._engine, tenant, found.rows, as_of.now)
        items = [_item(view, as_of.now, stale_before, mode) for view in views]
        if found.commitments:
            names = await self._engine.directory.names(tenant, {one.owner for one in found.commitments})
            items = [
                item.model_copy(update={"commitment": _promised(one, names, as_of.now)})
                for item, one in zip(items, found.commitments, strict=True)
            ]
        return SectionView(count=found.count, items=tuple(items), has_more=found.count > len(items))

    async def _policy(self, tenant: UUID, as_of: AsOf) -> ForgettingPolicy:
        """The forgetting policy of the moment that is looked at."""
        if as_of.known is None:
            return (await self._engine.tenants.get(tenant)).policy
        then = await self._engine.tenants.as_of(tenant, as_of.known)
        return ForgettingPolicy() if then is None else then.policy


def _item(view: MemoryView, now: datetime, stale_before: datetime, mode: Mode) -> BriefingItem:
    return BriefingItem(
        id=view.id,
        memory_type=view.memory_type,
        topic=view.topic,
        excerpt=None if mode == "brief" else excerpt(view.content),
        scope=view.scope,
        project=view.project,
        pinned=view.pinned,
        verified=view.verified,
        occurred_at=view.occurred_at,
        recorded_at=view.recorded_at,
        fresh_at=view.fresh_at,
        age_days=max(0, (now - view.fresh_at).days),
        stale=view.memory_type in STALE_TYPES and view.fresh_at < stale_before,
    )


def _promised(one: CommitmentRow, names: Mapping[UUID, str], now: datetime) -> PromisedView:
    return PromisedView(
        id=one.commitment_id,
        status=one.status,
        owner=None if one.owner is None else names.get(one.owner),
        due_at=one.due_at,
        next_surfacing_at=one.next_surfacing_at,
        overdue=one.due_at is not None and one.due_at < now,
    )


def excerpt(text: str) -> str:
    """The beginning of a text, whole where it is short enough."""
    return text if len(text) <= EXCERPT else f"{text[: EXCERPT - 1].rstrip()}…"
