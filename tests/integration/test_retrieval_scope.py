"""What reads do that name no scope: everything, a default scope, or a refusal (behaviour.md 1.11)."""

from typing import Any
from uuid import UUID

import pytest
from lethelog.domain.errors import AccessDenied, Conflict, InvalidInput, NotFound
from lethelog.domain.tenant import SCOPES_LIMIT
from lethelog.handlers.access.caller import Caller
from lethelog.handlers.briefing import Briefing
from lethelog.handlers.facts import Facts
from lethelog.handlers.tenancy.scopes import Scopes

_ID = UUID(int=1)
FACT = {"subject": "Ada", "predicate": "uses", "value": "Vim"}


@pytest.fixture
async def filed(world):
    await world.remember("Deploys go to Hetzner", scope="work", memory_type="decision", facts=[FACT])
    await world.remember("Likes green tea", memory_type="decision")
    await world.catch_up()
    return world


async def retrieval(world, mode: str, scope: str | None = None) -> None:
    await Scopes(world.engine).set_retrieval(world.caller, {"mode": mode, "scope": scope})


async def reads(world, scope: str | None = None) -> list[Any]:
    """(how many, applied scope) of search, list and briefing."""
    named: dict[str, Any] = {} if scope is None else {"scope": scope}
    searched = await world.reading.search(world.caller, {"query": "deploys tea", **named})
    listed = await world.reading.list(world.caller, named)
    selector = "all" if scope is None else "scope"
    briefed = await Briefing(world.engine).brief(world.caller, {"selector": selector, **named})
    return [
        (searched.count, searched.applied_scope),
        (listed.total, listed.applied_scope),
        (briefed.sections["recent_decisions"].count, briefed.applied_scope),
    ]


async def test_off_a_read_without_a_scope_finds_everything(filed):
    assert await reads(filed) == [(2, None)] * 3
    assert await reads(filed, "work") == [(1, "work")] * 3


async def test_a_default_scope_is_filled_in_where_none_is_named_and_always_echoed(filed):
    await retrieval(filed, "default", "work")
    assert await reads(filed) == [(1, "work")] * 3
    assert await reads(filed, "personal") == [(1, "personal")] * 3
    await retrieval(filed, "off")
    assert await reads(filed) == [(2, None)] * 3


async def test_a_required_scope_refuses_an_unscoped_read_and_names_at_most_8(filed):
    """retrieval-scope policy: require + selector all → invalid_input naming scopes."""
    for n in range(9):
        await Scopes(filed.engine).create(filed.caller, {"scope": f"s{n}"})
    await retrieval(filed, "require")
    asked: list[tuple[Any, dict[str, Any]]] = [
        (filed.reading.search, {"query": "deploys"}),
        (filed.reading.list, {}),
        (Briefing(filed.engine).brief, {"selector": "all"}),
        (Briefing(filed.engine).brief, {"selector": "project", "project": "site"}),
        (Briefing(filed.engine).brief, {"selector": "all", "mode": "handoff"}),
    ]
    for read, arguments in asked:
        with pytest.raises(InvalidInput) as refused:
            await read(filed.caller, arguments)
        assert (refused.value.code, refused.value.field) == ("invalid_input", "scope")
        named = str(refused.value).partition("Give one of: ")[2]
        assert named.startswith("personal, s0, s1, s2, s3, s4, s5, s6 and others"), named
    assert await reads(filed, "work") == [(1, "work")] * 3
    found = await Facts(filed.engine).get(filed.caller, {})
    assert found.total == 1, "facts have no scope and are exempt"
    [one] = (await filed.reading.list(filed.caller, {"scope": "work"})).memories
    assert (await filed.reading.get(filed.caller, {"ids": [one.id]}))[0].id == one.id, "so is what has an id"


async def test_a_cursor_of_before_does_not_go_on_under_another_scope(filed):
    page = await filed.reading.list(filed.caller, {"limit": 1})
    assert page.next_cursor is not None
    await retrieval(filed, "default", "work")
    with pytest.raises(InvalidInput, match="another question"):
        await filed.reading.list(filed.caller, {"limit": 1, "cursor": page.next_cursor})


async def test_scopes_are_listed_with_their_memories_page_by_page(filed):
    scopes = Scopes(filed.engine)
    await filed.remember("something", scope="garden")
    archived = await filed.remember("something else", scope="attic")
    await filed.commands.archive(filed.caller, {"memory_id": archived})
    assert (await scopes.create(filed.caller, {"scope": "lab"})).changed
    assert not (await scopes.create(filed.caller, {"scope": "lab"})).changed
    await filed.catch_up()
    page = await scopes.list(filed.caller, {})
    assert [(one.scope, one.registered, one.memories) for one in page.scopes] == [
        ("garden", False, 1),
        ("lab", True, 0),
        ("personal", True, 1),
        ("work", True, 1),
    ]
    assert (page.retrieval.mode, page.retrieval.scope, page.next_cursor) == ("off", None, None)
    first = await scopes.list(filed.caller, {"limit": 3})
    second = await scopes.list(filed.caller, {"limit": 3, "cursor": first.next_cursor})
    assert [one.scope for one in (*first.scopes, *second.scopes)] == ["garden", "lab", "personal", "work"]
    assert second.next_cursor is None


async def test_a_policy_is_a_recorded_event_and_nothing_twice(filed):
    head = await filed.engine.log.head()
    for _ in range(2):
        await retrieval(filed, "default", "work")
    [event] = await filed.engine.log.read_page(head, 10)
    assert (event.name, event.event.mode, event.event.scope) == ("tenant.retrieval_changed", "default", "work")
    assert event.envelope.actor == filed.caller.actor


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"mode": "default"}, InvalidInput),
        ({"mode": "require", "scope": "work"}, InvalidInput),
        ({"mode": "off", "scope": "work"}, InvalidInput),
        ({"mode": "sometimes"}, InvalidInput),
        ({"mode": "default", "scope": "Work"}, InvalidInput),
        ({"mode": "default", "scope": "unheard-of"}, NotFound),
    ],
)
async def test_a_policy_that_cannot_be_is_refused_and_changes_nothing(filed, wrong, error):
    head = await filed.engine.log.head()
    with pytest.raises(error):
        await Scopes(filed.engine).set_retrieval(filed.caller, wrong)
    assert await filed.engine.log.head() == head and await reads(filed) == [(2, None)] * 3


async def test_who_may_only_write_registers_scopes_and_changes_no_policy(filed):
    writer = Caller(filed.caller.tenant, filed.caller.actor, frozenset({"memory:write"}))
    scopes = Scopes(filed.engine)
    assert (await scopes.create(writer, {"scope": "lab"})).changed
    with pytest.raises(AccessDenied):
        await scopes.set_retrieval(writer, {"mode": "off"})


async def test_another_tenant_has_a_policy_of_its_own(filed):
    await retrieval(filed, "require")
    other = await filed.another_caller()
    assert (await filed.reading.list(other, {})).total == 0
    assert {one.scope for one in (await Scopes(filed.engine).list(other, {})).scopes} == {"personal", "work"}


def test_registered_scopes_are_bounded():
    from lethelog.domain.policy import ForgettingPolicy
    from lethelog.domain.tenant import Tenant, decide_scope

    from .conftest import HeldClock

    full = Tenant(
        id=_ID, version=1, created_at=HeldClock().now, policy=ForgettingPolicy(),
        scopes=frozenset(f"s{n}" for n in range(SCOPES_LIMIT)),
    )  # fmt: skip
    assert decide_scope(full, "s1") == []
    with pytest.raises(Conflict):
        decide_scope(full, "one-more")
