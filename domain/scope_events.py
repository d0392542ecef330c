"""Scopes of a tenant, and what a read does that names none (behaviour.md 1.11, 1.12).

A scope is a word of a fixed alphabet that stands in clear by design.
"""

from typing import Literal

from .event import Event

RetrievalMode = Literal["off", "default", "require"]
"""A read without a scope searches everything, the default scope, or nothing: it is refused."""


class TenantScopeRegistered(Event):
    """A scope was named, so that it can be the default and is offered where one is required."""

    NAME = "tenant.scope_registered"

    scope: str


class TenantRetrievalChanged(Event):
    """What a read does that names no scope is another thing from now on."""

    NAME = "tenant.retrieval_changed"

    mode: RetrievalMode
    scope: str | None = None
    """The default scope, exactly with the mode ``default``."""
