"""The port: what every embedder promises, and the small steps all of them share.

An embedding is derived from a memory and is as private as the memory itself: it is never put into an event, a
log line or an error message, and it goes when the memory is erased. Vectors of two models never meet in one
comparison; ``Embedder.model`` is the name they are kept apart by.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ...domain.errors import Unavailable

Vectors = NDArray[np.float32]
"""Shape (n, dimensions): one row of length 1 per text."""

_ELSEWHERE = "@openai"


def elsewhere(model: str) -> bool:
    """Whether the embedder of this identity sends texts to a server."""
    return _ELSEWHERE in model


class Embedder(ABC):
    """Turns texts into unit vectors whose dot product is their cosine similarity.

    Attributes:
        model: identity stored beside every vector. Equal identities mean equal vectors: it names the weights,
            their version, and the version of each rule on the way from a text to its vector. A stored vector of
            another ``model`` is not comparable and has to be computed anew. One that sends texts to a server says
            so in it, see `elsewhere`: what is stored then tells for ever where a text was sent.
        dimensions: length of every vector.
        quick: a question is embedded in less time than handing it to a worker thread takes, some 0.1 ms, and the
            longest one in about a millisecond; it is then embedded in place.

    An embedder is synchronous; one that is not quick is called from worker threads, several at a time.
    """

    model: str
    dimensions: int
    quick: bool = False

    @abstractmethod
    def embed(self, texts: Sequence[str]) -> Vectors:
        """One vector per text, in order; shape (len(texts), dimensions), float32, finite, every row of length 1.

        The vector of a text does not depend on the texts it is embedded with. No text is cut: one longer than
        the model's window is read window by window and pooled (``windows``). A text of which the model knows
        nothing, even an empty one, has a vector too (``character_hashing``).

        Raises:
            Unavailable: a server does not answer, or answers with something that is not vectors; or closed.
            Misconfigured: the server refuses the request as it stands.
        """

    def close(self) -> None:  # noqa: B027 - having nothing to release is a fine implementation
        """Release what is held: weights, connections. May be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        # Nothing else: an embedder may hold an API key.
        return f"<{type(self).__name__} {self.model}>"


def listed(texts: Sequence[str]) -> list[str]:
    """The texts as a list. A bare string is refused: being a sequence too, it would be embedded by letters."""
    if isinstance(texts, str):
        raise TypeError("embed() takes a list of texts; put a single text into a list")
    return list(texts)


def stacked(rows: Sequence[NDArray[np.float32]], dimensions: int) -> Vectors:
    """The rows as one array; no rows give shape (0, dimensions)."""
    return np.stack(rows) if rows else np.empty((0, dimensions), dtype=np.float32)


def unit(vector: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """A vector other than zero, scaled to length 1."""
    wide = np.asarray(vector, dtype=np.float64)
    return (wide / np.linalg.norm(wide)).astype(np.float32)


def closed(embedder: Embedder) -> Unavailable:
    """The error for work that reaches an embedder after ``close``, as happens while a process stops."""
    return Unavailable(f"the embedder {embedder.model} is closed; open another one", model=embedder.model)
