"""Shares for readers."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...handlers.analytics.views import Share


def share_text(one: "Share") -> str:
    """Such as ``8 of 10 (80 %, 95 % interval 49 to 94)``."""
    if one.share is None:
        return "none of none"
    return f"{one.hits} of {one.of} ({one.share:.0%}, 95 % interval {one.low:.0%} to {one.high:.0%})"
