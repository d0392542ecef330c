"""One contract of LangGraph's store, held against its two stores and ours, by plain calls and by awaited ones."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.store.base import BaseStore, GetOp, InvalidNamespaceError, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore
from langgraph.store.postgres import PostgresStore
from langgraph.store.postgres.aio import AsyncPostgresStore
from lethelog import LethelogStore
from lethelog.domain.errors import AccessDenied, Conflict, InvalidInput
from lethelog.handlers.access.caller import Caller
from lethelog.streams.payloads import Actor

from ..conftest import fresh_database
from .opened import OfTenant, Opened, opened_memory


class Calls:
    """The methods of a store, each awaited: the plain ones in a thread, or those with an a in front."""

    def __init__(self, store: BaseStore, *, plain: bool) -> None:
        self.store = store
        self.plain = plain

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not self.plain:
            return getattr(self.store, f"a{name}")
        method = getattr(self.store, name)

        async def call(*given: Any, **named: Any) -> Any:
            return await asyncio.to_thread(method, *given, **named)

        return call


@pytest.fixture(params=["plain", "awaited"])
def plain(request: pytest.FixtureRequest) -> bool:
    return request.param == "plain"


@pytest.fixture
def index(embedder) -> dict[str, Any]:
    """How the two others make vectors: as our memory does, so that they can be compared."""
    return {
        "dims": embedder.dimensions,
        "embed": lambda texts: [[float(x) for x in vector] for vector in embedder.embed(list(texts))],
    }


async def keys(found: Any) -> list[str]:
    return [item.key for item in await found]


class Contract:
    """What every store does."""

    async def test_what_is_put_comes_back_as_it_was_put(self, calls: Calls):
        value = {
            "text": "Ä ⁂ 'x' \"y\" \\ \n",
            "whole": 2**53,
            "float": 0.1,
            "nothing": None,
            "yes": True,
            "list": [1, [2, {"deep": []}]],
            "": {"a.b": "dots are for keys of values"},
        }
        await calls.put(("users", "ada"), "profile", value)
        found = await calls.get(("users", "ada"), "profile")
        assert (found.namespace, found.key, found.value) == (("users", "ada"), "profile", value)
        assert found.created_at.utcoffset() is not None and found.updated_at >= found.created_at
        [listed] = await calls.search(("users", "ada"))
        assert (listed.namespace, listed.key, listed.value) == (("users", "ada"), "profile", value)
        assert (listed.created_at, listed.updated_at) == (found.created_at, found.updated_at)

    async def test_an_empty_value_and_an_empty_key_are_items_too(self, calls: Calls):
        await calls.put(("users",), "", {})
        assert (await calls.get(("users",), "")).value == {}

    async def test_a_put_replaces_the_value_and_moves_only_updated_at(self, calls: Calls):
        await calls.put(("users",), "k", {"at": 1, "gone": True})
        before = await calls.get(("users",), "k")
        await calls.put(("users",), "k", {"at": 2})
        after = await calls.get(("users",), "k")
        assert after.value == {"at": 2}
        assert after.updated_at > before.updated_at
        assert await keys(calls.search(("users",))) == ["k"]

    async def test_a_put_of_the_same_value_is_no_other_item(self, calls: Calls):
        for _ in range(2):
            await calls.put(("users",), "k", {"text": "Twice the same"})
        assert await keys(calls.search(("users",))) == ["k"]

    async def test_one_value_under_several_keys_is_several_items(self, calls: Calls):
        for namespace, key in ((("a",), "k"), (("a",), "K"), (("a",), "k "), (("b",), "k")):
            await calls.put(namespace, key, {"text": "All the same"})
        assert sorted(await keys(calls.search(("a",)))) == ["K", "k", "k "]
        await calls.delete(("a",), "k")
        assert sorted(await keys(calls.search(("a",)))) == ["K", "k "]
        assert (await calls.get(("b",), "k")).value == {"text": "All the same"}

    async def test_what_is_not_there_is_none_and_deleting_it_is_no_error(self, calls: Calls):
        await calls.delete(("users",), "k")
        assert await calls.get(("users",), "k") is None
        assert await calls.search(("users",)) == []

    async def test_what_is_deleted_is_gone_and_can_be_put_anew(self, calls: Calls):
        await calls.put(("users",), "k", {"text": "first"})
        before = await calls.get(("users",), "k")
        await calls.delete(("users",), "k")
        assert await calls.get(("users",), "k") is None
        assert await calls.search(("users",)) == [] and await calls.search(("users",), query="first") == []
        await calls.put(("users",), "k", {"text": "first"})
        after = await calls.get(("users",), "k")
        assert after.value == {"text": "first"} and after.created_at > before.created_at

    async def test_labels_that_differ_by_white_space_or_composition_are_others(self, calls: Calls):
        labels = ("ada", "ada ", " ada", "x\t", "Jos\u00e9", "Jose\u0301")
        for number, label in enumerate(labels):
            await calls.put(("users", label), "k", {"n": number})
        for number, label in enumerate(labels):
            found = await calls.get(("users", label), "k")
            assert found is not None and found.value == {"n": number}, repr(label)
            assert [one.value["n"] for one in await calls.search(("users", label))] == [number], repr(label)
        assert sorted(one.value["n"] for one in await calls.search(("users",))) == list(range(len(labels)))

    async def test_a_prefix_is_one_of_labels_and_never_of_letters(self, calls: Calls):
        """F37."""
        names = ("acme", "acme-corp", "acme%", "acme_", "a", "ab")
        for name in names:
            await calls.put((name,), "top", {"of": name})
            await calls.put((name, "team"), "inner", {"of": name})
        for name in names:
            found = await calls.search((name,))
            assert {item.value["of"] for item in found} == {name} and len(found) == 2
            assert await keys(calls.search((name, "team"))) == ["inner"]
            assert await calls.search(("team", name)) == []
            assert await calls.list_namespaces(prefix=(name,)) == [(name,), (name, "team")]
        assert len(await calls.search((), limit=100)) == 12

    @pytest.mark.parametrize(
        ("wanted", "expected"),
        [
            ({"n": 3}, "c"),
            ({"n": {"$eq": 3}}, "c"),
            ({"n": {"$ne": 3}}, "abd"),
            ({"n": {"$gt": 2}}, "cd"),
            ({"n": {"$gte": 2, "$lt": 4}}, "bc"),
            ({"n": {"$lte": 2}}, "ab"),
            ({"kind": "odd", "n": {"$gt": 1}}, "c"),
            ({"kind": "none"}, ""),
            ({"list": [1, 2]}, "a"),
        ],
    )
    async def test_a_filter_keeps_what_every_field_fits(self, calls: Calls, wanted: Any, expected: str):
        await calls.put(("f",), "a", {"n": 1, "kind": "odd", "list": [1, 2]})
        await calls.put(("f",), "b", {"n": 2, "kind": "even"})
        await calls.put(("f",), "c", {"n": 3, "kind": "odd"})
        await calls.put(("f",), "d", {"n": 4, "kind": "even"})
        assert sorted(await keys(calls.search(("f",), filter=wanted))) == sorted(expected)

    async def test_an_operator_that_there_is_not_is_refused(self, calls: Calls):
        await calls.put(("f",), "a", {"n": 1})
        with pytest.raises(ValueError, match=r"\$regex"):
            await calls.search(("f",), filter={"n": {"$regex": "."}})

    async def test_pages_cover_everything_once(self, calls: Calls):
        for n in range(7):
            await calls.put(("pages", str(n % 2)), str(n), {"n": n})
        pages = [await keys(calls.search(("pages",), limit=3, offset=offset)) for offset in (0, 3, 6, 9)]
        assert [len(page) for page in pages] == [3, 3, 1, 0]
        assert sorted(key for page in pages for key in page) == [str(n) for n in range(7)]
        assert len(await calls.search(("pages",))) == 7

    async def test_a_query_puts_what_it_means_first_and_says_how_well_it_fits(self, calls: Calls):
        await calls.put(("docs",), "food", {"text": "She likes pizza and pasta"})
        await calls.put(("docs",), "move", {"text": "They moved to Vienna in spring"})
        await calls.put(("docs",), "work", {"text": "The deploy script runs on Fridays"})
        found = await calls.search(("docs",), query="Which food does she like?")
        assert found[0].key == "food" and len(found) == 3
        scores = [item.score for item in found]
        assert all(isinstance(score, float) for score in scores) and scores == sorted(scores, reverse=True)
        assert await keys(calls.search(("docs",), query="Which food does she like?", limit=1)) == ["food"]
        second = await calls.search(("docs",), query="Which food does she like?", limit=1, offset=1)
        assert [item.key for item in second] == [found[1].key]
        filtered = await calls.search(
            ("docs",), query="food", filter={"text": {"$ne": "She likes pizza and pasta"}}
        )
        assert {item.key for item in filtered} == {"move", "work"}
        assert [item.score for item in await calls.search(("docs",))] == [None] * 3

    async def test_what_is_not_indexed_has_no_score_and_is_there_all_the_same(self, calls: Calls):
        await calls.put(("docs",), "hidden", {"text": "She likes pizza"}, index=False)
        await calls.put(("docs",), "shown", {"text": "They moved to Vienna"})
        found = await calls.search(("docs",), query="pizza")
        assert [item.key for item in found if item.score is not None] == ["shown"]
        assert (await calls.get(("docs",), "hidden")).value == {"text": "She likes pizza"}
        assert sorted(await keys(calls.search(("docs",)))) == ["hidden", "shown"]
        await calls.put(("docs",), "hidden", {"text": "She likes pizza"})
        assert (await calls.search(("docs",), query="pizza"))[0].key == "hidden"

    async def test_paths_of_the_index_are_what_is_looked_in(self, calls: Calls):
        await calls.put(
            ("docs",),
            "a",
            {"title": "Pizza recipes", "parts": [{"says": "flour"}]},
            index=["title", "parts[*].says"],
        )
        await calls.put(("docs",), "b", {"title": "Trains to Vienna", "parts": []}, index=["title"])
        assert (await calls.search(("docs",), query="pizza recipes"))[0].key == "a"
        assert (await calls.search(("docs",), query="trains to vienna"))[0].key == "b"

    async def test_namespaces_are_listed_by_both_ends_and_to_a_depth(self, calls: Calls):
        for namespace in (
            ("a", "b", "c"),
            ("a", "b", "d", "e"),
            ("a", "b", "d", "i"),
            ("a", "b", "f"),
            ("a", "c", "f"),
        ):
            await calls.put(namespace, "k", {})
        listed = calls.list_namespaces
        assert await listed(prefix=("a", "b"), max_depth=3) == [("a", "b", "c"), ("a", "b", "d"), ("a", "b", "f")]
        assert await listed(suffix=("f",)) == [("a", "b", "f"), ("a", "c", "f")]
        assert await listed(prefix=("a", "*", "f")) == [("a", "b", "f"), ("a", "c", "f")]
        assert await listed(prefix=("a",), suffix=("*", "i")) == [("a", "b", "d", "i")]
        assert await listed(prefix=("b",)) == []
        assert await listed(limit=2, offset=1) == [("a", "b", "d", "e"), ("a", "b", "d", "i")]
        assert await listed(max_depth=1) == [("a",)]

    async def test_a_batch_reads_what_was_there_and_of_puts_of_one_key_the_last_counts(self, calls: Calls):
        await calls.put(("batch",), "k", {"n": 0})
        found = await calls.batch(
            [
                PutOp(("batch",), "k", {"n": 1}),
                GetOp(("batch",), "k"),
                PutOp(("batch",), "k", {"n": 2}),
                SearchOp(("batch",)),
                PutOp(("batch",), "other", {"n": 9}),
                PutOp(("batch",), "other", None),
            ]
        )
        assert found[0] is None and found[2] is None
        assert (await calls.get(("batch",), "k")).value == {"n": 2}
        assert await calls.get(("batch",), "other") is None
        assert [len(found[3]), found[3][0].key] == [1, "k"]

    @pytest.mark.parametrize("namespace", [(), ("a.b",), ("",), ("a", ""), (1,), ("langgraph",)])
    async def test_a_put_into_what_is_no_namespace_is_refused(self, calls: Calls, namespace: Any):
        with pytest.raises(InvalidNamespaceError):
            await calls.put(namespace, "k", {})
        assert await calls.list_namespaces() == []

    async def test_a_batch_cannot_reach_another_namespace_by_a_label_with_a_full_stop(self, calls: Calls):
        await calls.put(("a", "b"), "k", {"secret": True})
        for op in (GetOp(("a.b",), "k"), SearchOp(("a.b",)), PutOp(("a.b",), "k", {"secret": False})):
            try:
                [found] = await calls.batch([op])
            except InvalidNamespaceError:
                found = None
            assert not found
        assert (await calls.get(("a", "b"), "k")).value == {"secret": True}

    async def test_many_puts_of_one_key_at_once_make_one_item(self, calls: Calls):
        await asyncio.gather(*(calls.put(("race",), "k", {"n": n}) for n in range(12)))
        [item] = await calls.search(("race",))
        assert item.value == (await calls.get(("race",), "k")).value and item.value["n"] in range(12)


class InnerFilters:
    """What LangGraph's store in memory does, and the one in PostgreSQL refuses."""

    async def test_a_filter_looks_into_inner_values(self, calls: Calls):
        await calls.put(("f",), "a", {"deep": {"x": 1, "y": 2}})
        await calls.put(("f",), "b", {"deep": {"x": 2}})
        await calls.put(("f",), "c", {"deep": 1})
        assert await keys(calls.search(("f",), filter={"deep": {"x": 1}})) == ["a"]
        assert await keys(calls.search(("f",), filter={"deep": {"x": {"$ne": 1}}})) == ["b"]


