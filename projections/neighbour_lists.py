"""The tables of the neighbour cache, and lists going into them and out of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ..streams.database import Connection
from .generations import HOME
from .nearest import Places, Scores

PORTION = 5_000
"""Memories whose lists one statement writes."""

TABLES = (
    f"create table if not exists {HOME}.candidate_marks (tenant uuid primary key, position bigint not null, "
    "made_by text not null, refreshed_at timestamptz not null default now())",
    f"create table if not exists {HOME}.candidate_groups (tenant uuid not null, memory_type text not null, "
    "scope text not null, members int not null, changes int not null, words bytea not null, "
    "occurrences bytea not null, primary key (tenant, memory_type, scope))",
    f"create table if not exists {HOME}.candidate_neighbours (tenant uuid not null, memory_id uuid not null, "
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
class Written:
    """Lists of some members of one group, to be stored."""

    owners: Sequence[UUID]
    words: Sequence[bytes] | None
    """Of each owner; None where they stand already."""
    pair: Entries
    single: Entries
    members: Sequence[UUID]
    """The whole group, which the entries' places point into."""


Stored = tuple[list[UUID], list[int], list[UUID], list[int]]
"""Pair ids and scores, single ids and scores of one memory."""


async def read_lists(connection: Connection, tenant: UUID, owners: Sequence[UUID]) -> dict[UUID, Stored]:
    """The stored lists of these memories."""
    async with connection.cursor(binary=True) as cursor:
        await cursor.execute(
            (
                b"select memory_id, pair_ids, pair_scores, single_ids, single_scores "
                b"from candidate_neighbours where tenant = %s and memory_id = any(%s::text::uuid[])"
            ),
            (tenant, _array(map(str, owners))),
        )
        return {row[0]: (row[1], row[2], row[3], row[4]) for row in await cursor.fetchall()}


async def write_lists(connection: Connection, tenant: UUID, written: Sequence[Written], *, words: bool) -> int:
    """Store lists, filed as live memory has them, with their words or without. Returns of how many memories."""
    columns: list[list[str]] = [[] for _ in range(2 + len(_LISTS))]
    for one in written:
        for column, values in zip(columns, _columns(one), strict=True):
            column += values
    statement = _UPSERT if words else _UPDATE
    for start in range(0, len(columns[0]), PORTION):
        # One text per column: ids, numbers and hexadecimal digits need no quoting, and lists of lists would.
        portion = [";".join(column[start : start + PORTION]) for column in columns[: len(columns) - (not words)]]
        await connection.execute(statement, (*portion, tenant))
    return len(columns[0])


def _columns(written: Written) -> list[list[str]]:
    """Owners, their lists column by column, and their words, as texts."""
    used: list[int] = np.unique(np.concatenate([written.pair.places, written.single.places])).tolist()
    names = {place: str(written.members[place]) for place in used}
    columns = [list(map(str, written.owners))]
    for entries in (written.pair, written.single):
        ends: list[int] = np.searchsorted(entries.owners, np.arange(len(written.owners)), side="right").tolist()
        bounds = list(zip([0, *ends], ends, strict=False))
        placed: list[int] = entries.places.tolist()
        for values in (
            [names[place] for place in placed],
            list(map(str, entries.scores.tolist())),
            list(map(repr, entries.similarities.tolist())),
        ):
            columns.append([_array(values[start:end]) for start, end in bounds])
    columns.append(["\\x" + each.hex() for each in written.words or ()])
    return columns


def _array(values: Iterable[str]) -> str:
    return "{" + ",".join(values) + "}"


_LISTS = ("pair_ids", "pair_scores", "pair_similarities", "single_ids", "single_scores", "single_similarities")
_TYPES = ("uuid[]", "int[]", "double precision[]") * 2
_SENT = ", ".join(["unnest(string_to_array(%s, ';'))"] * (1 + len(_LISTS)))
_CAST = ", ".join(f"s.{name}::{kind}" for name, kind in zip(_LISTS, _TYPES, strict=True))

_UPDATE = (
    "update candidate_neighbours n set "
    + ", ".join(f"{name} = s.{name}::{kind}" for name, kind in zip(_LISTS, _TYPES, strict=True))
    + f" from rows from ({_SENT}) s(memory_id, {', '.join(_LISTS)}) "
    + "where n.tenant = %s and n.memory_id = s.memory_id::uuid"
)
_UPSERT = (
    "insert into candidate_neighbours (tenant, memory_id, memory_type, scope, project, embedding_model, "
    + f"{', '.join(_LISTS)}, words) select l.tenant, l.memory_id, l.memory_type, l.scope, l.project, "
    + f"l.embedding_model, {_CAST}, s.words::bytea "
    + f"from rows from ({_SENT}, unnest(string_to_array(%s, ';'))) s(memory_id, {', '.join(_LISTS)}, words) "
    + "join live_memory l on l.tenant = %s and l.memory_id = s.memory_id::uuid "
    + "on conflict (tenant, memory_id) do update set "
    + ", ".join(f"{name} = excluded.{name}" for name in _LISTS)
)
