"""How sure a counted share is."""

import math

Z_95 = 1.959964


def wilson(hits: int, n: int) -> tuple[float, float]:
    """The 95 % interval of a share, by Wilson; the whole range where nothing was counted."""
    if not n:
        return (0.0, 1.0)
    share = hits / n
    middle = (share + Z_95 * Z_95 / (2 * n)) / (1 + Z_95 * Z_95 / n)
    half = Z_95 / (1 + Z_95 * Z_95 / n) * math.sqrt(share * (1 - share) / n + Z_95 * Z_95 / (4 * n * n))
    return (middle - half, middle + half)
