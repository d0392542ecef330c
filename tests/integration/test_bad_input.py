"""Odd text comes back byte by byte, and whatever is wrong is refused by name: no other error, nothing appended."""

import asyncio
import base64
import inspect
import random
import unicodedata
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest
from lethelog.domain import commands as c
from lethelog.domain.errors import InvalidInput, LethelogError, NotFound
from lethelog.domain.fields import Input, normalised
from lethelog.domain.thresholds import starting_thresholds
from lethelog.handlers.analytics.review_stats import ReviewFigures, StatsQuery
from lethelog.handlers.briefing import Briefing, BriefingQuery
from lethelog.handlers.bulk_writing import ManyWritten
from lethelog.handlers.commitments.listing import CommitmentListing, CommitmentQuery
from lethelog.handlers.commitments.resolving import Resolving
from lethelog.handlers.consolidation.passes import ConsolidationQuery, Consolidations, RequestConsolidation
from lethelog.handlers.contradictions.listing import ContradictionListing, ContradictionQuery
from lethelog.handlers.explaining import ChainQuery, Explaining
from lethelog.handlers.facts import Facts, FactsQuery
from lethelog.handlers.forgetting.requesting import Passes, PassQuery, RequestPass
from lethelog.handlers.memories import Retry
from lethelog.handlers.memory import AsyncMemory
from lethelog.handlers.reading import GetQuery, HistoryQuery, ListQuery, SearchQuery
from lethelog.handlers.reviewing.bulk import DecideMany, PreviewBulk
from lethelog.handlers.reviewing.deciding import Decide
from lethelog.handlers.reviewing.digest import DigestQuery
from lethelog.handlers.reviewing.queue import ProposalsQuery, ShowQuery
from lethelog.handlers.sessions.sessions import OpenSession, SessionQuery, Sessions, SessionsQuery
from lethelog.handlers.tenancy.scopes import CreateScope, Scopes, ScopesQuery, SetRetrieval
from lethelog.handlers.undoing.undoing import PreviewUndo, RequestUndo, Undoing, UndoQuery
from lethelog.handlers.webhooks.webhooks import (
    AddWebhook,
    ChangeWebhook,
    DeliveriesQuery,
    ReplayDelivery,
    ReplayEvents,
    RotateSecret,
    TryWebhook,
    WebhookQuery,
    Webhooks,
)
from lethelog.handlers.whatif.whatif import WhatIf, WhatIfQuery

from .passes import ToldJudge, pass_settings

# --- odd text --------------------------------------------------------------------------------------------------------

SCRIPTS = (
    "latin Ünïcödé ßſıİ", "Ελληνικά ςσΣ", "Кириллица ёЙ", "עברית שָׁלוֹם", "العربية ١٢٣ لا", "हिन्दी क्षत्रिय", "বাংলা", "ਪੰਜਾਬੀ",
    "ગુજરાતી", "தமிழ்", "తెలుగు", "ಕನ್ನಡ", "മലയാളം", "සිංහල", "ภาษาไทย", "ລາວ", "བོད་ཡིག", "မြန်မာ", "ქართული Ა", "한국어 ㅎㅏㄴ",
    "አማርኛ", "ᏣᎳᎩ ꭰ", "ភាសាខ្មែរ", "ᠮᠣᠩᠭᠣᠯ", "日本語 ｶﾀｶﾅ", "中文繁體 𠀀𪛖", "ꆈꌠꁱꂷ", "𐐔𐐯𐑅𐐨𐑉𐐯𐐻", "𒀀𒁀𒂀", "𝔘𝔫𝔦 𝟙𝟚", "Ⱥ Ⱦ K Å", "ﬀ ﬃ ﷺ",
)  # fmt: skip
ODDITIES = (
    "Z̷̢͚̈́a̸͙̽l̴͖̈́g̶̭̈́o̵͓͑", "e\u0301 vs \u00e9", "\u202eright to left\u202c", "\u2066isolate\u2069", "a\u200bb\u200cc\u200dd\u2060e",
    "🧑‍🧑‍🧒‍🧒", "👩🏽‍🚀", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "🇵🇹", "❤️ ❤︎", "\x01\x02\x03 bell \x07 escape \x1b[31m del \x7f", "tab\tand\r\nlines\n\n\nend", "\u0085nel\u0085x",
    "\u2028line\u2029paragraph", "\ufeffbom", "\ufffd\ufffe\uffff", "\U0010ffff", "\u00ad\u034f\u180e\u3164", "\ue000\U000f0000",
    "%s %d %(name)s %%", "{} {0} {name!r} {{}}", "$1 :name ? \\x00 \\u0000 \\N{BEL}", "'; drop table lethelog.events; --",
    "\" or \"\"=\"", "{\"content\": null}", "[1, 2", "</script><script>alert(1)</script>", "{{ 7*7 }} ${7*7} <%= 7 %>", "\\", "\\\\'", "`rm -rf /`",
    "../../etc/passwd", "NULL", "None", "true", "NaN", "-1", "1e999", "0x0", "&amp; &#0;", "'' <-> & | ! :* ()", "```\nfence\n```", "~~~", "---\nfront: matter\n---",
    "=1+1", "#", "*", "_", "C:\\con\\nul", "ＦＵＬＬ ｗｉｄｔｈ", "ⅷ ² ½ ㎏", "a" * 300,
)  # fmt: skip
LETTERS = [
    chr(point)
    for point in range(1, 0x30000)
    if unicodedata.category(chr(point)) not in ("Cs", "Cn") and point not in (0x23A, 0x23E)
]
"""Every assigned character of the first planes but Ⱥ and Ⱦ, which have a test of their own in words too long."""


