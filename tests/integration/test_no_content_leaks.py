"""What people write stands in clear in the read models and nowhere else.

A canary of its own goes into every free text and every outside name that a command takes, also into commands that
are refused. Then everything that is stored, sent or said is searched for each of them. Scopes are no text of a
person: they are words of a fixed alphabet that stand in clear by design (design.md 4), so they carry none.
"""

import asyncio
import base64
import contextlib
import importlib
import json
import logging
import os
import pkgutil
import tempfile
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import lethelog.domain
import lethelog.handlers
import nats
import psycopg
import pytest
from lethelog.domain.closing import ResolutionRequest
from lethelog.domain.errors import LethelogError, NotFound
from lethelog.domain.extraction import Extraction, ExtractionRequest, ReadFact, Taken
from lethelog.domain.fields import Input, parse
from lethelog.domain.judging import Answer, DecisionRequest, DecisionResult, Evidence, PairItem
from lethelog.handlers.access.caller import ALL_PERMISSIONS, Caller
from lethelog.handlers.access.tokens import Tokens
from lethelog.handlers.archive.exporting import Exporting
from lethelog.handlers.briefing import Briefing
from lethelog.handlers.commitments.listing import CommitmentListing
from lethelog.handlers.commitments.resolving import Resolving
from lethelog.handlers.consolidation.passes import Consolidations
from lethelog.handlers.contradictions.listing import ContradictionListing
from lethelog.handlers.erasure.erasures import Erasures
from lethelog.handlers.extracting.by_hand import ExtractingByHand
from lethelog.handlers.facts import Facts
from lethelog.handlers.forgetting.requesting import Passes
from lethelog.handlers.memories import Retry
from lethelog.handlers.operating.parked import Parked
from lethelog.handlers.operating.views import ParkedPage
from lethelog.handlers.sessions.closer import Closer
from lethelog.handlers.sessions.sessions import Sessions
from lethelog.handlers.tenancy.policies import Policies
from lethelog.handlers.tenancy.tenancy import Tenancy
from lethelog.handlers.undoing.undoing import Undoing
from lethelog.handlers.webhooks.webhooks import Webhooks
from lethelog.ops.local import open_caller
from lethelog.ops.settings import Settings
from lethelog.projections.progress import wait_for
from lethelog.streams.consumers import Consumers
from lethelog.streams.directory import INSTALLATION
from lethelog.streams.handling import RetryPolicy
from lethelog.streams.payloads import Actor
from lethelog.streams.subscriptions import EventSubscription
from nats.aio.msg import Msg

from .broker_fixtures import eventually
from .closing import judged
from .passes import ToldCloser, ToldJudge, finish, pass_settings, sure, working


@dataclass
class Canaries:
    """Words that occur nowhere else, by what they were given as."""

    run: str = field(default_factory=lambda: uuid4().hex[:10])
    given: dict[str, str] = field(default_factory=dict)

    def __call__(self, what: str) -> str:
        word = f"zqcanary{len(self.given):03d}x{self.run}"
        assert what not in self.given
        self.given[what] = word
        return word

    def in_text(self, text: str) -> set[str]:
        """Which of them a text holds, in clear or as its bytes written in base 16 or 64."""
        lower = text.lower()
        found = {what for what, word in self.given.items() if word in lower}
        found |= {what for what, word in self.given.items() if word.encode().hex() in lower}
        return found | {what for what, word in self.given.items() for form in _base64_forms(word) if form in text}

    def in_bytes(self, content: bytes) -> set[str]:
        forms = ("utf-8", "utf-16-le", "utf-16-be")
        found = {what for what, word in self.given.items() if any(word.encode(form) in content for form in forms)}
        return found | self.in_text(content.decode("latin-1"))


def _base64_forms(word: str) -> Iterator[str]:
    """What a word looks like inside a text in base 64, wherever it begins in it."""
    for before in range(3):
        written = base64.b64encode(b"\x00" * before + word.encode()).decode().rstrip("=")
        yield written[(0, 2, 3)[before] : -1]


class Quoting(ToldJudge):
    """Quotes a sentence of the memory that it judges, as the local rule does."""

    quote = ""

    async def decide(self, request: DecisionRequest) -> DecisionResult:
        result = await super().decide(request)
        answers = dict(result.answers)
        for item in request.items:
            answer = answers[item.ref]
            assert isinstance(answer, Answer)
            about = item.newer.memory_id if isinstance(item, PairItem) else item.memory.memory_id
            answers[item.ref] = replace(answer, evidence=Evidence(self.quote, about))
        return replace(result, answers=answers)


