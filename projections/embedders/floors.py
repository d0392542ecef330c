"""Per model, the cosine below which a pair is noise and not worth a judge's time."""

_FLOORS: dict[str, float] = {}


def floor_for(model: str) -> float:
    """The floor of the embedder with this identity; 0.0, which leaves all to rank, for a model not measured."""
    return _FLOORS.get(model, 0.0)