def odd_texts(count: int) -> Iterator[str]:
    """Texts whose normalised forms all differ, the same in every run."""
    chosen = random.Random(20260301)
    pieces = SCRIPTS + ODDITIES
    for n in range(count):
        kind = n % 5
        if kind == 0:
            text = f"{chosen.choice(pieces)} {chosen.choice(pieces)}"
        elif kind == 1:
            text = "".join(chosen.choices(LETTERS, k=chosen.randint(1, 40)))
        elif kind == 2:
            text = (
                chosen.choice(pieces)
                + chosen.choice("\t\n\r\x0b\x0c\x1c\u00a0\u3000 ")
                + chosen.choice(LETTERS) * 3
            )
        elif kind == 3:
            script = chosen.choice(SCRIPTS)
            text = "".join(chosen.choices(script + " ", k=chosen.randint(5, 200)))
        else:
            text = chosen.choice("\u3000 \t") + chosen.choice(pieces) + chosen.choice("\u3000 \n\u2003")
        # The number keeps the texts apart, wherever it stands.
        yield f"{text}\u2400{n}" if n % 2 else f"{n}\u2400{text}"
    for n in range(40):
        letter = chosen.choice(LETTERS)
        yield (f"{n}\u2400{letter}" * 700)[:1999] + "."


@pytest.mark.slow
async def test_ten_thousand_odd_texts_come_back_as_they_were(world):
    """Trimmed at both ends, otherwise to the byte; through get, list and search."""
    texts = list(odd_texts(9_960))
    assert len(texts) == 10_000 and len({normalised(text) for text in texts}) == 10_000
    gate = asyncio.Semaphore(64)

    async def remember(text: str) -> UUID:
        async with gate:
            written = await world.commands.remember(
                world.caller, {"topic": text[:200].strip() or "t", "content": text}
            )
            assert written.memory.content == text.strip() and not written.deduplicated
            return written.memory.id

    ids = await asyncio.gather(*(remember(text) for text in texts))
    assert len(set(ids)) == 10_000
    live_memory = world.runners[0]
    assert await live_memory.catch_up(await world.engine.log.head()) >= 10_000
    for begin in range(0, len(ids), 20):
        views = await world.reading.get(world.caller, {"ids": ids[begin : begin + 20]})
        for view, text in zip(views, texts[begin : begin + 20], strict=True):
            assert view.content.encode() == text.strip().encode() and view.topic == text[:200].strip()
    by_id = dict(zip(ids, texts, strict=True))
    for text in texts[::250]:
        found = await world.reading.search(world.caller, {"query": text, "limit": 25})
        assert found.count == 25
        assert all(hit.memory.content == by_id[hit.memory.id].strip() for hit in found.hits)
        assert by_id[found.hits[0].memory.id] == text or found.hits[0].score >= 0.99, repr(text)


# --- the doors, and what each takes ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Door:
    """One command or read: how it is called, what it takes, and arguments that are right."""

    name: str
    call: Callable[[Any], Awaitable[Any]]
    model: type[Input]
    right: dict[str, Any]