class QuotingCloser(ToldCloser):
    """The same about a commitment, of the first memory that it is shown with it."""

    quote = ""

    async def decide_resolution(self, request: ResolutionRequest) -> DecisionResult:
        result = await super().decide_resolution(request)
        [item] = request.items
        answer = result.answers[item.ref]
        assert isinstance(answer, Answer)
        quoted = replace(answer, evidence=Evidence(self.quote, item.written[0].memory_id))
        return replace(result, answers={item.ref: quoted})


class TellingExtractor:
    """Reads the same fact in every text."""

    identity = "extractor:told:1"

    def __init__(self, fact: ReadFact) -> None:
        self._fact = fact

    async def extract(self, request: ExtractionRequest) -> Extraction:
        return Extraction("read", "told-1.0", Taken((self._fact,)))

    async def close(self) -> None:
        pass


@dataclass
class Said:
    """What one life of commands left to look through beside the stores."""

    canaries: Canaries
    ids: dict[str, UUID] = field(default_factory=dict)
    proposals: list[UUID] = field(default_factory=list)
    facts_known_at: int = 0
    errors: list[LethelogError] = field(default_factory=list)
    parked: ParkedPage | None = None


async def live(world, broker, said: Said) -> None:
    """Every command there is, with a canary in every field that takes one."""
    word, commands, caller = said.canaries, world.commands, world.caller
    at = world.clock.now - timedelta(days=40)

    def described(verb: str) -> dict[str, Any]:
        return {
            "topic": word(f"{verb} topic"),
            "content": f"Deploys go to {word(f'{verb} content')}",
            "tags": [word(f"{verb} tag")],
            "metadata": {word(f"{verb} metadata key"): {"inner": [word(f"{verb} metadata value")]}},
            "project": word(f"{verb} project"),
            "memory_type": "commitment",
            "owner": word(f"{verb} owner"),
            **{
                name: word(f"{verb} {name}") for name in ("user_id", "agent_id", "run_id", "session_id", "subject")
            },
        }

    async def do(verb: str, name: str, key: bool = False, **arguments: Any) -> UUID:
        retry = Retry(word(f"{verb} key of {name}") if key else None)
        written = await getattr(commands, verb)(caller, arguments, retry)
        return said.ids.setdefault(name, written.memory.id)

    fact = {name: word(f"fact {name}") for name in _FACT}
    first = await do("remember", "first", key=True, **described("remember"), facts=[fact])
    said.facts_known_at = await world.engine.log.head()
    revised = await do("revise", "revised", key=True, memory_id=first, **described("revise"))
    imported = await do("import_memory", "imported", key=True, **described("import"), occurred_at=at)
    follows = {"memory_id": imported, "occurred_at": at + timedelta(days=1)}
    await do("revise_imported", "revised import", key=True, **described("follow"), **follows)
    about = {"memory_id": revised}
    await do("move", "revised", key=True, **about, project=word("move project"), tags=[word("move tag")])
    fields = ("session", "user", "agent", "project")
    run = await Sessions(world.engine).open(caller, {name: word(f"run {name}") for name in fields})
    await Sessions(world.engine).page(caller, {"user": word("run of user")})
    await do("reaffirm", "revised", **about, session_run_id=run.id)
    moved = {**about, "status": "waiting", "owner": word("resolve owner")}
    await Resolving(world.engine, commands).resolve(caller, moved, Retry(word("resolve key")))
    await do("archive", "revised", key=True, **about, reason=word("archive reason"))
    await do("restore", "revised", key=True, **about, reason=word("restore reason"))
    plan = {"plan_id": uuid4(), "approver": word("approver"), "reason": word("suppress reason")}
    await do("suppress", "revised", key=True, **about, **plan)
    await do("restore", "revised", **about)
    for verb in ("reaffirm", "pin", "verify"):
        await do(verb, "revised", key=True, **about)
    await do("refute", "revised", key=True, **about, reason=word("refute reason"))
    again = (await world.get(revised)).content
    back = await do("remember", "quarantined", topic=word("quarantined topic"), content=again)
    await do("release", "quarantined", key=True, memory_id=back, reason=word("release reason"))
    for name in ("accepted", "rejected"):
        text = {"topic": word(f"{name} topic"), "content": f"The {name} one is {word(f'{name} content')}"}
        await do("remember", name, **text, memory_type="decision", project=name, occurred_at=at)
    await a_pass(world, broker, said)
    await named(world, said)
    await refused(world, said)


