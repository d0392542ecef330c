"""Ten tenants whose names are easily mixed up, under mixed load: no path gives one what is another's (F37, F38).

A path is a line in `PATHS`: an asynchronous function that gives back, as one text, whatever a caller of one tenant can
get out of it. Each must hold the caller's own canary where it says so, and never anybody else's.
"""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import nats
import psycopg
import pytest
from lethelog.domain.errors import LethelogError
from lethelog.handlers.access.caller import Caller
from lethelog.handlers.access.credentials import Credential, Credentials
from lethelog.handlers.access.tokens import Tokens
from lethelog.handlers.claims import TextClaims
from lethelog.handlers.client.client import AsyncClient
from lethelog.handlers.memory import AsyncMemory
from lethelog.handlers.tenancy.tenancy import Tenancy
from lethelog.streams.broker import STREAM_KINDS

from .mcp_clients import talking
from .pages import browsing
from .passes import ToldJudge, pass_settings, sure, working
from .rest_server import serving_world

NAMES = (
    "acme",
    "acme-corp",
    "acme%",
    "acme_",
    "a.cme",
    "ACME",
    "аcme",
    "ａｃｍｅ",
    "acme\u200b",
    "acme*",
)


@dataclass
class Resident:
    """One tenant: who calls there, the words only it knows, and the ids of its things."""

    name: str
    tenant: UUID
    door: AsyncMemory
    judge: ToldJudge
    token: str = field(repr=False)
    canary: str = field(default_factory=lambda: f"canary{uuid4().hex}")
    memories: list[UUID] = field(default_factory=list)
    proposal: UUID | None = None


Path = Callable[[Resident, list[Resident]], Awaitable[Any]]


async def searched(one: Resident, _: list[Resident]) -> Any:
    return [await one.door.search(query, limit=20) for query in ("canary deploys", "%", "_", "Deploys go to")]


async def searched_in_the_past(one: Resident, _: list[Resident]) -> Any:
    return await one.door.search("canary", limit=20, known_at=await one.door.engine.log.head(), status="all")


async def listed(one: Resident, _: list[Resident]) -> Any:
    return [
        await one.door.list(status="all", limit=100),
        await one.door.list(project="acme"),
        await one.door.list(user_id="acme%"),
    ]


async def got(one: Resident, _: list[Resident]) -> Any:
    return await one.door.get_many(one.memories[:20])


async def history(one: Resident, _: list[Resident]) -> Any:
    return [await one.door.history(memory) for memory in one.memories]


async def log(one: Resident, _: list[Resident]) -> Any:
    return await one.door.events(limit=500)


async def tailed(one: Resident, _: list[Resident]) -> Any:
    last = (await one.door.events(limit=500)).events[-1].position
    seen = []
    async with contextlib.aclosing(one.door.tail(from_position=1)) as following:
        while not seen or seen[-1].position < last:
            seen.append(await anext(following))
    return seen


async def replayed(one: Resident, _: list[Resident]) -> Any:
    return [memory async for memory in one.door.replay(await one.door.engine.log.head())]


async def proposals(one: Resident, _: list[Resident]) -> Any:
    return [
        await one.door.proposals(limit=50),
        await one.door.proposal(one.proposal),
        await one.door.explain(one.proposal),
    ]


async def judged(one: Resident, _: list[Resident]) -> Any:
    """What the judge of its passes was shown: candidates and their neighbours."""
    mine = [str(memory) for memory in one.memories]
    return [said for said in map(repr, one.judge.calls) if any(memory in said for memory in mine)]


async def duplicates(one: Resident, others: list[Resident]) -> Any:
    """The same text in another tenant is no duplicate, and is not told of."""
    return [await one.door.remember(f"Everybody says this {one.canary[:0]}") for _ in others[:1]]


async def settings(one: Resident, _: list[Resident]) -> Any:
    return [await one.door.settings(), await one.door.policy_report(), await one.door.whoami()]


async def tokens(one: Resident, _: list[Resident]) -> Any:
    return await one.door.tokens.list()


async def refusals(one: Resident, others: list[Resident]) -> Any:
    """What it is told when it asks for things of others by their ids."""
    told = []
    for other in others:
        for verb, thing in (
            ("get", other.memories[0]),
            ("history", other.memories[0]),
            ("archive", other.memories[0]),
            ("proposal", other.proposal),
            ("accept", other.proposal),
            ("explain", other.proposal),
        ):
            with pytest.raises(LethelogError) as refused:
                await getattr(one.door, verb)(thing)
            told.append(refused.value.as_dict())
    return told