async def doors(world) -> list[Door]:
    memory_id = await world.remember("Deploys go to Hetzner")
    await world.catch_up()
    promise = await world.remember("Send the report", memory_type="commitment")
    caller, commands, about = world.caller, world.commands, {"memory_id": memory_id}
    resolving, sessions = Resolving(world.engine, commands), Sessions(world.engine)
    passes = Passes(world.engine, pass_settings(ToldJudge()))
    consolidations = Consolidations(world.engine)
    chains = Explaining(world.engine, world.reviewing)
    undoing = Undoing(world.engine, world.commands)
    figures, what_if = ReviewFigures(world.engine), WhatIf(world.engine)
    said = {"topic": "t", "content": "c"}
    proposal = {"proposal_id": uuid4()}
    webhooks, webhook = Webhooks(world.engine), {"webhook_id": uuid4()}
    found: list[tuple[Any, type[Input], dict[str, Any]]] = [
        (commands.remember, c.Remember, said),
        (commands.import_memory, c.RememberImported, said),
        (commands.revise, c.Revise, {**about, "content": "c2"}),
        (commands.revise_imported, c.ReviseImported, {**about, "content": "c2"}),
        (commands.remember_apart, c.RememberImported, said),
        (commands.revise_apart, c.ReviseImported, {**about, "content": "c2"}),
        (commands.move, c.Move, {**about, "scope": "work"}),
        (commands.reaffirm, c.Reaffirm, about),
        (commands.prolong, c.Prolong, {**about, "expires_at": "2100-01-01T00:00:00Z"}),
        (commands.archive, c.Archive, about),
        (commands.restore, c.Restore, about),
        (commands.refute, c.Refute, about),
        (commands.release, c.Release, {**about, "reason": "r"}),
        (commands.pin, c.Pin, about),
        (commands.verify, c.Verify, about),
        (commands.suppress, c.Suppress, {**about, "plan_id": uuid4(), "approver": "ada", "reason": "r"}),
        (world.reading.search, SearchQuery, {"query": "deploys"}),
        (world.reading.list, ListQuery, {}),
        (world.reading.get, GetQuery, {"ids": [memory_id]}),
        (world.reading.history, HistoryQuery, about),
        (Facts(world.engine).get, FactsQuery, {}),
        (Briefing(world.engine).brief, BriefingQuery, {"selector": "all"}),
        (Scopes(world.engine).list, ScopesQuery, {}),
        (Scopes(world.engine).create, CreateScope, {"scope": "garden"}),
        (Scopes(world.engine).set_retrieval, SetRetrieval, {"mode": "off"}),
        (world.reviewing.list, ProposalsQuery, {}),
        (world.reviewing.show, ShowQuery, proposal),
        (world.reviewing.digest, DigestQuery, {}),
        (world.reviewing.accept, Decide, proposal),
        (world.reviewing.reject, Decide, proposal),
        (webhooks.add, AddWebhook, {"url": "https://example.org/"}),
        (webhooks.show, WebhookQuery, webhook),
        (webhooks.change, ChangeWebhook, {**webhook, "names": ["pass.*"]}),
        (webhooks.enable, WebhookQuery, webhook),
        (webhooks.rotate, RotateSecret, webhook),
        (webhooks.remove, WebhookQuery, webhook),
        (webhooks.test, TryWebhook, webhook),
        (webhooks.deliveries, DeliveriesQuery, webhook),
        (webhooks.replay, ReplayEvents, {**webhook, "from_position": 1}),
        (webhooks.replay_delivery, ReplayDelivery, {"delivery_id": uuid4()}),
        (world.reviewing.preview_many, PreviewBulk, {}),
        (world.reviewing.decide_many, DecideMany, {"verdict": "reject", "expected": 0}),
        (chains.chain, ChainQuery, {"about": uuid4()}),
        (figures.stats, StatsQuery, {}),
        (what_if.replay, WhatIfQuery, {"archive": 0.9}),
        (undoing.preview, PreviewUndo, {"effect": uuid4()}),
        (undoing.undo, RequestUndo, {"effect": uuid4()}),
        (undoing.resume, UndoQuery, {"undo_id": uuid4()}),
        (undoing.show, UndoQuery, {"undo_id": uuid4()}),
        (passes.request, RequestPass, {}),
        (passes.show, PassQuery, {"pass_id": uuid4()}),
        (passes.ended, PassQuery, {"pass_id": uuid4()}),
        (resolving.resolve, c.Resolve, {"memory_id": promise}),
        (CommitmentListing(world.engine).page, CommitmentQuery, {}),
        (ContradictionListing(world.engine).page, ContradictionQuery, {}),
        (consolidations.request, RequestConsolidation, {}),
        (consolidations.show, ConsolidationQuery, {"pass_id": uuid4()}),
        (sessions.open, OpenSession, {"session": "s"}),
        (sessions.resume, SessionQuery, {"session_run_id": uuid4()}),
        (sessions.heartbeat, SessionQuery, {"session_run_id": uuid4()}),
        (sessions.close, SessionQuery, {"session_run_id": uuid4()}),
        (sessions.show, SessionQuery, {"session_run_id": uuid4()}),
        (sessions.page, SessionsQuery, {}),
    ]
    return [Door(call.__qualname__, partial(call, caller), model, right) for call, model, right in found]


async def test_this_list_of_doors_is_complete(world):
    """A command or read that is added without a place here would go untested."""
    listed = {door.name for door in await doors(world)}
    opened = (world.commands, world.reading, world.reviewing)
    further = (Explaining, Undoing, ReviewFigures, WhatIf, Passes, Facts, Webhooks, Resolving, CommitmentListing)
    others = (Consolidations, ContradictionListing, Briefing, Scopes, Sessions)
    for cls in (*map(type, opened), *further, *others):
        for name, method in inspect.getmembers(cls, inspect.iscoroutinefunction):
            takes_arguments = "arguments" in inspect.signature(method).parameters
            assert name.startswith("_") or not takes_arguments or method.__qualname__ in listed, (
                method.__qualname__
            )


NAIVE = datetime(2026, 3, 1, 9)
WRONG: dict[str, tuple[Any, ...]] = {
    "text": (7, 1.5, True, ["x"], {"x": 1}, object(), UUID(int=1), "", "\ud800", "a\x00b", Decimal(1), NAIVE),
    "date-time": (
        "", "tomorrow", "2026-03-01", "2026-03-01T09:00:00", "2026-13-01T00:00:00Z", "2026-03-01T25:00:00Z", "\ud800",
        "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", NAIVE, date(2026, 3, 1), 1_700_000_000, 1.5, True,
        b"2026-03-01T09:00:00Z", [], {}, object(),
    ),
    "uuid": ("", "None", "null", "x" * 36, 7, 1.5, True, b"\x00" * 16, str(UUID(int=1)).encode(), [], {}, object(), "\ud800"),
    "integer": ("", "x", "1.5", 1.5, float("nan"), float("inf"), [], {}, object(), -1, -(2**70), "\ud800", b"x"),
    "number": ("", "x", -0.5, 1.5, float("nan"), float("inf"), [], {}, object(), "\ud800", b"x"),
    "boolean": ("", "perhaps", 7, 0.5, [], {}, object(), "\ud800", b"x"),
    "array": (7, "x", True, {"x": 1}, object(), [object()], [None], [["x"]], ["\ud800"], [7], b"x"),
    "object": (7, "x", True, [], ["x"], object(), {1: 2}, {"": 1}, {"k": object()}, {"k": {1, 2}}, {"k": b"x"},
               {"k": float("inf")}, {"k": "\ud800"}, {"\ud800": 1}, {"k": "a\x00b"}, {"a\x00b": 1}),
}  # fmt: skip
WRONG["moment"] = (*WRONG["date-time"], 0, -1, -(2**70), 2**63, "1.5", "-1", float("nan"), float("inf"))
ARRAYS_OF_IDS = (["x"], [""], [str(UUID(int=1)), 7])


