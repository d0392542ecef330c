"""The tables of the neighbour cache, and lists going into them and out of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ..streams.database import Connection
from .nearest import Places, Scores

PORTION = 5_000
"""Memories whose lists one statement writes."""

TABLES = (
    "create table if not exists {schema}.candidate_marks (tenant uuid primary key, position bigint not null, "
    "made_by text not null, refreshed_at timestamptz not null default now())",
    "create table if not exists {schema}.candidate_groups (tenant uuid not null, memory_type text not null, "
    "scope text not null, members int not null, changes int not null, words bytea not null, "
    "occurrences bytea not null, primary key (tenant, memory_type, scope))",
    "create table if not exists {schema}.candidate_neighbours (tenant uuid not null, memory_id uuid not null, "
    "memory_type text not null, scope text not null, project uuid, embedding_model text, words bytea not null, "
    "pair_ids uuid[] not null, pair_scores int[] not null, pair_similarities double precision[] not null, "
    "single_ids uuid[] not null, single_scores int[] not null, "
    "single_similarities double precision[] not null, primary key (tenant, memory_id)) with (fillfactor = 70)",
)


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries of several lists, sorted by owner and best first.

    ``owners`` are indices into the memories whose lists these are, ``places`` into the members of the group.
    """

    owners: Places
    places: Places
    scores: Scores
    similarities: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Present:
    """Stored lists of one kind, as `Entries` without the similarities."""

    owners: Places
    places: Places
    scores: Scores


async def read_lists(
    connection: Connection, schema: str, tenant: UUID, owners: Sequence[UUID], place_of: Mapping[UUID, int]
) -> tuple[Present, Present]:
    """The (pair, single) lists of these memories."""
    async with connection.cursor(binary=True) as cursor:
        await cursor.execute(
            (
                f"select memory_id, pair_ids, pair_scores, single_ids, single_scores "
                f"from {schema}.candidate_neighbours where tenant = %s and memory_id = any(%s::text::uuid[])"
            ).encode(),
            (tenant, _array(map(str, owners))),
        )
        rows = await cursor.fetchall()
    number_of = {memory_id: number for number, memory_id in enumerate(owners)}
    numbers = [number_of[row[0]] for row in rows]
    return (
        _present(numbers, [row[1] for row in rows], [row[2] for row in rows], place_of),
        _present(numbers, [row[3] for row in rows], [row[4] for row in rows], place_of),
    )


def _present(
    numbers: Sequence[int],
    ids: Sequence[Sequence[UUID]],
    scores: Sequence[Sequence[int]],
    place_of: Mapping[UUID, int],
) -> Present:
    return Present(
        np.repeat(np.array(numbers, np.int64), np.array([len(each) for each in ids], np.int64)),
        np.array([place_of[one] for each in ids for one in each], np.int64),
        np.array([score for each in scores for score in each], np.int64),
    )


async def write_lists(
    connection: Connection,
    schema: str,
    tenant: UUID,
    owners: Sequence[UUID],
    words: Sequence[bytes] | None,
    pair: Entries,
    single: Entries,
    members: Sequence[UUID],
) -> None:
    """Store the lists of these memories, filed as live memory has them. Without ``words`` these stand already."""
    used: list[int] = np.unique(np.concatenate([pair.places, single.places])).tolist()
    names = {place: str(members[place]) for place in used}
    columns = [
        list(map(str, owners)),
        *_columns(pair, len(owners), names),
        *_columns(single, len(owners), names),
    ]
    if words is not None:
        columns.append([each.hex() for each in words])
    statement = (_UPDATE if words is None else _UPSERT).format(schema=schema)
    for start in range(0, len(owners), PORTION):
        # One text per column: ids, numbers and hexadecimal digits need no quoting, and lists of lists would.
        portion = [";".join(column[start : start + PORTION]) for column in columns]
        await connection.execute(statement, (*portion, tenant))


def _columns(entries: Entries, owners: int, names: Mapping[int, str]) -> list[list[str]]:
    """(ids, scores, similarities) as one array literal per owner."""
    ends = np.searchsorted(entries.owners, np.arange(owners), side="right").tolist()
    bounds = list(zip([0, *ends[:-1]], ends, strict=True)) if owners else []
    placed: list[int] = entries.places.tolist()
    values = (
        [names[place] for place in placed],
        list(map(str, entries.scores.tolist())),
        list(map(repr, entries.similarities.tolist())),
    )
    return [[_array(column[start:end]) for start, end in bounds] for column in values]


def _array(values: Iterable[str]) -> str:
    return "{" + ",".join(values) + "}"


_LISTS = ("pair_ids", "pair_scores", "pair_similarities", "single_ids", "single_scores", "single_similarities")
_TYPES = ("uuid[]", "int[]", "double precision[]") * 2
_SENT = ", ".join(["unnest(string_to_array(%s, ';'))"] * (1 + len(_LISTS)))
_CAST = ", ".join(f"s.{name}::{kind}" for name, kind in zip(_LISTS, _TYPES, strict=True))

_UPDATE = (
    "update {schema}.candidate_neighbours n set "
    + ", ".join(f"{name} = s.{name}::{kind}" for name, kind in zip(_LISTS, _TYPES, strict=True))
    + f" from rows from ({_SENT}) s(memory_id, {', '.join(_LISTS)}) "
    + "where n.tenant = %s and n.memory_id = s.memory_id::uuid"
)
_UPSERT = (
    "insert into {schema}.candidate_neighbours (tenant, memory_id, memory_type, scope, project, embedding_model, "
    + f"{', '.join(_LISTS)}, words) select l.tenant, l.memory_id, l.memory_type, l.scope, l.project, "
    + f"l.embedding_model, {_CAST}, decode(s.words, 'hex') "
    + f"from rows from ({_SENT}, unnest(string_to_array(%s, ';'))) s(memory_id, {', '.join(_LISTS)}, words) "
    + "join {schema}.live_memory l on l.tenant = %s and l.memory_id = s.memory_id::uuid "
    + "on conflict (tenant, memory_id) do update set "
    + ", ".join(f"{name} = excluded.{name}" for name in _LISTS)
)