class TestInMemoryStore(Contract, InnerFilters):
    @pytest.fixture
    def calls(self, index: dict[str, Any], plain: bool) -> Calls:
        return Calls(InMemoryStore(index=index), plain=plain)  # pyright: ignore[reportArgumentType]


@pytest.fixture(scope="module")
def store_database(servers, drop) -> Generator[str]:
    with fresh_database(servers, "template0", drop) as url:
        yield url


@asynccontextmanager
async def postgres_store(url: str, index: dict[str, Any], plain: bool, ttl: Any = None) -> AsyncGenerator[Calls]:
    if plain:
        with PostgresStore.from_conn_string(url, index=index, ttl=ttl) as store:  # pyright: ignore[reportArgumentType]
            store.setup()
            yield Calls(store, plain=True)
    else:
        async with AsyncPostgresStore.from_conn_string(url, index=index, ttl=ttl) as store:  # pyright: ignore[reportArgumentType]
            await store.setup()
            yield Calls(store, plain=False)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("truncate store cascade")


class TestPostgresStore(Contract):
    @pytest.fixture
    async def calls(self, store_database: str, index: dict[str, Any], plain: bool) -> AsyncGenerator[Calls]:
        async with postgres_store(store_database, index, plain) as calls:
            yield calls


@pytest.fixture(scope="module")
def opened(servers, world_template: str, drop, tmp_path_factory) -> Generator[Opened]:
    with opened_memory(servers, world_template, drop, tmp_path_factory.mktemp("store")) as opened:
        yield opened