def kind_of(schema: Mapping[str, Any]) -> str:
    """What a field holds, by the model's own JSON schema."""
    parts = [part for part in schema.get("anyOf", [schema]) if part.get("type") != "null"]
    if {part.get("format", part["type"]) for part in parts} == {"date-time", "integer"}:
        return "moment"
    [one] = parts
    if one.get("format") in ("uuid", "date-time"):
        return one["format"]
    return "text" if one.get("type", "string") == "string" else one["type"]


def wrong_values(door: Door) -> Iterator[tuple[str, Any]]:
    described = door.model.model_json_schema(mode="validation")
    for field, schema in described["properties"].items():
        kind = kind_of(schema)
        for value in WRONG[kind]:
            yield field, value
        if kind == "array" and schema.get("items", {}).get("format") == "uuid":
            for value in ARRAYS_OF_IDS:
                yield field, value
        if field in described.get("required", ()):
            yield field, None


async def refusal(door: Door, arguments: Any) -> BaseException | None:
    try:
        await door.call(arguments)
    except Exception as error:  # whichever it is
        return error
    return None


async def test_a_wrong_value_of_any_argument_of_any_door_is_refused_by_its_name_and_appends_nothing(world):
    opened = await doors(world)
    head = await world.engine.log.head()
    problems: list[str] = []
    tried = 0
    for door in opened:
        for field, value in wrong_values(door):
            tried += 1
            error = await refusal(door, {**door.right, field: value})
            named = isinstance(error, InvalidInput) and error.field.split(".")[0] == field
            if not named:
                problems.append(f"{door.name}({field}={value!r:.40}): {type(error).__name__} {error}")
            elif "object at 0x" in str(error) or "\ud800" in str(error):
                problems.append(f"{door.name}({field}=…): the value stands in the error")
    assert tried > 1_000 and problems == []
    assert await world.engine.log.head() == head


async def test_an_unknown_argument_of_any_door_is_refused_by_its_name(world):
    """F17, every door."""
    opened = await doors(world)
    head = await world.engine.log.head()
    for door in opened:
        for unknown in ("vaild_to", "tenant", "id", "__class__", "x" * 500, "\ud800", "", "content.0"):
            if unknown in door.model.model_fields:
                continue
            error = await refusal(door, {**door.right, unknown: "zq-canary-9931"})
            assert isinstance(error, InvalidInput), f"{door.name}({unknown!r}): {error!r}"
            assert "zq-canary-9931" not in str(error)
    assert await world.engine.log.head() == head


async def test_a_required_argument_that_is_missing_is_named(world):
    for door in await doors(world):
        for field in door.model.model_json_schema().get("required", ()):
            error = await refusal(door, {name: value for name, value in door.right.items() if name != field})
            assert isinstance(error, InvalidInput) and error.field == field and "required" in error.problem


async def test_arguments_that_are_no_mapping_are_refused(world):
    problems = []
    for door in await doors(world):
        for arguments in (7, "x", [1], object(), [("topic", "t", "x")], {7: "x"}):
            error = await refusal(door, arguments)
            if not isinstance(error, InvalidInput):
                problems.append(f"{door.name}({arguments!r:.30}): {error!r}")
    assert problems == []


async def test_bytes_are_not_text(world):
    problems = []
    for door in await doors(world):
        for field, schema in door.model.model_json_schema()["properties"].items():
            if kind_of(schema) == "text" and not isinstance(
                await refusal(door, {**door.right, field: b"  "}), InvalidInput
            ):
                problems.append(f"{door.name}({field})")
    assert problems == []


@pytest.mark.parametrize("key", [7, b"k", object(), "", "k" * 257, "\ud800", "a\x00b"])
async def test_a_wrong_command_key_is_refused_by_its_name(world, key):
    head = await world.engine.log.head()
    with pytest.raises(InvalidInput) as refused:
        await world.commands.remember(world.caller, {"topic": "t", "content": "c"}, Retry(key))
    assert refused.value.field == "key"
    assert await world.engine.log.head() == head


# --- limits at their bound and one above ------------------------------------------------------------------------------


def nested(levels: int) -> Any:
    """So many lists, one in the other."""
    return [nested(levels - 1)] if levels else "bottom"