async def over_rest(one: Resident, others: list[Resident]) -> Any:
    """The same by the server that all tenants share, and what it says of things of others."""
    served_by = SimpleNamespace(engine=one.door.engine, caller=await one.door.caller())
    seen: list[Any] = []
    async with serving_world(served_by) as served, AsyncClient(served.url, one.token) as client:
        seen += [await client.search(one.canary, limit=25), await client.list(limit=100)]
        seen += [await client.get_many(one.memories[:20]), await client.history(one.memories[0])]
        seen += [await client.events(limit=500), await client.proposals(limit=50), await client.whoami()]
        seen.append(await client.explain(one.proposal))
        async with contextlib.aclosing(client.tail(from_position=1)) as events:
            seen.append(await anext(events))
        for other in others:
            with pytest.raises(LethelogError) as refused:
                await client.get(other.memories[0])
            seen.append(refused.value.as_dict())
            with pytest.raises(LethelogError) as refused:
                await client.accept(other.proposal)
            seen.append(refused.value.as_dict())
    return seen


async def over_mcp(one: Resident, others: list[Resident]) -> Any:
    """What the tools, the resources and the prompts of a client tell it."""
    told: list[Any] = []
    async with talking(one.door) as talk:
        for tool, given in (
            ("search", {"query": "canary deploys", "limit": 20}),
            ("search", {"status": "all", "limit": 25}),
            ("search", {"project": "acme", "user_id": "acme%"}),
            ("get_memories", {"ids": [str(memory) for memory in one.memories]}),
            ("get_memories", {"ids": [str(others[0].memories[0])]}),
            ("history", {"memory_id": str(one.memories[3]), "explain": True}),
            ("history", {"memory_id": str(others[0].memories[0])}),
            ("forget", {"query": "Deploys go to"}),
            ("briefing", {"selector": "all", "mode": "full"}),
            ("review_proposals", {"action": "list", "limit": 100}),
            ("review_proposals", {"action": "accept", "proposal_id": str(others[0].proposal)}),
            ("status", {}),
        ):
            told.append(await talk.answer(tool, **given))
        told.append(await talk.client.list_resources())
        told.append(await talk.client.read_resource(f"lethelog://memory/{one.memories[0]}/history"))
        told.append(await talk.client.get_prompt("briefing"))
    return told


async def on_the_page(one: Resident, others: list[Resident]) -> Any:
    """Everything that the review page shows, and what it says of things of others."""
    seen: list[str] = []
    async with browsing(SimpleNamespace(engine=one.door.engine)) as browser:
        assert (await browser.log_in(one.token)).status_code == 303
        for address in ("/?status=all", f"/proposals/{one.proposal}", "/memories?status=all", "/dashboard"):
            seen.append((await browser.get(address)).text)
        seen += [(await browser.get(f"/memories/{memory}")).text for memory in one.memories]
        seen.append((await browser.send("/memories", {"query": "canary deploys"})).text)
        for other in others:
            for address in (f"/proposals/{other.proposal}", f"/memories/{other.memories[0]}"):
                answer = await browser.get(address)
                assert answer.status_code == 404
                seen.append(answer.text)
            assert (await browser.send(f"/proposals/{other.proposal}/accept")).status_code == 404
    return "".join(seen)


PATHS: dict[str, tuple[Path, bool]] = {
    "search": (searched, True),
    "search in the past": (searched_in_the_past, True),
    "list": (listed, True),
    "get": (got, True),
    "history": (history, True),
    "event log": (log, True),
    "tail": (tailed, True),
    "replay": (replayed, True),
    "proposals": (proposals, True),
    "neighbours of the pass": (judged, True),
    "duplicate check": (duplicates, False),
    "settings": (settings, False),
    "tokens": (tokens, False),
    "error texts": (refusals, False),
    "rest": (over_rest, True),
    "MCP": (over_mcp, True),
    "page": (on_the_page, True),
}
"""Name, path, and whether it shows the tenant's own canary: the positive control."""


def words(answer: Any) -> str:
    return answer if isinstance(answer, str) else repr(answer)