async def named(world, said: Said) -> None:
    """People and things that a policy, a token and an export name."""
    operator = replace(world.caller, permissions=ALL_PERMISSIONS)
    owners = {name: said.canaries(name) for name in ("owner", "contradiction_owner")}
    await Policies(world.engine).change(operator, owners)
    narrowed = {name: said.canaries.given[f"import {name}"] for name in _FILTERS}
    with tempfile.TemporaryDirectory() as folder:
        written, _ = await Exporting(world.engine).export(operator, Path(folder) / "archive", narrowed)
    assert written.memories == 1
    for what in ("subject", "project"):
        seen = await Erasures(world.engine).preview(operator, {what: said.canaries.given[f"import {what}"]})
        assert seen.memories > 0
    await Webhooks(world.engine).add(operator, {"url": f"https://example.org/{said.canaries('webhook url')}"})
    await Tokens(world.engine).issue(operator, {"actor": f"agent:{said.canaries('token actor')}"})


async def a_pass(world, broker, said: Said) -> None:
    word, caller = said.canaries, world.caller
    await world.engine.tenants.set_judgment(caller.tenant, True, caller.actor)
    judge = Quoting(sure("archive"))
    judge.quote = f"That is over: {word('verdict quote')}."
    settings = pass_settings(judge)
    async with working(world, broker, settings) as workers:
        view = await Passes(world.engine, settings).request(caller, {"key": word("pass key")})
        await finish(world, settings, view, seconds=60)
        page = await world.reviewing.list(caller, {"status": "proposed"})
        by_memory = {proposal.memory_id: proposal.id for proposal in page.proposals}
        said.proposals = [by_memory[said.ids["accepted"]], by_memory[said.ids["rejected"]]]
        for decide, proposal, name in (
            (world.reviewing.accept, said.proposals[0], "accept"),
            (world.reviewing.reject, said.proposals[1], "reject"),
        ):
            arguments = {"proposal_id": proposal, "comment": word(f"{name} comment"), "key": word(f"{name} key")}
            await decide(caller, arguments)
        await a_session(world, said)
        await ContradictionListing(world.engine).page(caller, {"owner": word("contradiction owner")})
        await Consolidations(world.engine).request(caller, {"key": word("consolidation key")})
        given = {name: word(f"read {name}") for name in ("subject", "predicate", "value", "quote")}
        extractor = TellingExtractor(ReadFact(**given, confidence=0.5))
        asked = {"memory_id": said.ids["rejected"], "key": word("extract key")}
        await ExtractingByHand(world.engine, extractor).extract(caller, asked)
        many = {"verdict": "reject", "comment": word("bulk comment"), "key": word("bulk key")}
        await world.reviewing.decide_many(caller, {**many, "proposal_ids": [uuid4()]})
        undoing = Undoing(world.engine, world.commands)
        with contextlib.suppress(NotFound):
            await undoing.preview(caller, {"reviewer": word("undo reviewer")})
        undone = await undoing.undo(caller, {"proposal_id": said.proposals[0], "key": word("undo key")})
        await undoing.undo(caller, {"undo_id": undone.id})
        await world.reading.search(caller, {"query": f"where do deploys go {word('search query')}"})
        await world.reading.list(caller, {"user_id": word("filter user"), "tags": [word("filter tag")]})
        await Facts(world.engine).get(caller, {"subject": word("fact query")})
        await CommitmentListing(world.engine).page(caller, {"owner": word("filter owner")})
        handoff = {"selector": "project", "mode": "handoff", "generated_for": word("briefed person")}
        await Briefing(world.engine).brief(caller, {**handoff, "project": word("briefing project")})
        head = await world.engine.log.head()
        for name in (
            "live_memory",
            "review_queue",
            "memory_history",
            "facts",
            "commitments",
            "contradictions",
            "effects",
            "sessions",
        ):
            await wait_for(world.engine.database, name, head)
        async with asyncio.timeout(60):
            await workers._relay.reached(head)
    await gave_up(world, broker, said)


async def a_session(world, said: Said) -> None:
    """A session that the closer looks at: one commitment is resolved by policy, one put before a reviewer."""
    word, caller, commands = said.canaries, world.caller, world.commands
    run = await Sessions(world.engine).open(caller, {"session": word("closed session")})
    for name in ("resolved", "proposed"):
        promised = {"topic": word(f"{name} topic"), "content": f"Send {word(f'{name} content')}", "scope": name}
        await commands.remember(caller, {**promised, "memory_type": "commitment"})
        written = {"topic": word(f"{name} write topic"), "content": f"It went out {word(f'{name} write')}"}
        await commands.remember(caller, {**written, "scope": name, "session_run_id": run.id})
    closed = await Sessions(world.engine).close(caller, {"session_run_id": run.id})
    await wait_for(world.engine.database, "sessions", closed.position)
    judge = QuotingCloser(sure=lambda item: 0.95 if item.commitment.scope == "resolved" else 0.7)
    judge.quote = f"It went out: {word('closer quote')}"
    assert await Closer(world.engine, judge).look() == 1
    followed = [one.event.followed for one in await judged(world, run.id)]
    assert sorted(followed) == ["proposed", "resolved"]