SOURCE = object()
"""Stands for the id of a memory that exists."""
LIMITS: list[tuple[str, str, Any, Any]] = [
    ("remember", "topic", "t" * 256, "t" * 257),
    ("remember", "topic", "🦉" * 256, "🦉" * 257),
    ("remember", "content", "c" * 2_000, "c" * 2_001),
    ("remember", "content", "  " + "🦉" * 2_000 + "\n", "🦉" * 2_001),
    ("import_memory", "content", "c " * 131_071 + "cc", "c " * 131_071 + "ccc"),
    ("remember", "scope", "s" * 64, "s" * 65),
    ("remember", "project", "p" * 256, "p" * 257),
    ("remember", "tags", [f"t{n}" for n in range(32)], [f"t{n}" for n in range(33)]),
    ("remember", "tags", ["x" * 64], ["x" * 65]),
    ("remember", "metadata", {str(n): n for n in range(16)}, {str(n): n for n in range(17)}),
    ("remember", "metadata", {"k": "v" * 4_087}, {"k": "v" * 4_088}),
    ("remember", "metadata", {"k" * 64: 1}, {"k" * 65: 1}),
    ("remember", "metadata", {"k": nested(31)}, {"k": nested(32)}),
    ("remember", "derived_from", [SOURCE] * 64, [SOURCE] * 65),
    *[
        ("remember", name, "n" * 256, "n" * 257)
        for name in ("user_id", "agent_id", "run_id", "session_id", "subject")
    ],
    ("archive", "reason", "r" * 2_000, "r" * 2_001),
    ("suppress", "approver", "a" * 256, "a" * 257),
    ("suppress", "reason", "r" * 2_000, "r" * 2_001),
    ("search", "query", "q " * 999 + "qq", "q " * 999 + "qqq"),
    ("search", "limit", 25, 26),
    ("search", "limit", 1, 0),
    ("search", "memory_types", ["note"] * 8, ["note"] * 9),
    ("list", "limit", 100, 101),
    ("list", "limit", 1, 0),
    ("list", "tags", ["t"] * 32, ["t"] * 33),
    ("get", "ids", [SOURCE] * 20, [SOURCE] * 21),
    ("get", "ids", [SOURCE], []),
    ("proposals", "limit", 100, 101),
    ("proposals", "limit", 1, 0),
    ("facts", "limit", 200, 201),
    ("facts", "limit", 1, 0),
    ("briefing", "section_limit", 100, 101),
    ("facts", "subject", "s" * 256, "s" * 257),
]


@pytest.mark.parametrize(("verb", "field", "allowed", "refused"), LIMITS)
async def test_a_limit_holds_to_the_very_unit(world, verb, field, allowed, refused):
    """Behaviour.md 1.3, settlement 3."""
    source = await world.remember("a source")
    await world.catch_up()

    def told(value: Any) -> Any:
        return [source if one is SOURCE else one for one in value] if isinstance(value, list) else value

    call, right = {
        "remember": (world.commands.remember, {"topic": "t", "content": "c"}),
        "import_memory": (world.commands.import_memory, {"topic": "t", "content": "c"}),
        "archive": (world.commands.archive, {"memory_id": source}),
        "suppress": (
            world.commands.suppress,
            {"memory_id": source, "plan_id": uuid4(), "approver": "ada", "reason": "r"},
        ),
        "search": (world.reading.search, {"query": "q"}),
        "list": (world.reading.list, {}),
        "get": (world.reading.get, {}),
        "proposals": (world.reviewing.list, {}),
        "facts": (Facts(world.engine).get, {}),
        "briefing": (Briefing(world.engine).brief, {"selector": "all"}),
    }[verb]
    head = await world.engine.log.head()
    with pytest.raises(InvalidInput) as error:
        await call(world.caller, {**right, field: told(refused)})
    assert error.value.field.split(".")[0] == field
    assert await world.engine.log.head() == head
    answer = await call(world.caller, {**right, field: told(allowed)})
    await world.catch_up()
    if verb in ("remember", "import_memory"):
        [view] = await world.reading.get(world.caller, {"ids": [answer.memory.id]})
        assert view == answer.memory.model_copy(update={"position": view.position})


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"valid_from": "2026-03-01T00:00:00Z", "valid_to": "2026-02-28T23:59:59.999999Z"}, "input"),
        ({"occurred_at": "2026-03-01T09:05:00.000001Z"}, "occurred_at"),
    ],
)
async def test_a_time_that_cannot_be_is_refused(world, fields, field):
    with pytest.raises(InvalidInput) as refused:
        await world.commands.remember(world.caller, {"topic": "t", "content": "c", **fields})
    assert refused.value.field == field


@pytest.mark.parametrize(
    "instant", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "2026-02-29T12:00:00+00:00"]
)
async def test_a_time_at_the_edge_of_the_calendar_comes_back_or_is_refused(world, instant):
    arguments = {"topic": "t", "content": "c", "expires_at": instant, "valid_from": "0001-01-01T00:00:00Z"}
    if instant.startswith("2026"):
        with pytest.raises(InvalidInput):
            await world.commands.remember(world.caller, arguments)
        return
    if instant.startswith("0001"):
        arguments["occurred_at"] = instant
    written = (await world.commands.remember(world.caller, arguments)).memory
    view = await world.get(written.id)
    assert view.expires_at == datetime.fromisoformat(instant)
    assert (view.expires_at, view.occurred_at, view.valid_from) == (
        written.expires_at,
        written.occurred_at,
        written.valid_from,
    )
    assert written.id in {m.id for m in (await world.reading.list(world.caller, {"status": "all"})).memories}