@pytest.fixture
def memory(opened: Opened) -> OfTenant:
    return opened.tenant()


class TestLethelogStore(Contract, InnerFilters):
    @pytest.fixture
    def calls(self, memory: OfTenant, plain: bool) -> Calls:
        return Calls(LethelogStore(memory), plain=plain)


class TestWhereTheyDiffer:
    """What docs/how-to/langgraph.md says of the two others."""

    def test_the_store_in_memory_dates_anew_keeps_empty_namespaces_and_looks_for_nothing_without_vectors(self):
        store = InMemoryStore()
        store.put(("a",), "k", {"text": "pizza", "yes": True})
        first = store.get(("a",), "k")
        store.put(("a",), "k", {"text": "pizza", "yes": True})
        assert first is not None and store.get(("a",), "k").created_at > first.created_at  # pyright: ignore[reportOptionalMemberAccess]
        assert [item.score for item in store.search(("a",), query="pizza")] == [None]
        assert len(store.search(("a",), filter={"yes": 1})) == 1
        store.delete(("a",), "k")
        assert store.list_namespaces() == [("a",)]
        with pytest.raises(NotImplementedError):
            store.put(("a",), "k", {}, ttl=1)

    def test_the_store_in_postgres_compares_texts_and_does_not_look_inside(self, store_database: str, index: Any):
        with PostgresStore.from_conn_string(store_database, index=index) as store:
            store.setup()
            store.put(("a",), "ten", {"n": 10, "yes": True, "deep": {"x": 1}})
            store.put(("a",), "nine", {"n": 9})
            assert {item.key for item in store.search(("a",), filter={"n": {"$lt": 95}})} == {"ten", "nine"}
            assert [item.key for item in store.search(("a",), filter={"n": {"$gt": 5}})] == ["nine"]
            assert store.search(("a",), filter={"yes": 1}) == []
            with pytest.raises(ValueError, match="x"):
                store.search(("a",), filter={"deep": {"x": 1}})
            with pytest.raises(psycopg.Error):
                store.put(("a",), "nul", {"text": "\x00"})
            for key in ("ten", "nine"):
                store.delete(("a",), key)
            assert store.list_namespaces() == []

    def test_ours_compares_numbers_as_numbers_and_true_with_true(self, memory: OfTenant):
        store = LethelogStore(memory)
        store.put(("a",), "ten", {"n": 10, "yes": True})
        store.put(("a",), "nine", {"n": 9, "yes": 1})
        store.put(("a",), "text", {"n": "97"})
        assert {item.key for item in store.search(("a",), filter={"n": {"$gt": 9}})} == {"ten"}
        assert {item.key for item in store.search(("a",), filter={"n": {"$gt": "10"}})} == {"text"}
        assert [item.key for item in store.search(("a",), filter={"yes": True})] == ["ten"]


