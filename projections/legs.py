"""The statement that gathers the candidates of a search: all legs in one, of each row only what ranking asks.

The vector leg compares every vector under the filter, or asks the HNSW index, for each table by itself.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from ..domain import ranking
from ..domain.ranking import Weights
from .filters import MemoryFilter
from .half_vector import HalfVector

HNSW_EF_PER_CANDIDATE = 4
"""A filter under which the index is asked keeps a quarter of the table or more; what lacks is scanned on for."""
HNSW_MAX_SCAN_TUPLES = 200_000
_NAMED = "named"
"""Says of a row that its words or its topic brought it; the others say which table's vectors did."""
_DISTANCE = "embedding operator(public.<=>) %(vector)s::public.halfvec"
# Any of the words may match: a question holds many that no memory repeats. In small letters first: the parser
# drops words that are too long by their length as given.
_ANY = "replace(plainto_tsquery('english', lower(%(query)s))::text, $$' & '$$, $$' | '$$)::tsquery"
_WORDS = f"(select {_ANY} words) asked"


class Candidate(NamedTuple):
    """What the ranking needs to know of a memory."""

    memory_id: UUID
    topic: str
    recorded_at: datetime
    closed: bool
    distance: float | None
    """Cosine distance; None without a vector of this model, or where nothing is compared."""
    rank: float | None
    """Full-text rank; None where the words did not bring it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One search. Vectors of tables in ``indexed`` come from the index, all others are compared one by one."""

    query: str
    vector: HalfVector | None
    """None where the vector leg counts nothing."""
    model: str
    matching: MemoryFilter
    pool: int
    """How many candidates each leg brings."""
    weights: Weights
    indexed: frozenset[str] = frozenset()

    def statement(self) -> str | None:
        """SQL of all legs, for `values`; its rows are for `gather`. None where no leg brings anything."""
        text, topic = self._text_leg(), self._topic_leg()
        legs = {name: leg for name, leg in (("text_leg", text), ("topic_leg", topic)) if leg is not None}
        parts = self._nearest() + ([self._named(legs)] if legs else [])
        if not parts:
            return None
        first = ", ".join(f"{name} as materialized ({leg})" for name, leg in legs.items())
        return (f"with {first} " if legs else "") + " union all ".join(f"({part})" for part in parts)

    def values(self) -> dict[str, Any]:
        """Parameters of `statement`."""
        return {
            **self.matching.values(),
            "query": self.query,
            "searched_topic": self.query.strip(),
            "vector": self.vector,
            "model": self.model,
            "pool": self.pool,
        }

    def settings(self) -> dict[str, str]:
        """What holds while `statement` runs."""
        # A plan for any question reads its words anew for each row, and one for any tenant leaves the index out.
        settings = {"plan_cache_mode": "force_custom_plan"}
        if self.indexed:
            settings |= {
                "hnsw.ef_search": str(max(1, min(1_000, HNSW_EF_PER_CANDIDATE * self.pool))),
                "hnsw.iterative_scan": "strict_order",
                "hnsw.max_scan_tuples": str(HNSW_MAX_SCAN_TUPLES),
            }
        return settings

    def _nearest(self) -> list[str]:
        if self.vector is None:
            return []
        closed, tables = self.matching.as_of.closed, self.matching.as_of.tables
        # Vectors of another model are never compared, not even in the moment of a rebuild (F40).
        where = f"{self.matching.where()} and embedding_model = %(model)s"
        said = f"{{leg}}, memory_id, topic, recorded_at, {{closed}}, {_DISTANCE} as distance, null::real as rank"
        parts: list[str] = []
        for table, source in tables.items():
            if table in self.indexed:
                columns = said.format(leg=f"'{table}'", closed=closed)
                parts.append(f"select {columns} from {source} where {where} order by {_DISTANCE} limit %(pool)s")
                continue
            columns = said.format(leg=f"'{table}'", closed="closed")
            # The fence keeps the planner from answering a filtered query out of the vector index.
            bounded = (
                f"select memory_id, topic, recorded_at, {closed} as closed, embedding from {source} "
                f"where {where} offset 0"
            )
            parts.append(f"select {columns} from ({bounded}) bounded order by distance, memory_id limit %(pool)s")
        return parts

    def _text_leg(self) -> str | None:
        if not self.weights.text:
            return None
        return (
            f"select memory_id, ts_rank(lexemes, asked.words, 1) as rank from {self.matching.as_of.source}, "
            f"{_WORDS} where lexemes @@ asked.words and {self.matching.where()} "
            "order by rank desc, memory_id limit %(pool)s"
        )

    def _topic_leg(self) -> str | None:
        if not (self.weights.topic and ranking.topic_leg_applies(self.query)):
            return None
        return (
            f"select memory_id from {self.matching.as_of.source} "
            f"where strpos(lower(topic), lower(%(searched_topic)s)) > 0 and {self.matching.where()} "
            "order by occurred_at desc, memory_id limit %(pool)s"
        )

    def _named(self, legs: Iterable[str]) -> str:
        """What the legs found by name, with what the others know from the start."""
        names = list(legs)
        source, where = self.matching.as_of.source, self.matching.where()
        distance = (
            "null::float8"
            if self.vector is None
            else f"case when embedding_model = %(model)s then {_DISTANCE} end"
        )
        rank, ranked = (
            ("rank", " left join text_leg using (memory_id)") if "text_leg" in names else ("null::real", "")
        )
        found = " union all ".join(f"select memory_id from {name}" for name in names)
        return (
            f"select '{_NAMED}', memory_id, topic, recorded_at, {self.matching.as_of.closed}, {distance}, {rank} "
            f"from {source}{ranked} where memory_id = any(array({found})) and {where}"
        )


def too_little(asked: Asked, rows: Sequence[tuple[Any, ...]]) -> frozenset[str]:
    """Tables whose index gave up early, or that hold fewer rows under the filter than was thought."""
    brought = Counter(row[0] for row in rows)
    return frozenset(table for table in asked.indexed if brought[table] < asked.pool)


def gather(asked: Asked, rows: Sequence[tuple[Any, ...]]) -> list[Candidate]:
    """Candidates from the rows of a statement: of those that vectors brought the nearest of all tables."""
    named = [Candidate(*row[1:]) for row in rows if row[0] == _NAMED]
    near = [Candidate(*row[1:]) for row in rows if row[0] != _NAMED]
    if len(near) > asked.pool:
        near.sort(key=lambda one: (one.distance, one.memory_id))
    if not named:
        return near[: asked.pool]
    # What was brought by its words too says by which rank.
    return [*{one.memory_id: one for one in (*near[: asked.pool], *named)}.values()]