async def gave_up(world, broker, said: Said) -> None:
    """A consumer that fails with what it read in its error, so that events are really parked; one is dropped."""
    failed: list[str] = []

    async def fails(event) -> None:
        failed.append(repr(event.event))
        raise ValueError(failed[-1])

    policy = RetryPolicy(max_deliveries=1, delays=(0.05,), ack_wait=5)
    consumers = Consumers(broker, world.engine.log.decode)
    await consumers.open(
        [EventSubscription("gave-up", ("memory.remembered", "memory.archived"), fails, policy=policy)]
    )
    words = {f"{one} content" for one in ("remember", "revise", "import", "follow", "accepted", "rejected")}
    await eventually(lambda: words <= said.canaries.in_text(" ".join(failed)), "the consumer reads the words")
    await eventually(
        lambda: consumers.rule.outcomes["gave-up", "parked"] >= len(words), "they are parked, and what follows"
    )
    await consumers.close()
    parked, operator = Parked(world.engine, broker), replace(world.caller, permissions=ALL_PERMISSIONS)
    said.parked = await parked.list(operator, {"consumer": "gave-up"})
    await parked.drop(operator, {"id": said.parked.parked[-1].id, "reason": "other", "ticket": 4711})


async def refused(world, said: Said) -> None:
    """The same words again, in commands that fail: errors are read by more eyes than memories."""
    word, caller = said.canaries, world.caller
    first, key = said.ids["first"], said.canaries.given["remember key of first"]
    long = {name: f"{word(f'long {name}')} " * 200 for name in ("topic", "content", "user_id", "project")}
    right = {"topic": "t", "content": "c"}
    wrong: list[tuple[Any, dict[str, Any], Retry]] = [
        *[(world.commands.remember, {**right, name: text}, Retry()) for name, text in long.items()],
        (
            world.commands.remember,
            {**right, "metadata": {word("bad metadata key") * 9: word("bad metadata")}},
            Retry(),
        ),
        (world.commands.remember, {**right, "metadata": {"k": {word("bad object"): object()}}}, Retry()),
        (world.commands.remember, {**right, "tags": word("tags as text")}, Retry()),
        (world.commands.remember, {**right, "tags": [word("long tag") * 9]}, Retry()),
        (world.commands.remember, {**right, "topic": f"{word('nul topic')}\x00"}, Retry()),
        (world.commands.remember, {**right, "content": f"{word('half content')}\ud83d"}, Retry()),
        (world.commands.remember, {**right, "scope": word("bad scope").upper()}, Retry()),
        (world.commands.remember, {**right, "memory_type": word("bad type")}, Retry()),
        (world.commands.remember, {**right, "expires_at": word("bad time")}, Retry()),
        (world.commands.remember, {**right, "derived_from": [word("bad id")]}, Retry()),
        (world.commands.remember, {**right, "vaild_to": word("unknown argument")}, Retry()),
        (world.commands.remember, {**right, "facts": [{"subject": word("bad fact") * 40}]}, Retry()),
        (world.commands.remember, {**right, "facts": word("facts as text")}, Retry()),
        (world.commands.remember, {"topic": "t", "content": word("content under a used key")}, Retry(key)),
        (world.commands.remember, right, Retry(word("long key") * 20)),
        (world.commands.revise, {"memory_id": first, "content": word("content of a closed one")}, Retry()),
        (world.commands.revise, {"memory_id": uuid4(), "content": word("content of nobody")}, Retry()),
        (world.commands.archive, {"memory_id": first, "reason": word("reason for a closed one")}, Retry()),
        (world.commands.archive, {"memory_id": word("word as id")}, Retry()),
        (
            world.commands.restore,
            {"memory_id": said.ids["revised"], "reason": word("restoring a refuted one")},
            Retry(),
        ),
    ]
    for call, arguments, retry in wrong:
        with pytest.raises(LethelogError) as error:
            await call(caller, arguments, retry)
        said.errors.append(error.value)
    for call, arguments in (
        (world.reading.search, {"query": f"{word('long query')} " * 200}),
        (world.reading.list, {"cursor": word("cursor")}),
        (world.reading.list, {"status": word("status")}),
        (Facts(world.engine).get, {"subject": word("long fact query") * 40}),
        (world.reviewing.accept, {"proposal_id": said.proposals[0], "comment": word("comment on a decided one")}),
        (world.reviewing.reject, {"proposal_id": said.proposals[1], "comment": f"{word('long comment')} " * 200}),
    ):
        with pytest.raises(LethelogError) as error:
            await call(caller, arguments)
        said.errors.append(error.value)