class Lifetimes:
    """What the stores do that let items expire."""

    async def test_an_item_is_gone_when_its_time_is_over(
        self, mortal: Calls, pass_minutes: Callable[[float], Any]
    ):
        await mortal.put(("t",), "short", {"n": 1}, ttl=1)
        await mortal.put(("t",), "long", {"n": 2}, ttl=100)
        await mortal.put(("t",), "ever", {"n": 3})
        await pass_minutes(2)
        assert await mortal.get(("t",), "short") is None
        assert sorted(await keys(mortal.search(("t",)))) == ["ever", "long"]

    async def test_reading_prolongs_a_life_unless_it_is_told_not_to(
        self, mortal: Calls, pass_minutes: Callable[[float], Any]
    ):
        for key in ("read", "found", "looked at"):
            await mortal.put(("t", key), key, {"n": 1}, ttl=10)
        before = await mortal.get(("t", "looked at"), "looked at", refresh_ttl=False)
        await pass_minutes(6)
        assert (await mortal.get(("t", "read"), "read")).value == {"n": 1}
        assert await keys(mortal.search(("t", "found"))) == ["found"]
        assert await mortal.get(("t", "looked at"), "looked at", refresh_ttl=False) == before
        await pass_minutes(6)
        assert (await mortal.get(("t", "read"), "read")).value == {"n": 1}
        assert await keys(mortal.search(("t", "found"))) == ["found"]
        assert await mortal.get(("t", "looked at"), "looked at") is None

    async def test_a_put_begins_a_new_life(self, mortal: Calls, pass_minutes: Callable[[float], Any]):
        await mortal.put(("t",), "k", {"n": 1}, ttl=1)
        await mortal.put(("t",), "k", {"n": 2}, ttl=None)
        await pass_minutes(2)
        assert (await mortal.get(("t",), "k")).value == {"n": 2}
        assert await keys(mortal.search(("t",))) == ["k"]