# --- ids in odd forms ------------------------------------------------------------------------------------------------


async def test_an_id_may_be_written_in_any_form_of_its_own_and_in_no_other(world):
    """F50: the id you got is the id you can use."""
    one = await world.remember("Deploys go to Hetzner")
    await world.catch_up()
    for form in (one, str(one), str(one).upper(), one.hex, f"{{{one}}}", one.urn):
        [view] = await world.reading.get(world.caller, {"ids": [form]})
        assert view.id == one
        assert not (await world.commands.pin(world.caller, {"memory_id": form, "pinned": False})).changed
    for form in (
        one.int,
        one.bytes,
        str(one)[:-1],
        f"{one}0",
        f" {one}",
        f"{one}\n",
        "None",
        "",
        None,
        [one],
        {"id": one},
    ):
        for call in (world.reading.history, world.commands.archive):
            with pytest.raises(InvalidInput) as refused:
                await call(world.caller, {"memory_id": form})
            assert refused.value.field == "memory_id"
    for nowhere in (UUID(int=0), UUID(int=2**128 - 1), "0" * 32):
        with pytest.raises(NotFound):
            await world.commands.archive(world.caller, {"memory_id": nowhere})


# --- searching for anything -------------------------------------------------------------------------------------------

QUERIES = (
    "&", "|", "!", "<->", "& | ! <-> :* ()", "((((", "'", "''", "\"", "\\", "\\'", "a & b", "!a", "a <-> b", "a:*", "a:ABCD",
    "the of and", "the", "-", "--", "...", "%", "%s", "%(query)s", "{}", "$1", ";", "/*", "\x01", "\x7f", "\u200b", "\u202e",
    "\u0301", "\ufffe", "\U0010ffff", "http://a.b/?x=1&y=2#z", "a@b.c", "/usr/lib/x&y", "<a href='x&y'>", "1e999999999", "-0", "٣",
    "🦉", "🧑‍🧑‍🧒", "İ", "ﬀ", "x" * 2_000, "🦉" * 2_000, "q " * 1_000 + "", "a&" * 1_000, "' " * 1_000, "\\" * 2_000, "İ" * 2_000, "-" * 2_000,
    "a-b" * 666, "日本" * 1_000, "\u0301" * 2_000, "1." * 1_000, "x/" * 1_000, "x@" * 1_000, "<" * 2_000, "Ⱥ" * 2_000, "Ⱥ" * 680,
)  # fmt: skip


async def test_whatever_is_searched_for_is_answered_or_refused_as_input(world):
    known = await world.remember("Deploys go to Hetzner, the o'clock & <-> http://a.b/?x=1")
    for query in QUERIES:
        for more in ({}, {"limit": 1}, {"current": True}, {"status": "all"}):
            found = await world.reading.search(
                world.caller, {"query": query.strip(), **more, "after": await world.catch_up()}
            )
            assert [hit.memory.id for hit in found.hits] == [known], repr(query)[:40]
            assert all(0 <= value <= 1 for value in found.hits[0].legs.values())
    for query in ("", " ", "\n\t\u3000", "\ud800", "a\ud800", "a\x00b", "q" * 2_001, None, 7, ["q"]):
        with pytest.raises(InvalidInput) as refused:
            await world.reading.search(world.caller, {"query": query})
        assert refused.value.field == "query"


async def test_a_query_whose_small_letters_are_longer_is_answered(world):
    """683 and more of them in a row are one word of more than 2,046 bytes once they are small letters."""
    await world.remember("Deploys go to Hetzner")
    await world.catch_up()
    for count in (682, 683, 1_000, 1_023, 1_024):
        assert (await world.reading.search(world.caller, {"query": "Ⱥ" * count})).count == 1


async def test_a_word_that_holds_an_ampersand_is_found_by_its_text(world):
    """A path with its query is one word for the full-text parser, and must match itself."""
    known = await world.remember("http://example.org/list?page=2&size=20")
    other = await world.remember("http://example.org/list?page=3&size=20")
    await world.catch_up()
    hits = (await world.reading.search(world.caller, {"query": "example.org/list?page=2&size=20"})).hits
    assert {hit.memory.id: hit.legs["text"] for hit in hits} == {known: 1.0, other: 0.0}


# --- cursors and positions ------------------------------------------------------------------------------------------


