"""Webhooks of a tenant: where events are told over HTTP, and until when they are.

URL and secrets stand in them as ciphertext under the tenant's key, and not as sealed fields: whoever may read the
log must see neither.
"""

from datetime import datetime
from typing import Literal

from .event import Event


class WebhookRegistered(Event):
    """From here on events of these names are sent to a URL."""

    NAME = "webhook.registered"

    names: tuple[str, ...]
    """Event names, or families such as ``proposal.*``."""
    url: str
    """Ciphertext, base64."""
    secret: str
    """Ciphertext, base64."""


class WebhookChanged(Event):
    """Another URL, or other events; what is None stays."""

    NAME = "webhook.changed"

    names: tuple[str, ...] | None = None
    url: str | None = None
    """Ciphertext, base64."""


class WebhookSecretRotated(Event):
    """Another secret signs; those before sign beside it until then at most."""

    NAME = "webhook.secret_rotated"

    secret: str
    """Ciphertext, base64."""
    previous_until: datetime


class WebhookDisabled(Event):
    """Nothing is sent any more: its receiver failed for days, or said that it is gone."""

    NAME = "webhook.disabled"

    reason: Literal["failing", "gone"]
    failing_since: datetime | None = None


class WebhookEnabled(Event):
    """What happens from here on is sent again."""

    NAME = "webhook.enabled"


class WebhookRemoved(Event):
    """It is no more."""

    NAME = "webhook.removed"