@pytest.fixture
async def residents(world, broker):
    """Ten tenants with the same things in each, written at the same time through tokens."""
    credentials, tenancy = Credentials(world.engine), Tenancy(world.engine)
    tokens_of = Tokens(world.engine)
    judge = ToldJudge(sure("archive", 0.95))
    found: list[Resident] = []
    for name in NAMES:
        made = await tenancy.create(world.caller, {"name": name, "allow_lookalike": True})
        operator = Caller(made.id, world.caller.actor)
        await world.engine.tenants.set_judgment(made.id, True, operator.actor)
        allowed = ["memory:read", "memory:write", "memory:review", "memory:import", "stream:read", "tenant:admin"]
        issued = await tokens_of.issue(operator, {"actor": "person:ada", "permissions": allowed})
        door = AsyncMemory(world.engine, Credential(credentials, issued.text), pass_settings(judge))
        found.append(Resident(name, made.id, door, judge, issued.text))
    assert len({one.tenant for one in found}) == len(NAMES)
    await asyncio.gather(*(filled(world, one) for one in found))
    await world.catch_up()
    async with working(world, broker, pass_settings(judge)):
        views = await asyncio.gather(*(one.door.run_pass(wait_seconds=60) for one in found))
        assert {view.phase for view in views} == {"completed"}
        await published(world, broker)
    for one in found:
        one.proposal = (await one.door.proposals()).proposals[0].id
    return found


async def published(world, broker) -> None:
    """Wait until the broker has every event there is."""
    head = await world.engine.log.head()
    client = await nats.connect(broker.url)
    async with asyncio.timeout(30):
        while (await client.jetstream().stream_info(broker.stream("events"))).state.last_seq < head:
            await asyncio.sleep(0.02)
    await client.close()


async def filled(world, one: Resident) -> None:
    for number in range(4):
        written = await one.door.remember(
            f"Deploys go to Hetzner, number {number}, says {one.canary}",
            memory_type="decision",
            project="acme",
            user_id="acme%",
            occurred_at=world.clock.now.replace(year=2025),
        )
        one.memories.append(written.memory.id)
    revised = await one.door.revise(one.memories[3], f"Deploys go to Nomad, says {one.canary}")
    one.memories.append(revised.memory.id)
    await one.door.remember("Everybody says this")


@dataclass
class Load:
    """What every tenant does at the same time, over and over; each thing looked for counts as one operation."""

    world: Any
    residents: list[Resident]
    held: dict[UUID, tuple[str, bytes]]
    """The claim of each memory's text, made with its own tenant's key."""
    operations: int = 0
    crossed: list[str] = field(default_factory=list)

    @classmethod
    async def of(cls, world, residents: list[Resident]) -> "Load":
        held: dict[UUID, tuple[str, bytes]] = {}
        for one in residents:
            texts = await TextClaims.of(world.engine.log, world.engine.vault, one.tenant)
            for number, memory in enumerate(one.memories[:3]):
                text = f"Deploys go to Hetzner, number {number}, says {one.canary}"
                held[memory] = ("content", texts.digest("content", "personal", text))
        return cls(world, residents, held)

    async def round(self, one: Resident, number: int) -> None:
        """Things of everybody, asked for by one: it gets all of its own and nothing else."""
        log, vault = self.world.engine.log, self.world.engine.vault
        everybody = [memory for other in self.residents for memory in other.memories]
        self.check(one, "streams", set(await log.read_streams(one.tenant, everybody)), set(one.memories))
        vault.forget()
        keys = (await vault.data_keys(one.tenant, everybody)).known
        self.check(one, "data keys", keys, set(one.memories))
        holders = set(await log.holders(one.tenant, list(self.held.values()))) - {None}
        self.check(one, "claims", holders, set(one.memories[:3]))
        other = self.residents[(self.residents.index(one) + 1 + number) % len(self.residents)]
        found = await one.door.search(f"says {other.canary}", limit=20)
        before = one.door.position
        written = await one.door.remember(f"Everybody says this, round {number}")
        again = await one.door.remember(f"Everybody says this, round {number}")
        # Nothing brings the read models up to date here.
        one.door.position = before
        said = words([found, written, again, await one.door.list(limit=100), await one.door.events(limit=100)])
        said += words([await one.door.get_many(one.memories), await one.door.history(one.memories[number % 4])])
        if other is not one:
            with pytest.raises(LethelogError) as refused:
                await one.door.get(other.memories[0])
            said += words(refused.value.as_dict())
        assert again.deduplicated and again.memory.id == written.memory.id
        self.operations += 2 * len(everybody) + len(self.held) + len(one.memories) + 7
        if one.canary not in said:
            self.crossed.append(f"{one.name!r} sees nothing of its own")
        self.crossed += [
            f"{one.name!r} sees {other.name!r}" for other in self.residents if _foreign(one, other, said)
        ]

    def check(self, one: Resident, what: str, found: set[Any], own: set[UUID]) -> None:
        if found != own:
            self.crossed.append(f"{what} of {one.name!r}: {len(found - own)} too many, {len(own - found)} too few")