@pytest.fixture
async def own_caller(world, tmp_path: Path, canaries: Canaries) -> Caller:
    """A caller of a tenant and with a name that were given in words."""
    settings = Settings.load(
        data_dir=tmp_path, tenant=canaries("tenant name"), actor=f"person:{canaries('actor name')}"
    )
    await Tenancy(world.engine).create(world.caller, {"name": settings.tenant})
    world.caller = await open_caller(world.engine, settings)
    world.clock.now = (await world.engine.tenants.get(world.caller.tenant)).created_at
    return world.caller


@pytest.fixture
def canaries() -> Canaries:
    return Canaries()


@pytest.fixture
def everything_logged(caplog: pytest.LogCaptureFixture) -> Generator[pytest.LogCaptureFixture]:
    """Every logger there is at DEBUG, also those that do not hand their records up."""
    caplog.set_level(logging.DEBUG)
    apart: list[logging.Logger] = []
    for name in list(logging.root.manager.loggerDict):
        logger = logging.getLogger(name)
        caplog.set_level(logging.DEBUG, logger=name)
        if not logger.propagate:
            logger.addHandler(caplog.handler)
            apart.append(logger)
    yield caplog
    for logger in apart:
        logger.removeHandler(caplog.handler)


@asynccontextmanager
async def overheard(broker) -> AsyncGenerator[list[Msg]]:
    """Every message that passes under the prefix of this test, tasks and inboxes of its streams included."""
    heard: list[Msg] = []

    async def hear(message: Msg) -> None:
        heard.append(message)

    client = await nats.connect(broker.url)
    await client.subscribe(f"{broker.prefix}.>", cb=hear)
    await client.flush()
    try:
        yield heard
    finally:
        await client.close()


def stored_rows(database_url: str) -> Iterator[tuple[str, str, list[Any]]]:
    """(schema, table, row) of every table of every schema, and the last statement of every session."""
    with psycopg.connect(database_url) as connection:
        for row in connection.execute("select query from pg_stat_activity").fetchall():
            yield "pg_catalog", "pg_stat_activity", list(row)
        tables = connection.execute(
            "select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace "
            "where c.relkind in ('r', 'm', 'p', 'S') and n.nspname not in ('pg_catalog', 'information_schema') "
            "and n.nspname !~ '^pg_toast' order by 1, 2"
        ).fetchall()
        for schema, table in tables:
            query = f'select x::text, x.* from "{schema}"."{table}" x'
            for row in connection.execute(query).fetchall():
                yield schema, table, list(row)


async def test_every_word_of_a_person_is_in_clear_in_the_read_models_and_nowhere_else(
    world, broker, servers, database_url, own_caller, canaries, everything_logged, capfd, tmp_path
):
    """F06, F38: names too."""
    asyncio.get_running_loop().set_debug(True)
    said = Said(canaries)
    log_files = [(path, path.stat().st_size) for path in server_logs(servers)]
    async with overheard(broker) as heard:
        await live(world, broker, said)
        assert len({message.subject for message in heard}) > 10
        waiting = {message.subject for message in heard if b"ValueError" in message.data}
        assert broker.parked_subject("gave-up") in waiting and broker.dropped_subject("gave-up") in waiting
    assert len(canaries.given) > 80
    assert {what for names in GIVEN.values() for what in names.values()} <= set(canaries.given)

    # Positive control first: what was given is there to be read.
    shown = await readable(world, said)
    assert sorted(set(KEPT) - shown) == []
    in_views: set[str] = set()
    elsewhere: dict[str, set[str]] = {}
    rows = 0
    for schema, table, row in stored_rows(database_url):
        rows += 1
        found = set().union(
            *(canaries.in_bytes(v) if isinstance(v, bytes) else canaries.in_text(str(v)) for v in row)
        )
        if schema == "lethelog_views":
            in_views |= found
        elif found:
            elsewhere[f"{schema}.{table}"] = found
    assert rows > 150 and elsewhere == {}
    assert {
        "remember content",
        "revise metadata value",
        "archive reason",
        "accept comment",
        "verdict quote",
    } <= in_views
    in_broker = {m.subject: found for m in heard if (found := canaries.in_bytes(whole(m)))}
    assert in_broker == {}
    assert said.parked is not None and canaries.in_text(repr(said.parked)) == set()
    in_files = {
        str(path): found for path in broker_files(servers) if (found := canaries.in_bytes(path.read_bytes()))
    }
    assert in_files == {}
    assert (
        canaries.in_text(everything_logged.text + repr([r.__dict__ for r in everything_logged.records])) == set()
    )
    assert any(
        record.name.startswith("lethelog") or record.name == "asyncio" for record in everything_logged.records
    )
    assert canaries.in_text("".join(capfd.readouterr())) == set()
    for path, size in log_files:
        with path.open("rb") as file:
            file.seek(size)
            assert canaries.in_bytes(file.read()) == set(), path.name
    for error in said.errors:
        text = str(error) + json.dumps(error.as_dict()) + repr(error) + repr(error.details)
        causes = repr(error.__cause__) + (repr(error.__context__) if not error.__suppress_context__ else "")
        assert canaries.in_text(text + causes) == set(), error.code