async def test_a_cursor_that_was_tampered_with_is_refused_or_is_still_a_place_in_the_same_list(world):
    ids = {await world.remember(f"note {n}", occurred_at=world.clock.now - timedelta(days=n)) for n in range(6)}
    await world.catch_up()
    first = await world.reading.list(world.caller, {"limit": 2})
    cursor = first.next_cursor
    assert cursor is not None
    other = await world.another_caller()
    assert (await world.reading.list(other, {"limit": 2, "cursor": cursor})).memories == ()
    for at in range(len(cursor)):
        for letter in "Aa9_-":
            await still_a_place_or_refused(world, cursor[:at] + letter + cursor[at + 1 :], ids)
    for cut in range(len(cursor)):
        await still_a_place_or_refused(world, cursor[:cut], ids)
    said = ["x", "2026-03-01T00:00:00+00:00", str(uuid4())]
    for parts in (
        [],
        said[:2],
        [*said, "x"],
        [None, None, None],
        [1, 2, 3],
        ["", said[1], 7],
        ["", "2026-03-01", said[2]],
        {"a": 1},
        7,
        "x",
    ):
        forged = base64.urlsafe_b64encode(repr(parts).replace("'", '"').replace("None", "null").encode()).decode()
        with pytest.raises(InvalidInput) as refused:
            await world.reading.list(world.caller, {"limit": 2, "cursor": forged})
        assert refused.value.field == "cursor"
    for bad in (
        "",
        "é",
        "\ud800",
        "[" * 300,
        "A" * 401,
        "====",
        "%00",
        "null",
        base64.urlsafe_b64encode(b"[" * 290).decode(),
    ):
        with pytest.raises(InvalidInput) as refused:
            await world.reading.list(world.caller, {"limit": 2, "cursor": bad})
        assert refused.value.field == "cursor"
        with pytest.raises(InvalidInput) as refused:
            await world.reviewing.list(world.caller, {"cursor": bad})
        assert refused.value.field == "cursor"
    # The positive control: as it was, it goes on where the page ended.
    rest = await world.reading.list(world.caller, {"limit": 100, "cursor": cursor})
    assert {m.id for m in first.memories} | {m.id for m in rest.memories} == ids and len(rest.memories) == 4


async def still_a_place_or_refused(world, cursor: str, ids: set[UUID]) -> None:
    try:
        page = await world.reading.list(world.caller, {"limit": 2, "cursor": cursor})
    except InvalidInput as refused:
        assert refused.field == "cursor"
    else:
        assert {m.id for m in page.memories} <= ids and page.total == 6


async def test_a_read_that_waits_for_a_position_that_is_none_is_refused_at_once(world):
    known = await world.remember("Deploys go to Hetzner")
    head = await world.catch_up()
    calls = [
        (world.reading.search, {"query": "deploys"}),
        (world.reading.list, {}),
        (world.reading.get, {"ids": [known]}),
        (world.reading.history, {"memory_id": known}),
        (world.reviewing.list, {}),
        (Facts(world.engine).get, {}),
        (Briefing(world.engine).brief, {"selector": "all"}),
        (Scopes(world.engine).list, {}),
    ]
    for call, arguments in calls:
        await call(world.caller, {**arguments, "after": head})
        for after in (head + 1, head + 10**6, 2**63 - 1, 2**63, 2**200, -1, -(2**63), "x", 0.5):
            with pytest.raises(InvalidInput) as refused:
                await call(world.caller, {**arguments, "after": after})
            assert refused.value.field == "after"


# --- metadata ----------------------------------------------------------------------------------------------------------


async def test_metadata_of_any_json_shape_comes_back(world):
    for metadata in (
        {"t": True, "f": False, "n": None, "i": -(2**53), "x": 0.1, "e": [], "o": {}, "s": "ü\u2028'\"\\"},
        {"deep": nested(20)},
        {"big": 10**300, "small": 5e-324},
        {" spaced key ": {"": "an empty key inside"}},
    ):
        written = (
            await world.commands.remember(
                world.caller, {"topic": "t", "content": str(uuid4()), "metadata": metadata}
            )
        ).memory
        assert written.metadata == metadata
        assert (await world.get(written.id)).metadata == metadata


async def test_metadata_that_speaks_of_a_nul_holds_none(world):
    metadata = {"regex": "\\u0000", "path": "C:\\u0000"}
    written = await world.commands.remember(world.caller, {"topic": "t", "content": "c", "metadata": metadata})
    assert (await world.get(written.memory.id)).metadata == metadata


async def test_metadata_with_inner_keys_that_are_no_text_is_refused(world):
    for metadata in ({"k": {1: "a", "1": "b"}}, {"k": [{None: 1}]}, {"k": {True: 1}}):
        with pytest.raises(InvalidInput) as refused:
            await world.commands.remember(
                world.caller, {"topic": "t", "content": str(uuid4()), "metadata": metadata}
            )
        assert refused.value.field == "metadata"


async def test_a_large_number_in_metadata_is_the_same_number_in_every_answer(world):
    metadata = {"a": 1e23, "b": 1.7976931348623157e308}
    written = await world.commands.remember(world.caller, {"topic": "t", "content": "c", "metadata": metadata})
    assert written.memory.metadata == metadata
    assert (await world.get(written.memory.id)).metadata == metadata


# --- the Python door ------------------------------------------------------------------------------------------------


def memory_door(world) -> AsyncMemory:
    judge = ToldJudge()
    return AsyncMemory(
        world.engine, world.caller, pass_settings(judge, thresholds=starting_thresholds(judge.identity))
    )