def _foreign(one: Resident, other: Resident, said: str) -> bool:
    return other is not one and other.canary in said


async def test_ten_thousand_operations_of_ten_tenants_at_once_cross_nowhere(world, residents: list[Resident]):
    """F37, F38."""
    load = await Load.of(world, residents)

    async def lives(one: Resident) -> None:
        for number in range(8):
            await load.round(one, number)

    await asyncio.gather(*(lives(one) for one in residents))
    assert load.crossed == [] and load.operations >= 10_000


async def test_no_path_gives_one_tenant_what_is_anothers(world, residents: list[Resident]):
    crossed: list[str] = []

    async def walked(one: Resident) -> None:
        others = [other for other in residents if other is not one]
        for name, (path, shows) in PATHS.items():
            said = words(await path(one, others))
            if shows and one.canary not in said:
                crossed.append(f"{name} shows {one.name!r} nothing of its own")
            crossed.extend(f"{name}: {one.name!r} sees {other.name!r}" for other in others if other.canary in said)

    await asyncio.gather(*(walked(one) for one in residents))
    assert crossed == []
    again = await asyncio.gather(*(one.door.remember("Everybody says this") for one in residents))
    assert all(written.deduplicated for written in again), "each has said it before"
    assert len({written.memory.id for written in again}) == len(residents)


async def test_unknown_and_foreign_ids_answer_alike_and_ask_the_database_as_often(
    world, residents: list[Resident], monkeypatch: pytest.MonkeyPatch
):
    """The class of the time an answer takes: the same statements, so many round trips, whoever's the id is."""
    one, other = residents[0], residents[1]
    token = (await other.door.tokens.list()).tokens[0].id
    asked: list[str] = []
    execute = psycopg.AsyncCursor.execute

    async def counted(self, query, *more: Any, **how: Any):
        asked.append(str(query).replace(str(one.tenant), "TENANT"))
        return await execute(self, query, *more, **how)

    async def answered(verb: str, thing: UUID, **fields: Any) -> tuple[str, list[str]]:
        asked.clear()
        door, _, method = verb.rpartition(".")
        with pytest.raises(LethelogError) as refused:
            await getattr(one.door.tokens if door else one.door, method)(thing, **fields)
        return json.dumps(refused.value.as_dict()).replace(str(thing), "ID"), list(asked)

    await one.door.whoami()
    monkeypatch.setattr(psycopg.AsyncCursor, "execute", counted)
    for verb, thing, fields in (
        *((verb, other.memories[0], {}) for verb in ("get", "history", "archive", "restore", "refute", "pin")),
        *((verb, other.memories[0], {}) for verb in ("reaffirm", "verify")),
        ("release", other.memories[0], {"reason": "x"}),
        ("move", other.memories[0], {"tags": ["x"]}),
        ("revise", other.memories[0], {"content": "x"}),
        ("show_pass", (await other.door.proposal(other.proposal)).proposal.pass_id, {}),
        ("tokens.show", token, {}),
        ("tokens.revoke", token, {}),
        ("tokens.rotate", token, {}),
        ("proposal", other.proposal, {}),
        ("accept", other.proposal, {}),
        ("reject", other.proposal, {}),
        ("explain", other.proposal, {}),
    ):
        await answered(verb, uuid4(), **fields)
        foreign, unknown = await answered(verb, thing, **fields), await answered(verb, uuid4(), **fields)
        assert foreign == unknown and foreign[1], verb
    for stream in (other.memories[0], uuid4()):
        assert (await one.door.events(stream=stream)).events == ()


async def test_the_broker_carries_no_canary_and_subjects_name_tenants_by_opaque_ids(world, broker, residents):
    client = await nats.connect(broker.url)
    stream = client.jetstream()
    info = [await stream.stream_info(broker.stream(kind)) for kind in STREAM_KINDS]
    said = ""
    for one in info:
        for sequence in range(max(one.state.first_seq, 1), one.state.last_seq + 1):
            with contextlib.suppress(nats.js.errors.NotFoundError):
                message = await stream.get_msg(one.config.name, sequence)
                said += f"{message.subject} {message.headers} {message.data!r}\n"
    await client.close()
    assert all(str(one.tenant) in said or one.tenant.hex in said for one in residents), "events are there"
    for one in residents:
        assert one.canary not in said
    subjects = {line.split(" ", 1)[0] for line in said.splitlines()}
    assert not any("cme" in subject.lower().replace("reclaimed", "") for subject in subjects)
