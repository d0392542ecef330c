"""A digest of the review queue as lines of plain text: no colour, no table that a mail would break."""

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from .output import counted, moment

if TYPE_CHECKING:
    from ...handlers.reviewing.digest import ReviewDigest


def digest_lines(found: "ReviewDigest") -> Iterator[str]:
    """The digest, longest waiting first."""
    if not found.total:
        yield f"Nothing waits for review at {moment(found.at)}."
    else:
        stale = f", {found.stale} of them stale" if found.stale else ""
        yield f"{counted(found.total, 'proposal')} waiting for review at {moment(found.at)}{stale}."
        for one in found.waiting:
            stale = f", {one.stale} stale" if one.stale else ""
            waits = age(found.at - one.oldest_at)
            yield f"  {one.count:>5}  {one.kind}: {one.action}{stale}; the oldest for {waits} ({one.oldest})"
    yield ""
    yield f"Since {moment(found.since)}:"
    if not found.handled:
        yield "  nothing came and nothing was decided"
    for one in found.handled:
        yield (
            f"  {one.kind}: {one.action}  came {one.came}, accepted {one.accepted}, rejected {one.rejected}, "
            f"withdrawn {one.withdrawn}"
        )


def age(span: timedelta) -> str:
    """How long, in the largest unit that it fills: ``3 days``, ``5 hours``, ``12 minutes``."""
    seconds = max(0, int(span.total_seconds()))
    for unit, length in (("day", 86_400), ("hour", 3_600)):
        if seconds >= length:
            return counted(seconds // length, unit)
    return counted(seconds // 60, "minute")
