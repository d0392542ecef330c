"""Embedders: from a memory's text to the vector it is found and compared by.

``open_embedder`` opens one by its name; ``Embedder`` is the port they all implement.
"""

from .opening import DEFAULT_EMBEDDER, open_embedder
from .port import Embedder, Vectors

__all__ = ["DEFAULT_EMBEDDER", "Embedder", "Vectors", "open_embedder"]
