"""Opens an embedder by the name a setting gives it."""

from typing import Any

from ...domain.errors import Misconfigured
from .port import Embedder

DEFAULT_EMBEDDER = "wordllama"


def open_embedder(name: str = DEFAULT_EMBEDDER, **options: Any) -> Embedder:
    """The embedder called ``name``, loaded and ready; the caller closes it.

    Raises:
        Misconfigured: no such name, an option it does not have, or a package or file it needs is missing.
    """
    if name == "wordllama":
        from .wordllama import WordLlamaEmbedder

        return WordLlamaEmbedder(**options)
    raise Misconfigured(f"there is no embedder {name!r}", known=["wordllama"])