KEPT = (
    *[f"{verb} {name}" for verb in ("remember", "revise", "import", "follow") for name in (
        "topic", "content", "tag", "metadata key", "metadata value", "project", "user_id", "agent_id", "run_id",
        "session_id", "subject",
    ) if (verb, name) not in (("revise", "tag"), ("revise", "project"))],
    "move project", "move tag", "archive reason", "restore reason", "suppress reason", "refute reason", "release reason",
    "quarantined topic", "accepted topic", "accepted content", "rejected topic", "rejected content", "verdict quote",
    "fact subject", "fact predicate", "fact value", "read subject", "read predicate", "read value", "read quote", "accept comment", "reject comment", "actor name", "approver", "tenant name",
    "resolve owner", "follow owner",
)  # fmt: skip
"""What must be found again through the doors. The successor's tag and project were changed by the move."""


async def readable(world, said: Said) -> set[str]:
    """Everything the doors give out, as one text; and the names through the directory."""
    answers: list[Any] = [await world.reading.get(world.caller, {"ids": list(said.ids.values())})]
    for one in said.ids.values():
        answers.append(await world.reading.history(world.caller, {"memory_id": one}))
    answers.append(await world.reviewing.list(world.caller, {}))
    owners = await CommitmentListing(world.engine).page(world.caller, {})
    directory, tenant = world.engine.directory, world.caller.tenant
    plans = [entry.detail for one in answers[1:-1] for entry in one.entries if entry.event == "memory.suppressed"]
    answers.append(await directory.names(tenant, [UUID(detail["approver"]) for detail in plans]))
    answers.append(await Facts(world.engine).get(world.caller, {"known_at": said.facts_known_at}))
    found = said.canaries.in_text(repr([*answers, owners]))
    if await directory.find(INSTALLATION, "tenant", said.canaries.given["tenant name"]) == tenant:
        found.add("tenant name")
    repeated = {"memory_id": said.ids["revised"]}
    again = await world.commands.verify(
        world.caller, repeated, Retry(said.canaries.given["verify key of revised"])
    )
    assert not again.changed and again.position > 0, "the key still finds its first result"
    return found


def whole(message: Msg) -> bytes:
    """Everything of a message: subject, headers, body, and the stored event inside it."""
    parts = [message.subject.encode(), repr(message.headers).encode(), message.data]
    with contextlib.suppress(ValueError, KeyError, TypeError):
        parts.append(base64.b64decode(json.loads(message.data)["data"]["body"]))
    return b"\n".join(parts)


def data_folder(servers) -> Path:
    """Where the servers of this run keep their files: beside the configuration that their broker was started with."""
    port = str(urlsplit(servers.broker_url).port)
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            for argument in (process / "cmdline").read_bytes().split(b"\0"):
                folder = Path(os.fsdecode(argument)).parent
                if argument.endswith(b"/nats.conf") and (folder / "nats.port").read_text().strip() == port:
                    return folder
    return Path("/nowhere")


def server_logs(servers) -> list[Path]:
    """What the servers wrote down themselves; none where servers of one's own keep it elsewhere."""
    folder = data_folder(servers)
    return [*folder.glob("*.log"), *folder.glob("logs/*.log")]


def broker_files(servers) -> list[Path]:
    """The broker's store on disk; none where servers of one's own keep it elsewhere."""
    return [path for path in (data_folder(servers) / "js").rglob("*") if path.is_file()]


_FACT = ("subject", "predicate", "value")
_DESCRIBED = ("topic", "project", "owner", "user_id", "agent_id", "run_id", "session_id", "subject")
_FILTERS = ("project", "user_id", "agent_id", "run_id", "session_id", "subject")


