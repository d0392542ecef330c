"""Which memories are stale: one rule for the forgetting pass and for briefings (behaviour.md 1.12, 1.16; A21)."""


def stale(row: str = "live_memory") -> str:
    """SQL of a row whose freshness lies before ``%(stale_before)s``, strictly: at that very instant it is fresh.

    Only types of `policy.STALE_TYPES` are asked for.
    """
    return f"{row}.fresh_at < %(stale_before)s"
