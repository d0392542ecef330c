"""Rows of live memory under a filter, page after page, or ranked: what the facades read by."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from uuid import UUID

from ...domain.errors import InvalidInput
from ...projections.filters import MemoryFilter
from ...projections.generations import tenant_read_models
from ...projections.rows import MemoryRow, list_rows
from ...projections.search import Hit
from ..engine import Engine

_PAGE = 200
LONGEST_QUERY = 2_000
MOST_FOUND = 10_000
"""The furthest that a search looks: its limit and offset together."""


def check_query(query: str) -> str:
    """The words of a query. Raises `InvalidInput` for what cannot be looked for."""
    if not isinstance(query, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers are not all typed
        raise InvalidInput("query", "must be text")
    said = query.strip()
    if len(said) > LONGEST_QUERY:
        raise InvalidInput("query", f"has {len(said)} characters; at most {LONGEST_QUERY} are looked for")
    if "\x00" in said:
        raise InvalidInput("query", "holds a NUL character; remove it")
    return said


def check_window(limit: int, offset: int = 0) -> None:
    """Refuse a window that is none, or that ends further back than anybody looks."""
    for field, value in (("limit", limit), ("offset", offset)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:  # pyright: ignore[reportUnnecessaryIsInstance] - callers are not all typed
            raise InvalidInput(field, "must be a number of 0 or more")
    if limit + offset > MOST_FOUND:
        raise InvalidInput("limit", f"together with the offset it is more than {MOST_FOUND}", "Narrow the search")


async def each_row(engine: Engine, matching: MemoryFilter) -> AsyncGenerator[MemoryRow]:
    """All rows under a filter, newest first by when they were said."""
    after = None
    while True:
        async with tenant_read_models(engine.doors, matching.tenant) as connection:
            rows, _ = await list_rows(connection, matching, _PAGE, after)
        for row in rows:
            yield row
        if len(rows) < _PAGE:
            return
        after = (rows[-1].occurred_at, rows[-1].memory_id)


async def ranked(
    engine: Engine, query: str, matching: MemoryFilter, limit: int, only: Sequence[UUID] | None = None
) -> list[Hit]:
    """The best under a filter, and among ``only`` these where they are given."""
    if only is not None:
        matching = replace(matching, only=tuple(only))
    return await engine.search.search(query, matching, limit) if limit else []
