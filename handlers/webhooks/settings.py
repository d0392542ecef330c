"""How webhooks are sent, for the whole installation."""

from dataclasses import dataclass
from datetime import timedelta

MOST_PER_TENANT = 10
"""How many webhooks a tenant may have."""
DELAYS = (5.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0)
"""Seconds after each failed attempt, as the Standard Webhooks specification suggests; ten attempts in all."""


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """What an operator decides about all tenants' webhooks."""

    allow_private: bool = False
    """Send to addresses of this machine and its network too, and to this machine without TLS."""
    timeout: float = 10.0
    """Seconds one attempt may take, from looking up the name to the answer."""
    disable_after: timedelta = timedelta(days=5)
    """After this long without a success a webhook that fails is disabled."""
    log_kept: timedelta = timedelta(days=30)
    """How long a finished delivery stays in the log of deliveries; older events are not sent by themselves."""
