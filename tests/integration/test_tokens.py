"""Tokens: what they let in, that they end when they should, and that nothing of them is left lying about."""

import contextlib
import logging
from dataclasses import replace
from datetime import timedelta

import pytest
from lethelog.domain.errors import AccessDenied, Conflict, InvalidCredential, InvalidInput, NotFound, WrongKind
from lethelog.handlers.access import credentials as credentials_module
from lethelog.handlers.access.caller import ALL_PERMISSIONS, Caller
from lethelog.handlers.access.credentials import Credential, Credentials
from lethelog.handlers.access.token_text import TokenText, read_token
from lethelog.handlers.access.tokens import Tokens
from lethelog.handlers.engine import open_engine
from lethelog.handlers.memory import AsyncMemory
from lethelog.streams.master_keys import Keyring

from .passes import ToldJudge, pass_settings


@pytest.fixture
def tokens(world) -> Tokens:
    return Tokens(world.engine)


@pytest.fixture
def credentials(world) -> Credentials:
    return Credentials(world.engine)


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic clock of what is known of credentials, held by the test."""
    held = [1_000.0]
    monkeypatch.setattr(credentials_module.time, "monotonic", lambda: held[0])
    return held


async def test_a_token_is_its_actor_in_its_tenant_with_what_it_allows(world, tokens, credentials):
    issued = await tokens.issue(world.caller, {"actor": "agent:planner", "permissions": ["memory:read"]})
    caller = await credentials.caller(f" {issued.text}\n")
    assert (caller.tenant, caller.actor.kind, caller.permissions) == (
        world.caller.tenant,
        "agent",
        frozenset({"memory:read"}),
    )
    assert (await world.engine.directory.names(caller.tenant, [caller.actor.id]))[caller.actor.id] == "planner"


async def test_unknown_foreign_and_wrong_ones_answer_alike_and_by_the_same_statement(
    world, tokens, credentials, monkeypatch: pytest.MonkeyPatch
):
    issued = await tokens.issue(world.caller, {"actor": "agent:planner"})
    right = read_token(issued.text)
    other = await world.another_caller()
    memory = await world.remember("no token")
    asked: list[tuple[str, int]] = []
    doors = world.engine.doors

    @contextlib.asynccontextmanager
    async def counted():
        async with type(doors).connection(doors) as connection:
            asked[-1] = (asked[-1][0], asked[-1][1] + 1)
            yield connection

    monkeypatch.setattr(doors, "connection", counted)
    answers = set()
    for what, wrong in (
        ("wrong secret", TokenText(right.tenant, right.token, b"x" * 32)),
        ("unknown token", TokenText(right.tenant, world.caller.actor.id, right.secret)),
        ("another tenant", TokenText(other.tenant, right.token, right.secret)),
        ("unknown tenant", TokenText(world.caller.actor.id, right.token, right.secret)),
    ):
        asked.append((what, 0))
        with pytest.raises(InvalidCredential) as refused:
            await credentials.caller(wrong.write())
        answers.add(str(refused.value.as_dict()))
    assert len(answers) == 1 and {count for _, count in asked} == {1}, asked
    monkeypatch.undo()
    with pytest.raises(InvalidCredential):
        await credentials.caller(TokenText(right.tenant, memory, right.secret).write())
    assert (await credentials.caller(issued.text)).tenant == right.tenant, "the right one does open"


@pytest.mark.parametrize("wrong", ["", "lth_", "lth_abc", "Bearer x", "x.y.z", "\ud800", "lth_" + "a" * 109])
async def test_what_is_no_token_is_refused_without_asking_anybody(world, credentials, wrong: str):
    await world.engine.database.close()
    with pytest.raises(InvalidCredential) as refused:
        await credentials.caller(wrong)
    assert not wrong or wrong not in str(refused.value)


async def test_a_revoked_token_is_refused_in_every_process_within_two_seconds(
    world, tokens, credentials, database_url: str, embedder, seconds: list[float]
):
    elsewhere = await open_engine(database_url, Keyring.of(b"m" * 32), embedder, clock=world.clock)
    both = (credentials, Credentials(elsewhere))
    issued = await tokens.issue(world.caller, {"actor": "agent:planner"})
    for one in both:
        await one.caller(issued.text)
    ended = await tokens.revoke(world.caller, {"token_id": issued.token.id})
    assert ended.status == "revoked"
    seconds[0] += credentials_module.KNOWN_SECONDS
    for one in both:
        with pytest.raises(InvalidCredential):
            await one.caller(issued.text)
    assert credentials_module.KNOWN_SECONDS <= 2
    await elsewhere.close()


async def test_expiry_is_kept_to_the_moment_also_for_a_token_that_is_known(world, tokens, credentials):
    ends = world.clock.now + timedelta(hours=1)
    issued = await tokens.issue(world.caller, {"actor": "agent:planner", "expires_at": ends})
    await credentials.caller(issued.text)
    world.clock.forward(hours=1)
    with pytest.raises(InvalidCredential, match="expired"):
        await credentials.caller(issued.text)


async def test_after_a_rotation_both_work_until_the_grace_is_over(
    world, tokens, credentials, seconds: list[float]
):
    old = await tokens.issue(world.caller, {"actor": "agent:planner", "permissions": ["memory:read"]})
    new = await tokens.rotate(world.caller, {"token_id": old.token.id, "grace_seconds": 60})
    both = [await credentials.caller(one.text) for one in (old, new)]
    assert replace(both[0], expires_at=None) == both[1]
    assert both[0].expires_at == world.clock.now + timedelta(seconds=60)
    assert (await tokens.show(world.caller, {"token_id": old.token.id})).successor == new.token.id
    world.clock.forward(seconds=60)
    with pytest.raises(InvalidCredential, match="expired"):
        await credentials.caller(old.text)
    await credentials.caller(new.text)
    with pytest.raises(Conflict):
        await tokens.rotate(world.caller, {"token_id": old.token.id})


async def test_nobody_gives_more_than_they_have_and_no_token_reaches_other_tenants(world, tokens):
    admin = Caller(world.caller.tenant, world.caller.actor, frozenset({"tenant:admin", "memory:read"}))
    head = await world.engine.log.head()
    with pytest.raises(AccessDenied):
        await tokens.issue(admin, {"actor": "agent:a", "permissions": ["memory:erase"]})
    with pytest.raises(InvalidInput, match="one tenant"):
        await tokens.issue(world.caller, {"actor": "agent:a", "permissions": ["installation:admin"]})
    strong = await tokens.issue(world.caller, {"actor": "agent:a", "permissions": ["memory:erase"]})
    with pytest.raises(AccessDenied):
        await tokens.rotate(admin, {"token_id": strong.token.id})
    assert await world.engine.log.head() == head + 1


async def test_no_token_outlives_the_one_that_issues_it(world, tokens, credentials):
    ends = world.clock.now + timedelta(days=10)
    admin = {"permissions": ["memory:read", "memory:write", "tenant:admin"], "expires_at": ends.isoformat()}
    issued = await tokens.issue(world.caller, {"actor": "person:ada", **admin})
    caller = await credentials.caller(issued.text)
    assert (await tokens.issue(caller, {"actor": "person:bo"})).token.expires_at == ends, "none given: its own end"
    sooner = (ends - timedelta(days=1)).isoformat()
    assert (await tokens.issue(caller, {"actor": "person:bo", "expires_at": sooner})).token.expires_at < ends
    later = (ends + timedelta(seconds=1)).isoformat()
    endless = await tokens.issue(world.caller, {"actor": "person:bo"})
    assert endless.token.expires_at is None, "whoever holds the data directory may"
    for refused in (
        tokens.issue(caller, {"actor": "person:bo", "expires_at": later}),
        tokens.rotate(caller, {"token_id": issued.token.id, "expires_at": later}),
    ):
        with pytest.raises(AccessDenied, match="outlive"):
            await refused
    assert (await tokens.rotate(caller, {"token_id": endless.token.id})).token.expires_at == ends
    assert (
        await tokens.rotate(caller, {"token_id": issued.token.id, "grace_seconds": 60})
    ).token.expires_at == ends
    shortened = await Credentials(world.engine).caller(issued.text)
    with pytest.raises(AccessDenied):
        await tokens.issue(shortened, {"actor": "person:bo", "expires_at": sooner})


async def test_an_agent_that_administers_lets_no_person_in(world, tokens, credentials):
    persons = await tokens.issue(world.caller, {"actor": "person:ada"})
    given = await tokens.issue(
        world.caller, {"actor": "agent:admin", "permissions": ["tenant:admin", "memory:read", "memory:write"]}
    )
    agent = await credentials.caller(given.text)
    head = await world.engine.log.head()
    with pytest.raises(AccessDenied, match="person"):
        await tokens.issue(agent, {"actor": "person:ada", "permissions": ["memory:write"]})
    with pytest.raises(AccessDenied, match="person"):
        await tokens.rotate(agent, {"token_id": persons.token.id})
    assert await world.engine.log.head() == head
    for actor in ("agent:other", "importer:files"):
        await tokens.issue(agent, {"actor": actor, "permissions": ["memory:write"]})


async def test_another_tenants_token_is_not_found_and_a_memory_is_no_token(world, tokens):
    issued = await tokens.issue(world.caller, {"actor": "agent:a"})
    other = await world.another_caller()
    for verb in (tokens.show, tokens.revoke, tokens.rotate):
        with pytest.raises(NotFound):
            await verb(other, {"token_id": issued.token.id})
        with pytest.raises(WrongKind):
            await verb(world.caller, {"token_id": await world.remember(f"m {verb.__name__}")})
    assert (await tokens.list(other, {})).tokens == ()
    assert [one.id for one in (await tokens.list(world.caller, {})).tokens] == [issued.token.id]


async def test_the_list_has_every_token_once_oldest_first(world, tokens):
    made = [(await tokens.issue(world.caller, {"actor": f"agent:{n}"})).token.id for n in range(5)]
    seen, cursor = [], None
    while True:
        page = await tokens.list(world.caller, {"limit": 2, "cursor": cursor})
        seen += [one.id for one in page.tokens]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == sorted(made)


async def test_a_memory_opened_with_a_token_ends_with_it(world, tokens, credentials, seconds: list[float]):
    issued = await tokens.issue(
        world.caller, {"actor": "agent:planner", "permissions": ["memory:read", "memory:write", "stream:read"]}
    )
    door = AsyncMemory(world.engine, Credential(credentials, issued.text), pass_settings(ToldJudge()))
    assert issued.text not in repr(door._whose)
    written = await door.remember("by the planner")
    assert (await door.whoami()).actor == "agent:planner"
    following = door.tail(from_position=1)
    assert (await anext(following)).event == "tenant.created"
    await tokens.revoke(world.caller, {"token_id": issued.token.id})
    seconds[0] += 2
    with pytest.raises(InvalidCredential):
        await door.remember("after the end")
    with pytest.raises(InvalidCredential):
        await anext(following)
    await following.aclose()
    assert written.position > 0


async def test_no_secret_is_on_record_or_in_logs(world, tokens, credentials, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    issued = await tokens.issue(world.caller, {"actor": "agent:planner"})
    secret = read_token(issued.text).secret
    await credentials.caller(issued.text)
    assert issued.text not in repr(issued) and issued.text in issued.model_dump_json()
    async with world.engine.database.connection() as connection:
        cursor = await connection.execute("select string_agg(encode(body, 'hex'), ' ') from lethelog.events")
        [[stored]] = await cursor.fetchall()
    assert issued.token.id.hex not in stored, "the id stands in the stream's column"
    assert issued.token.permissions[0].encode().hex() in stored, "what stands there is found"
    for form in (secret.hex(), secret.hex().encode().hex(), issued.text.encode().hex()):
        assert form not in stored
    assert issued.text not in caplog.text and secret.hex() not in caplog.text


def test_the_permissions_are_these():
    assert {
        "memory:read",
        "memory:write",
        "memory:review",
        "memory:import",
        "memory:erase",
        "stream:read",
        "tenant:admin",
        "installation:admin",
    } == ALL_PERMISSIONS