def described(verb: str) -> dict[str, str]:
    """Which canary each field of a description was given."""
    named = {name: f"{verb} {name}" for name in (*_DESCRIBED, "content")}
    return named | {"tags": f"{verb} tag", "metadata": f"{verb} metadata value"}


GIVEN: dict[str, dict[str, str]] = {
    "Remember": described("remember"),
    "GivenFact": {name: f"fact {name}" for name in _FACT},
    "BriefingQuery": {"project": "briefing project", "generated_for": "briefed person"},
    "FactsQuery": {"subject": "fact query", "predicate": "fact query"},
    "Revise": described("revise"),
    "RememberImported": described("import"),
    "ReviseImported": described("follow"),
    "ExportArchive": {name: f"import {name}" for name in _FILTERS},
    "Move": {"project": "move project", "tags": "move tag"},
    **{name: {"reason": f"{name.lower()} reason"} for name in ("Archive", "Restore", "Refute", "Release")},
    "Suppress": {"approver": "approver", "reason": "suppress reason"},
    "Decide": {"comment": "accept comment", "key": "accept key"},
    "Resolve": {"owner": "resolve owner"},
    "OpenSession": {name: f"run {name}" for name in ("session", "user", "agent", "project")},
    "SessionsQuery": dict.fromkeys(("user", "agent"), "run of user"),
    "CommitmentQuery": {"owner": "filter owner"},
    "DecideMany": {"comment": "bulk comment", "key": "bulk key"},
    "UndoSelector": {"reviewer": "undo reviewer"},
    "PreviewUndo": {"reviewer": "undo reviewer"},
    "RequestUndo": {"reviewer": "undo reviewer", "key": "undo key"},
    "RequestPass": {"key": "pass key"},
    "ContradictionQuery": {"owner": "contradiction owner", "cursor": "cursor"},
    "RequestConsolidation": {"key": "consolidation key"},
    "ExtractFacts": {"key": "extract key"},
    "_Keyed": {"key": "remember key of first"},
    "SearchQuery": {"query": "search query"} | dict.fromkeys((*_FILTERS, "tags"), "filter user"),
    "ListQuery": {"tags": "filter tag", "cursor": "cursor"} | dict.fromkeys(_FILTERS, "filter user"),
    "_Owners": {"owner": "owner", "contradiction_owner": "contradiction_owner"},
    "IssueToken": {"actor": "token actor"},
    "PreviewErasure": {"subject": "import subject", "project": "import project"},
    "CreateTenant": {"name": "tenant name", "policy": "owner"},
    "TenantQuery": {"name": "tenant name"},
    "_Tenant": {"name": "tenant name"},
    "_Actor": {"name": "actor name"},
    "_Named": {"actor": "actor name"},
    "AddWebhook": {"url": "webhook url"},
    "ChangeWebhook": {"url": "webhook url"},
}
"""Which canary went into each text of each command and query; filters are one kind, and one of them stands for all."""
NOT_OF_A_PERSON = {
    "scope": "a word of a fixed alphabet, in clear by design",
    "names": "names of events",
    "recurrence": "a rule of a fixed alphabet, which nothing else fits",
    "Erase.reason": "a code of a fixed alphabet, in clear by design",
    "judge": "identity of a judge, or name of a model",
    "consumer": "the name of a part of the installation",
    "read_model": "the name of a part of the installation",
    "cursor": "made by the door that takes it",
    "ReplayIntoQuery.name": "part of a schema's name, of a fixed alphabet",
    "DropCommand.id": "made by the list of parked messages",
}
"""Texts that hold nothing a person wrote, and why."""


HANDED_ON = ("lethelog.handlers.http.", "lethelog.handlers.mcp.")
"""What these take they hand on to the commands and queries of the Python door, which take the same texts."""


def texts_of_commands() -> list[tuple[type[Input], str]]:
    """Every field of every command and query that takes a text or a free structure, from the classes themselves."""
    for package in (lethelog.domain, lethelog.handlers):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    kinds, seen = [Input], list[type[Input]]()
    while kinds:
        below = kinds.pop().__subclasses__()
        kinds += below
        # What others are made from is looked at in these.
        own = [one for one in below if one.__module__.startswith("lethelog.")]
        seen += [one for one in own if not (one.__name__.startswith("_") and one.__subclasses__())]
    return [
        (one, name)
        for one in seen
        for name, said in one.model_json_schema().get("properties", {}).items()
        if takes_text(said)
    ]