class TestLifetimesInPostgres(Lifetimes):
    @pytest.fixture
    async def mortal(self, store_database: str, index: dict[str, Any], plain: bool) -> AsyncGenerator[Calls]:
        async with postgres_store(store_database, index, plain, {"omit_expired": True}) as calls:
            yield calls

    @pytest.fixture
    def pass_minutes(self, store_database: str) -> Callable[[float], Any]:
        async def later(minutes: float) -> None:
            with psycopg.connect(store_database, autocommit=True) as connection:
                connection.execute(
                    "update store set expires_at = expires_at - %s * interval '1 minute'", (minutes,)
                )

        return later


class TestLifetimesHere(Lifetimes):
    @pytest.fixture
    def mortal(self, memory: OfTenant, plain: bool) -> Calls:
        return Calls(LethelogStore(memory), plain=plain)

    @pytest.fixture
    def pass_minutes(self, opened: Opened) -> Callable[[float], Any]:
        async def later(minutes: float) -> None:
            opened.clock.forward(minutes=minutes)

        return later

    async def test_a_default_life_is_the_stores_and_reading_often_writes_seldom(
        self, memory: OfTenant, opened: Opened
    ):
        store = LethelogStore(memory, ttl={"default_ttl": 10})
        store.put(("t",), "k", {"n": 1})
        first = store.get(("t",), "k")
        written = memory.position
        for _ in range(5):
            assert store.get(("t",), "k") == first and store.search(("t",))[0].updated_at == first.updated_at
        assert memory.position == written
        opened.clock.forward(minutes=5)
        assert store.get(("t",), "k") == first
        assert memory.position > written

    def test_a_life_that_is_none_is_refused(self, memory: OfTenant):
        store = LethelogStore(memory)
        for ttl in (0, -1, float("nan"), float("inf"), True, "1"):
            with pytest.raises(InvalidInput, match="ttl"):
                store.put(("t",), "k", {}, ttl=ttl)
        assert store.search(("t",)) == []

    def test_whoever_may_only_read_reads_and_prolongs_nothing(self, memory: OfTenant, opened: Opened):
        caller = memory.run(memory.asyncio.caller())
        reader = OfTenant(
            opened.memory, Caller(caller.tenant, caller.actor, frozenset({"memory:read"})), memory.position
        )
        LethelogStore(memory).put(("t",), "k", {"n": 1}, ttl=10)
        opened.clock.forward(minutes=6)
        assert LethelogStore(reader).get(("t",), "k").value == {"n": 1}
        with pytest.raises(AccessDenied):
            LethelogStore(reader).put(("t",), "k", {"n": 2})
        opened.clock.forward(minutes=6)
        assert LethelogStore(memory).get(("t",), "k") is None

    @pytest.mark.parametrize(("writer", "reader"), [("agent", "person"), ("person", "agent")])
    def test_an_item_that_is_read_lives_longer_and_stays_the_memory_that_it_is(
        self, memory: OfTenant, opened: Opened, writer: str, reader: str
    ):
        """No other text comes to be, so nobody trusts it more or less, and no extractor reads it again."""
        tenant = memory.run(memory.asyncio.caller()).tenant
        agent = OfTenant(opened.memory, Caller(tenant, Actor("agent", uuid4())))
        doors = {"person": memory, "agent": agent}
        LethelogStore(doors[writer]).put(("t",), "k", {"n": 1}, ttl=10)
        [before] = doors[writer].list(scope="langgraph").memories
        opened.clock.forward(minutes=6)
        assert LethelogStore(doors[reader]).get(("t",), "k").value == {"n": 1}
        opened.clock.forward(minutes=6)
        assert LethelogStore(doors[reader]).search(("t",))[0].value == {"n": 1}
        [after] = doors[reader].list(scope="langgraph").memories
        assert before.expires_at is not None and after.expires_at is not None
        assert after.expires_at > before.expires_at + timedelta(minutes=12)
        assert after.trust == before.trust == ("agent" if writer == "agent" else "user")
        for name in (
            "id",
            "version",
            "content",
            "topic",
            "metadata",
            "recorded_at",
            "occurred_at",
            "fresh_at",
        ):
            assert getattr(after, name) == getattr(before, name)
        assert [one.event for one in memory.history(before.id).entries] == [
            "memory.remembered",
            "memory.prolonged",
            "memory.prolonged",
        ]


