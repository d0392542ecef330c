"""LangGraph's store on Lethelog: ``from lethelog import LethelogStore``.

Calls and answers are those of LangGraph's own stores (langgraph-checkpoint 4); where they differ from each other
or from this one is told in docs/how-to/langgraph.md.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        IndexConfig,
        InvalidNamespaceError,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
        get_text_at_path,
        tokenize_path,
        validate_op_namespace,
    )
    from langgraph.store.base import Item as StoreItem
except ImportError as error:
    raise ImportError(
        "LethelogStore needs LangGraph's store interface, which is not here: pip install 'lethelog[langgraph]'"
    ) from error

from ...domain.apart import ItemName
from ...domain.errors import InvalidInput
from ..blocking import BlockingMemory
from ..memory import AsyncMemory
from . import item_values
from .behind import memory_behind
from .finding import check_window
from .items import Item, Items, Put, Wanted, refreshed

T = TypeVar("T")
_AT_ONCE = 64
_WHOLE = "$"


class LethelogStore(BaseStore):
    """A store of LangGraph over a memory, of that memory's tenant. Whoever opened the memory closes it.

    Over a `Memory` it answers both the plain and the ``a…`` calls, from any thread and any event loop; over an
    `AsyncMemory` the ``a…`` calls in that memory's event loop, and the plain ones from other threads.

    ``index`` takes ``fields`` only, since vectors are made by the memory's own embedder: the texts at these paths
    become the topic of an item, which weighs most when it is searched for. ``ttl`` is LangGraph's; an item is gone
    in the very moment it expires, so that nothing has to be swept.
    """

    supports_ttl = True

    def __init__(
        self,
        memory: BlockingMemory | AsyncMemory,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        super().__init__()
        self._blocking = memory if isinstance(memory, BlockingMemory) else None
        self._memory = memory_behind(memory)
        self._loop = None if self._blocking is not None else asyncio.get_running_loop()
        self._items = Items(self._memory.engine)
        self._paths = _paths_of(index)
        self.ttl_config = ttl

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do several operations: what is read was there before, and of several puts of one key the last counts."""
        work = self._execute(list(ops))
        if self._blocking is not None:
            return self._blocking.run(work)
        return self._from_another_thread(work)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """See `batch`."""
        work = self._execute(list(ops))
        if self._blocking is not None:
            return await asyncio.to_thread(self._blocking.run, work)
        return await work

    def _from_another_thread(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is self._loop:
            work.close()
            raise RuntimeError(
                "this store works in this event loop, which a plain call would stop; await the call with the a in "
                "front (aget, aput, …), or make the store of a Memory"
            )
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _execute(self, ops: Sequence[Op]) -> list[Result]:
        for op in ops:
            _check(op)
        results: list[Result] = [None] * len(ops)
        puts: dict[tuple[tuple[str, ...], str], PutOp] = {}
        reads: list[int] = []
        for number, op in enumerate(ops):
            if isinstance(op, PutOp):
                puts[(tuple(op.namespace), op.key)] = op
            else:
                reads.append(number)
        prepared = [self._prepared(op) for op in puts.values()]
        for number, found in zip(reads, await _together([self._read(ops[one]) for one in reads]), strict=True):
            results[number] = found
        await _together([self._write(name, put) for name, put in prepared])
        return results

    async def _read(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            return await self._get(op)
        if isinstance(op, SearchOp):
            return await self._search(op)
        assert isinstance(op, ListNamespacesOp)
        return await self._list_namespaces(op)

    async def _get(self, op: GetOp) -> StoreItem | None:
        caller = await self._memory.caller()
        found = await self._items.get(caller, ItemName(tuple(op.namespace), op.key))
        if found is None:
            return None
        if op.refresh_ttl:
            self._reached(await self._items.refresh(caller, found))
        return StoreItem(**_fields(found))

    async def _search(self, op: SearchOp) -> list[SearchItem]:
        caller = await self._memory.caller()
        wanted = Wanted(tuple(op.namespace_prefix), op.query, op.filter, op.limit, op.offset)
        found = await self._items.search(caller, wanted, self._memory.position)
        if op.refresh_ttl:
            self._reached(await refreshed(self._items, caller, found))
        return [SearchItem(**_fields(one), score=one.score) for one in found]

    async def _list_namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        check_window(op.limit, op.offset)
        conditions = op.match_conditions or ()
        found = await self._items.namespaces(
            await self._memory.caller(),
            lambda namespace: all(_fits(condition, namespace) for condition in conditions),
            op.max_depth,
            self._memory.position,
        )
        return found[op.offset : op.offset + op.limit]

    async def _write(self, name: ItemName, put: Put | None) -> None:
        caller = await self._memory.caller()
        if put is None:
            self._reached(await self._items.delete(caller, name))
        else:
            self._reached(await self._items.put(caller, put))

    def _prepared(self, op: PutOp) -> tuple[ItemName, Put | None]:
        """What a put asks for, None for a delete. Raises `InvalidInput` before anything is written."""
        name = ItemName(tuple(op.namespace), op.key)
        if op.value is None:
            return name, None
        item_values.written(op.value)
        paths = self._paths if op.index is None or op.index is False else tuple(op.index)
        texts = [text for path in paths for text in get_text_at_path(op.value, tokenize_path(path))]
        put = Put(name, op.value, texts, indexed=op.index is not False, lifetime=item_values.lifetime(op.ttl))
        return name, put

    def _reached(self, position: int) -> None:
        self._memory.position = max(self._memory.position, position)


async def _together(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of all, in order; so many at once that they share commits."""
    found: list[T] = []
    for start in range(0, len(work), _AT_ONCE):
        found += await asyncio.gather(*work[start : start + _AT_ONCE])
    return found


def _fields(item: Item) -> dict[str, Any]:
    return {
        "namespace": item.name.namespace,
        "key": item.name.key,
        "value": item.value,
        "created_at": item.created_at,
        "updated_at": item.updated_at,
    }


def _check(op: Op) -> None:
    """Refuse an operation whose namespace is none. The calls of the base class do so, those of a batch do not."""
    if not isinstance(op, GetOp | SearchOp | ListNamespacesOp | PutOp):  # pyright: ignore[reportUnnecessaryIsInstance] - callers are not all typed
        raise ValueError(f"{type(op).__name__} is no operation of a store")
    validate_op_namespace(op)
    if isinstance(op, PutOp) and op.value is not None and not op.namespace:
        raise InvalidNamespaceError("a put needs a namespace of one label or more")


def _paths_of(index: IndexConfig | None) -> tuple[str, ...]:
    given: Mapping[str, Any] = index or {}
    for name in given:
        if name != "fields":
            raise InvalidInput(
                f"index.{name}",
                "is not for this store, whose vectors are made by the memory's own embedder",
                "Choose that with LETHELOG_EMBEDDER, and give fields only",
            )
    return tuple(path for path in given.get("fields") or () if path != _WHOLE)


def _fits(condition: MatchCondition, namespace: tuple[str, ...]) -> bool:
    """Whether a namespace begins, or ends, with a path, in which ``*`` stands for any label."""
    path = tuple(condition.path)
    if len(path) > len(namespace):
        return False
    beginning = condition.match_type == "prefix"
    labels = namespace[: len(path)] if beginning else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, labels, strict=True))
