"""An embedder that gives no vectors, for figures of everything else."""

from collections.abc import Sequence

from ...domain.errors import Unavailable
from ...projections.embedders import Embedder
from ...projections.embedders.port import Vectors


class NoVectors(Embedder):
    """Rows are written without a vector, as when an endpoint is down."""

    model = "none"
    dimensions = 8

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Always raises `Unavailable`."""
        raise Unavailable("no vectors in this measurement")