class TestTheMemoriesBehindTheItems:
    """What only our store promises."""

    @pytest.fixture
    def store(self, memory: OfTenant) -> LethelogStore:
        return LethelogStore(memory)

    def of_item(self, memory: OfTenant, key: str, status: Any = "active") -> Any:
        found = memory.list(scope="langgraph", status=status).memories
        return next(one for one in found if one.metadata["langgraph_item"]["key"] == key)

    def test_a_lineage_tells_every_value_and_the_deletion(self, memory: OfTenant, store: LethelogStore):
        store.put(("users", "ada"), "city", {"city": "Graz"})
        first = self.of_item(memory, "city")
        store.put(("users", "ada"), "city", {"city": "Vienna"})
        second = self.of_item(memory, "city")
        store.delete(("users", "ada"), "city")
        assert (second.predecessor, second.project, second.status) == (first.id, "users.ada", "active")
        assert (memory.get(first.id).content, memory.get(first.id).status) == ('{"city": "Graz"}', "superseded")
        assert [entry.event for entry in memory.history(second.id).entries] == [
            "memory.remembered",
            "memory.archived",
        ]
        memory.restore(second.id)
        assert store.get(("users", "ada"), "city").value == {"city": "Vienna"}
        store.put(("users", "ada"), "city", {"city": "Graz"})
        assert [item.value for item in store.search(("users",))] == [{"city": "Graz"}]

    def test_created_at_stays_from_put_to_put(self, store: LethelogStore):
        store.put(("users",), "k", {"n": 1})
        created = store.get(("users",), "k").created_at
        for n in (2, 3):
            store.put(("users",), "k", {"n": n})
        after = store.get(("users",), "k")
        assert after.created_at == created < after.updated_at

    def test_an_ended_item_leaves_its_name_to_the_next(self, memory: OfTenant, store: LethelogStore):
        store.put(("users",), "k", {"n": 1})
        old = self.of_item(memory, "k")
        memory.archive(old.id)
        store.put(("users",), "k", {"n": 1})
        with pytest.raises(Conflict):
            memory.restore(old.id)
        assert [item.key for item in store.search(("users",))] == ["k"]

    def test_a_refuted_value_does_not_come_back_under_its_name_and_may_under_others(
        self, memory: OfTenant, store: LethelogStore
    ):
        store.put(("users",), "k", {"married": True})
        memory.refute(self.of_item(memory, "k").id)
        with pytest.raises(Conflict, match="refuted"):
            store.put(("users",), "k", {"married": True})
        assert store.get(("users",), "k") is None
        store.put(("users",), "other", {"married": True})
        store.put(("users",), "k", {"married": False})
        with pytest.raises(Conflict, match="refuted"):
            store.put(("users",), "k", {"married": True})
        assert {item.key: item.value["married"] for item in store.search(("users",))} == {
            "other": True,
            "k": False,
        }

    def test_what_another_door_revises_stays_the_item(self, memory: OfTenant, store: LethelogStore):
        store.put(("users",), "k", {"n": 1})
        memory.revise(self.of_item(memory, "k").id, "They moved to Graz", metadata={"by": "hand"})
        assert store.get(("users",), "k").value == {"content": "They moved to Graz"}
        store.put(("users",), "k", {"n": 2})
        assert [item.value for item in store.search(("users",))] == [{"n": 2}]

    def test_what_is_filed_elsewhere_is_no_item_until_it_is_put_again(
        self, memory: OfTenant, store: LethelogStore
    ):
        store.put(("users",), "k", {"n": 1})
        memory.move(self.of_item(memory, "k").id, project="elsewhere")
        assert store.get(("users",), "k") is None
        assert store.search(()) == [] and store.search((), query="n") == []
        store.put(("users",), "k", {"n": 2})
        assert [item.namespace for item in store.search(())] == [("users",)]

    def test_no_other_door_writes_the_name_of_an_item(self, memory: OfTenant):
        forged = {"langgraph_item": {"namespace": ["users"], "key": "k"}}
        old = memory.remember("Some text").memory.id
        for forge in (
            lambda: memory.remember("Some other text", metadata=forged),
            lambda: memory.import_memory("Some other text", metadata=forged),
            lambda: memory.revise(old, "Some other text", metadata=forged),
            lambda: memory.remember("Some other text", metadata={"mem0_memory": {}}),
        ):
            with pytest.raises(InvalidInput, match="metadata"):
                forge()
        assert memory.list().total == 1

    def test_a_tenant_sees_no_items_of_another(self, store: LethelogStore, opened: Opened):
        store.put(("users",), "k", {"secret": "of one"})
        other = LethelogStore(opened.tenant())
        assert other.get(("users",), "k") is None
        assert (other.search(()), other.search((), query="secret"), other.list_namespaces()) == ([], [], [])
        other.put(("users",), "k", {"secret": "of the other"})
        assert store.get(("users",), "k").value == {"secret": "of one"}

    def test_a_long_value_needs_no_permission_to_import_and_a_longer_one_is_refused(self, opened: Opened):
        store = LethelogStore(opened.tenant(permissions=frozenset({"memory:read", "memory:write"})))
        store.put(("long",), "k", {"text": "word " * 50_000})
        assert store.get(("long",), "k").value == {"text": "word " * 50_000}
        with pytest.raises(InvalidInput, match="262144"):
            store.put(("long",), "k", {"text": "word " * 60_000})
        assert store.get(("long",), "k").value == {"text": "word " * 50_000}

    @pytest.mark.parametrize(
        "value", [{"x": float("nan")}, {"x": {1, 2}}, {"x": object()}, {1: "x"}, {"x": {2: "y"}}, "text", [1]]
    )
    def test_a_value_that_would_not_come_back_is_refused(self, store: LethelogStore, value: Any):
        with pytest.raises(InvalidInput, match="value"):
            store.put(("users",), "k", value)
        assert store.search(()) == []

    def test_texts_that_postgres_itself_cannot_hold_come_back(self, store: LethelogStore):
        value = {"nul": "a\x00b", "half": "\ud800", "key\x00": 1}
        store.put(("users",), "k", value)
        assert store.get(("users",), "k").value == value
        assert store.search(("users",))[0].value == value

    @pytest.mark.parametrize(
        ("namespace", "key", "field"),
        [
            (("a" * 200, "b" * 60), "k", "namespace"),
            (("a",), "k" * 1_025, "key"),
            (("a",), "a\x00", "key"),
            (("\ud800",), "k", "namespace"),
        ],
    )
    def test_a_name_that_cannot_be_kept_is_refused(
        self, store: LethelogStore, namespace: Any, key: str, field: str
    ):
        with pytest.raises(InvalidInput, match=field):
            store.put(namespace, key, {})
        assert store.search(()) == []

    def test_a_search_has_a_bound(self, store: LethelogStore):
        store.put(("a",), "k", {})
        with pytest.raises(InvalidInput, match="10000"):
            store.search((), limit=10_001)
        with pytest.raises(InvalidInput, match="limit"):
            store.search((), limit=-1)
        assert len(store.search((), limit=9_000, offset=0)) == 1

    def test_what_is_no_memory_of_this_process_is_refused(self):
        for other in (object(), None, "./memory", InMemoryStore()):
            with pytest.raises(InvalidInput, match="memory"):
                LethelogStore(other)  # pyright: ignore[reportArgumentType]

    def test_vectors_of_ones_own_are_refused(self, memory: OfTenant):
        with pytest.raises(InvalidInput, match="embed"):
            LethelogStore(memory, index={"dims": 2, "embed": lambda texts: [[0.0, 1.0] for _ in texts]})

    async def test_over_an_asyncio_memory_plain_calls_come_from_other_threads(self, memory: OfTenant):
        async def inside() -> None:
            store = LethelogStore(memory.asyncio)
            await store.aput(("a",), "k", {"n": 1})
            with pytest.raises(RuntimeError, match="aget"):
                store.get(("a",), "k")
            assert (await asyncio.to_thread(store.get, ("a",), "k")).value == {"n": 1}

        await asyncio.to_thread(memory.run, inside())

    def test_what_is_erased_leaves_nothing_of_an_item(
        self, memory: OfTenant, opened: Opened, store: LethelogStore
    ):
        for n in range(3):
            store.put(("users", "ada"), "k", {"secret": n})
        store.put(("users", "bob"), "k", {"secret": "stays"})
        engine = opened.memory.asyncio.engine
        tenant = memory.run(memory.asyncio.caller()).tenant

        def left() -> tuple[int, int, list[Any]]:
            claims = memory.run(_count(engine, "lethelog.claims", tenant, "kind in ('content', 'ended')"))
            keys = memory.run(_count(engine, "lethelog_vault.data_keys", tenant, "true"))
            return claims, keys, [item.value for item in store.search(("users",))]

        assert left() == (3, 4, [{"secret": "stays"}, {"secret": 2}])
        asked = memory.preview_erasure(project="users.ada")
        assert memory.erase(asked.id, reason="data_subject_request").phase == "verified"
        assert left() == (1, 1, [{"secret": "stays"}])
        assert store.get(("users", "ada"), "k") is None and store.list_namespaces() == [("users", "bob")]
        store.put(("users", "ada"), "k", {"secret": 2})
        assert store.get(("users", "ada"), "k").value == {"secret": 2}

    def test_a_value_whose_return_was_blocked_by_its_erasure_is_refused_under_its_name_only(
        self, memory: OfTenant, store: LethelogStore
    ):
        store.put(("users",), "k", {"secret": 1})
        asked = memory.preview_erasure(memory_id=self.of_item(memory, "k").id)
        memory.erase(asked.id, reason="data_subject_request", re_entry="block")
        with pytest.raises(Conflict, match="refuted"):
            store.put(("users",), "k", {"secret": 1})
        store.put(("users",), "other", {"secret": 1})
        store.put(("users",), "k", {"secret": 2})
        assert {item.key: item.value for item in store.search(())} == {"other": {"secret": 1}, "k": {"secret": 2}}

    def test_items_move_with_an_archive_and_find_their_names_again(
        self, memory: OfTenant, opened: Opened, store: LethelogStore, tmp_path: Path
    ):
        for n in range(2):
            store.put(("users",), "k", {"n": n})
        store.put(("users",), "both", {"of": "the origin"})
        store.put(("users",), "gone", {})
        store.delete(("users",), "gone")
        memory.export_archive(tmp_path / "archive.jsonl")
        elsewhere = opened.tenant()
        there = LethelogStore(elsewhere)
        there.put(("users",), "both", {"of": "here"})
        moved = elsewhere.import_archive(tmp_path / "archive.jsonl")
        assert [one.action for one in moved.items if one.kind == "memory"].count("duplicate") == 1
        assert {item.key: item.value for item in there.search(())} == {"k": {"n": 1}, "both": {"of": "here"}}
        there.put(("users",), "k", {"n": 2})
        assert there.get(("users",), "k").value == {"n": 2}
        assert there.get(("users",), "gone") is None