def takes_text(schema: Any) -> bool:
    if isinstance(schema, list):
        return any(map(takes_text, schema))
    if not isinstance(schema, dict):
        return False
    if schema.get("type") == "string":
        return schema.keys().isdisjoint(("format", "enum", "const"))
    if schema.get("type") == "object" and schema.get("additionalProperties") is True:
        return True
    return any(takes_text(schema.get(key)) for key in ("anyOf", "oneOf", "allOf", "items", "prefixItems"))


def test_no_text_of_any_command_is_without_a_canary_or_a_reason():
    """A field that somebody adds is in here by itself."""
    found = {
        (kind.__name__, name) for kind, name in texts_of_commands() if not kind.__module__.startswith(HANDED_ON)
    }
    given = {(kind, name) for kind, names in GIVEN.items() for name in names}
    excused = {one for one in found if one[1] in NOT_OF_A_PERSON or ".".join(one) in NOT_OF_A_PERSON}
    assert found - given - excused == set(), "give it a canary in live(), and say which in GIVEN"
    assert given - found == set() and len(found) > 60


def test_no_command_that_is_refused_says_what_it_was_given():
    """Every field of every command and query, with a text that is too long, of another kind, or no text at all."""
    canaries = Canaries()
    word, refused = canaries("it"), 0
    kinds = {kind for kind, _ in texts_of_commands()}
    for kind in kinds:
        for name in (*kind.model_json_schema().get("properties", {}), "no_such_field"):
            for value in (word * 9_000, [word], {word: word}, {"k": {word: object()}}, [[word]], f"{word}\x00"):
                try:
                    parse(kind, {name: value})
                except LethelogError as error:
                    refused += 1
                    texts = str(error), repr(error), json.dumps(error.as_dict()), repr(error.__cause__)
                    hidden = "" if error.__suppress_context__ else repr(error.__context__)
                    assert canaries.in_text(" ".join(texts) + hidden) == set(), (kind.__name__, name)
    assert refused > 1_000


async def test_the_broker_files_of_this_run_hold_its_subjects(world, broker, servers):
    """Positive control of the search through the store: what is in clear there is found there."""
    if not broker_files(servers) or not server_logs(servers):
        pytest.skip("the servers' files are not where this test looks for them")
    settings = pass_settings(ToldJudge())
    async with working(world, broker, settings, roles={"relay"}):
        await world.remember("Deploys go to Hetzner")
        prefix = f"{broker.prefix}.events.".encode()

        def on_disk() -> bool:
            return any(prefix in path.read_bytes() for path in broker_files(servers))

        await eventually(on_disk, "the messages are in the broker's files")


async def test_a_canary_in_clear_would_be_found_in_every_form_looked_for():
    """Positive control of the search itself."""
    canaries = Canaries()
    word = canaries("it")
    for before in (b"", b"x", b"xy", b"xyz"):
        content = before + word.encode() + b" and on"
        assert canaries.in_bytes(content) == {"it"}
        assert canaries.in_bytes(before + word.encode("utf-16")) == {"it"}
        assert canaries.in_bytes(before + word.encode("utf-16-be")) == {"it"}
        assert canaries.in_text(content.hex()) == canaries.in_text(content.hex().upper()) == {"it"}
        assert canaries.in_text(base64.b64encode(content).decode()) == {"it"}
    assert canaries.in_bytes(b"nothing of it") == set()


async def test_an_agent_of_another_tenant_is_told_nothing_by_errors(world, own_caller, canaries):
    """F38: what one tenant wrote never stands in an answer to another, refusals included."""
    first = await world.remember(f"The code is {canaries('their content')}", project=canaries("their project"))
    await world.catch_up()
    other = Caller(uuid4(), Actor("agent", uuid4()))
    await world.engine.tenants.ensure(other.tenant, other.actor)
    answers: list[str] = []
    for call, arguments in (
        (world.reading.get, {"ids": [first]}),
        (world.reading.history, {"memory_id": first}),
        (world.reading.search, {"query": canaries.given["their content"]}),
        (world.reading.list, {"project": canaries.given["their project"]}),
        (world.commands.revise, {"memory_id": first, "content": "mine now"}),
        (world.commands.remember, {"topic": "t", "content": "c", "derived_from": [first]}),
    ):
        try:
            answers.append(repr(await call(other, arguments)))
        except LethelogError as error:
            answers.append(repr(error.as_dict()))
    assert canaries.in_text("".join(answers)) == set() and str(first) in "".join(answers)
    # The positive control: its own caller is told.
    assert canaries.in_text(repr(await world.reading.get(world.caller, {"ids": [first]}))) == {
        "their content",
        "their project",
    }
