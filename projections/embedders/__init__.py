"""Embedders: from a memory's text to the vector it is found and compared by.

``open_embedder`` opens one by its name; ``Embedder`` is the port they all implement; ``floor_for`` says from which
cosine on a pair of one model's vectors is worth a judge's time.
"""

from .floors import floor_for
from .opening import DEFAULT_EMBEDDER, default_embedder, open_embedder
from .port import Embedder, Vectors, elsewhere

__all__ = [
    "DEFAULT_EMBEDDER",
    "Embedder",
    "Vectors",
    "default_embedder",
    "elsewhere",
    "floor_for",
    "open_embedder",
]