LABELS = st.sampled_from(["a", "ab", "a_", "A"])
NAMESPACES = st.lists(LABELS, min_size=1, max_size=2).map(tuple)
KEYS = st.sampled_from(["k", "K", "other"])
VALUES = st.dictionaries(st.sampled_from(["n", "x"]), st.integers(0, 2), max_size=2)
PUTS = st.tuples(st.just("put"), NAMESPACES, KEYS, VALUES)
DELETES = st.tuples(st.just("delete"), NAMESPACES, KEYS)
BATCHES = st.lists(
    st.one_of(
        st.tuples(NAMESPACES, KEYS, st.one_of(st.none(), VALUES)).map(lambda given: PutOp(*given)),
        st.tuples(NAMESPACES, KEYS).map(lambda given: GetOp(*given)),
    ),
    max_size=4,
).map(lambda ops: ("batch", ops))


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(done=st.lists(st.one_of(PUTS, PUTS, DELETES, BATCHES), min_size=3, max_size=10), wanted=VALUES)
def test_whatever_is_done_the_store_holds_what_the_one_in_memory_holds(
    opened: Opened, done: list[tuple[Any, ...]], wanted: dict[str, int]
):
    ours, model = LethelogStore(opened.tenant()), InMemoryStore()
    for call, *arguments in done:
        found = [getattr(store, call)(*arguments) for store in (ours, model)]
        assert _shapes(found[0]) == _shapes(found[1])
    prefixes: list[tuple[str, ...]] = [(), ("a",), ("ab",), ("a", "a")]
    for prefix in prefixes:
        for kept in (None, wanted):
            listed = [_shapes(store.search(prefix, filter=kept, limit=100)) for store in (ours, model)]
            assert sorted(listed[0], key=str) == sorted(listed[1], key=str)
    namespaces = {item.namespace for item in model.search((), limit=100)}
    assert ours.list_namespaces() == sorted(namespaces)


def _shapes(found: Any) -> Any:
    """Items without their times."""
    if isinstance(found, list):
        return [_shapes(one) for one in found]
    return found if found is None else (found.namespace, found.key, found.value)


async def _count(engine: Any, table: str, tenant: UUID, where: str) -> int:
    async with engine.database.connection() as connection:
        cursor = await connection.execute(f"select count(*) from {table} where tenant = %s and {where}", (tenant,))
        return (await cursor.fetchone())[0]