RIGHT: dict[str, dict[str, Any]] = {
    "remember": {"content": "c"},
    "revise": {"memory_id": SOURCE, "content": "c2"},
    "move": {"memory_id": SOURCE, "scope": "work"},
    "reaffirm": {"memory_id": SOURCE},
    "archive": {"memory_id": SOURCE},
    "archive_many": {"memory_ids": [SOURCE]},
    "remember_many": {"items": [{"content": "c"}]},
    "restore": {"memory_id": SOURCE},
    "refute": {"memory_id": SOURCE},
    "release": {"memory_id": SOURCE, "reason": "r"},
    "pin": {"memory_id": SOURCE},
    "verify": {"memory_id": SOURCE},
    "resolve": {"memory_id": SOURCE},
    "search": {"query": "q"},
    "get": {"memory_id": SOURCE},
    "get_many": {"ids": [SOURCE]},
    "list": {},
    "history": {"memory_id": SOURCE},
    "briefing": {"selector": "all"},
    "handoff": {"selector": "all"},
    "create_scope": {"scope": "garden"},
    "set_retrieval_scope": {"mode": "default", "scope": "work"},
    "proposals": {},
    "proposal": {"proposal_id": SOURCE},
    "review_digest": {},
    "review_stats": {},
    "what_if": {"archive": 0.9},
    "accept": {"proposal_id": SOURCE},
    "reject": {"proposal_id": SOURCE},
    "explain": {"about": SOURCE},
    "preview_decisions": {},
    "decide_many": {"verdict": "reject", "expected": 0},
    "preview_undo": {"effect": SOURCE},
    "undo": {"effect": SOURCE},
    "resume_undo": {"undo_id": SOURCE},
    "show_undo": {"undo_id": SOURCE},
    "run_pass": {},
    "wait_for_pass": {"pass_id": SOURCE, "seconds": 0.1},
    "show_pass": {"pass_id": SOURCE},
    "consolidate": {},
    "consolidation": {"pass_id": SOURCE},
    "extract_facts": {"memory_id": SOURCE},
    "set_judgment": {"enabled": True},
    "set_policy": {"changes": {}},
    "rebuild": {"name": "review_queue"},
    "cancel_rebuild": {"name": "review_queue"},
    "replay_into": {"name": "wrong", "to": 1},
    "drop_replay": {"name": "wrong"},
    "retry_parked": {"sequence": SOURCE},
    "drop_parked": {"id": "message-1", "reason": "broken"},
    "verify_log": {},
    "compare": {"name": "review_queue"},
    "import_memory": {"content": "c"},
    "preview_erasure": {},
    "erase": {"erasure_id": SOURCE, "reason": "broken"},
    "erasure": {"erasure_id": SOURCE},
    "erasures": {},
    "retry_erasure": {"erasure_id": SOURCE},
    "check_certificate": {"document": {}},
    "export_archive": {"path": "no folder/archive.jsonl"},
    "import_archive": {"path": "no archive"},
    "import_foreign": {"source": "mem0", "path": "no file"},
    "rotate_tenant_keys": {},
}


def door_arguments() -> Iterator[tuple[str, str]]:
    for name, method in inspect.getmembers(AsyncMemory, inspect.iscoroutinefunction):
        for parameter in inspect.signature(method).parameters.values():
            is_keywords = parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
            if not name.startswith("_") and parameter.name not in ("self", "report", "step") and not is_keywords:
                yield name, parameter.name


async def wrongly_answered(world, arguments: list[tuple[str, str]]) -> list[str]:
    source = await world.remember("a source")
    door = memory_door(world)
    head = await world.catch_up()
    problems: list[str] = []
    for verb, argument in arguments:
        right = {
            name: source if value is SOURCE else [source] if value == [SOURCE] else value
            for name, value in RIGHT[verb].items()
        }
        for wrong in (object(), 7j, b"\xff", "\ud800", ["x", object()], {"x": object()}):
            try:
                answer = await getattr(door, verb)(**{**right, argument: wrong})
            except LethelogError:
                continue
            except Exception as error:
                problems.append(f"{verb}({argument}={wrong!r:.25}): {error!r:.80}")
            else:
                if isinstance(answer, ManyWritten) and set(answer.counts) == {"refused"}:
                    continue
                problems.append(f"{verb}({argument}={wrong!r:.25}): taken")
    if await world.engine.log.head() != head:
        problems.append("something was appended")
    return problems


async def test_a_wrong_argument_of_the_python_door_is_an_error_of_ours(world):
    arguments = list(door_arguments())
    assert len(arguments) > 50
    await world.engine.tenants.set_judgment(world.caller.tenant, True, world.caller.actor)
    found = await wrongly_answered(world, arguments)
    assert found == [], "\n".join(found)


@pytest.mark.parametrize("content", ["", "   ", "a\x00b", "\ud800", 7, None])
async def test_content_that_cannot_be_is_named_and_not_the_topic_made_of_it(world, content):
    with pytest.raises(InvalidInput) as refused:
        await memory_door(world).remember(content)
    assert refused.value.field == "content"


@pytest.mark.parametrize(
    "changes",
    [
        {"floor": 2},
        {"floor": float("nan")},
        {"singles_cap": -1},
        {"items_per_call": 13},
        {"unknown": 1},
        {"pairs_cap": "x"},
    ],
)
async def test_a_policy_that_cannot_be_is_refused_by_the_name_of_its_setting(world, changes):
    head = await world.engine.log.head()
    with pytest.raises(InvalidInput) as refused:
        await memory_door(world).set_policy(changes)
    assert refused.value.field == next(iter(changes))
    assert await world.engine.log.head() == head


async def test_a_setting_that_already_is_so_appends_nothing(world):
    door = memory_door(world)
    await door.set_judgment(True)
    head = await world.engine.log.head()
    await door.set_judgment(True)
    await door.set_policy({"singles_cap": 60})
    assert await world.engine.log.head() == head
    await door.set_policy({"singles_cap": 61})
    assert await world.engine.log.head() == head + 1
