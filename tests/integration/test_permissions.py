"""Every verb of the Python door asks for its permission before anything else: without it nothing happens."""

import inspect
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from lethelog.domain.errors import AccessDenied, LethelogError
from lethelog.handlers.access.caller import ALL_PERMISSIONS, Caller, Permission
from lethelog.handlers.memory import AsyncMemory
from lethelog.handlers.operating.views import Decided, Written
from lethelog.handlers.sessions.doors import AsyncSessions
from lethelog.handlers.tenancy.doors import AsyncTenants, AsyncTokens
from lethelog.handlers.webhooks.doors import AsyncWebhooks

from .passes import ToldJudge, pass_settings
from .review_desk import dependency, with_views

ID = str(uuid4())
NEEDS: dict[str, tuple[Permission | tuple[Permission, ...], dict[str, Any]]] = {
    "remember": ("memory:write", {"content": "c"}),
    "remember_many": ("memory:write", {"items": [{"content": "c"}]}),
    "archive_many": ("memory:write", {"memory_ids": [ID]}),
    "revise": ("memory:write", {"memory_id": ID, "content": "c"}),
    "move": ("memory:write", {"memory_id": ID, "scope": "work"}),
    "reaffirm": ("memory:write", {"memory_id": ID}),
    "archive": ("memory:write", {"memory_id": ID}),
    "restore": ("memory:write", {"memory_id": ID}),
    "refute": ("memory:write", {"memory_id": ID}),
    "release": ("memory:review", {"memory_id": ID, "reason": "r"}),
    "pin": ("memory:write", {"memory_id": ID}),
    "verify": ("memory:write", {"memory_id": ID}),
    "resolve": ("memory:write", {"memory_id": ID}),
    "commitments": ("memory:read", {}),
    "search": ("memory:read", {"query": "q"}),
    "get": ("memory:read", {"memory_id": ID}),
    "get_many": ("memory:read", {"ids": [ID]}),
    "list": ("memory:read", {}),
    "history": ("memory:read", {"memory_id": ID}),
    "get_facts": ("memory:read", {}),
    "briefing": ("memory:read", {"selector": "all"}),
    "handoff": ("memory:read", {"selector": "all"}),
    "scopes": ("memory:read", {}),
    "create_scope": ("memory:write", {"scope": "garden"}),
    "set_retrieval_scope": ("tenant:admin", {"mode": "default", "scope": "work"}),
    "events": ("stream:read", {}),
    "tail": ("stream:read", {"from_position": 1}),
    "replay": ("memory:read", {"to": 1}),
    "replay_into": ("installation:admin", {"name": "r", "to": 1}),
    "replays": ("installation:admin", {}),
    "leftovers": ("installation:admin", {}),
    "drop_replay": ("installation:admin", {"name": "r"}),
    "proposals": ("memory:read", {}),
    "proposal": ("memory:read", {"proposal_id": ID}),
    "review_digest": ("memory:read", {}),
    "review_stats": ("memory:read", {}),
    "what_if": ("memory:review", {"archive": 0.9}),
    "accept": ("memory:review", {"proposal_id": ID}),
    "reject": ("memory:review", {"proposal_id": ID}),
    "explain": ("memory:read", {"about": ID}),
    "preview_decisions": (("memory:review", "memory:read"), {}),
    "decide_many": ("memory:review", {"verdict": "reject", "expected": 0}),
    "preview_undo": ("memory:review", {"effect": ID}),
    "undo": ("memory:review", {"effect": ID}),
    "resume_undo": ("memory:review", {"undo_id": ID}),
    "show_undo": ("memory:read", {"undo_id": ID}),
    "run_pass": ("memory:write", {}),
    "wait_for_pass": ("memory:read", {"pass_id": ID, "seconds": 0}),
    "show_pass": ("memory:read", {"pass_id": ID}),
    "consolidate": ("memory:write", {}),
    "consolidation": ("memory:read", {"pass_id": ID}),
    "contradictions": ("memory:read", {}),
    "extract_facts": ("memory:write", {"memory_id": ID}),
    "settings": ("memory:read", {}),
    "set_judgment": ("tenant:admin", {"enabled": True}),
    "set_policy": ("tenant:admin", {"changes": {"pairs_cap": 1}}),
    "policy_report": ("memory:read", {}),
    "rebuild": ("installation:admin", {"name": "review_queue"}),
    "cancel_rebuild": ("installation:admin", {"name": "review_queue"}),
    "compare": ("installation:admin", {"name": "review_queue"}),
    "parked": ("installation:admin", {}),
    "dropped": ("installation:admin", {}),
    "retry_parked": ("installation:admin", {"read_model": "review_queue"}),
    "drop_parked": ("installation:admin", {"id": "message-1", "reason": "other"}),
    "verify_log": ("installation:admin", {}),
    "checkpoint": ("installation:admin", {}),
    "import_memory": ("memory:import", {"content": "c"}),
    "import_foreign": ("memory:import", {"source": "mem0", "path": "no file"}),
    "import_archive": (("memory:import", "tenant:admin"), {"path": "no file"}),
    "export_archive": (("memory:read", "tenant:admin"), {"path": "no folder/archive.jsonl"}),
    "preview_erasure": ("memory:erase", {"memory_id": ID}),
    "erase": ("memory:erase", {"erasure_id": ID, "reason": "broken"}),
    "erasure": ("memory:erase", {"erasure_id": ID}),
    "erasures": ("memory:erase", {}),
    "retry_erasure": ("memory:erase", {"erasure_id": ID}),
    "check_certificate": ("memory:erase", {"document": {}}),
    "rehearse_erasure": (("memory:erase", "memory:write"), {}),
    "erasure_key": ("memory:erase", {}),
    "erasure_ledger": ("installation:admin", {}),
    "complete_erasure_ledger": ("installation:admin", {}),
    "rotate_tenant_key": ("installation:admin", {}),
    "rotate_tenant_keys": ("installation:admin", {}),
    "tenants.create": ("installation:admin", {"name": "n"}),
    "tenants.list": ("installation:admin", {}),
    "tenants.show": ("installation:admin", {"name": "n"}),
    "sessions.open": ("memory:write", {"session": "s"}),
    "sessions.resume": ("memory:write", {"session_run_id": ID}),
    "sessions.heartbeat": ("memory:write", {"session_run_id": ID}),
    "sessions.close": ("memory:write", {"session_run_id": ID}),
    "sessions.show": ("memory:read", {"session_run_id": ID}),
    "sessions.list": ("memory:read", {}),
    "tokens.issue": ("tenant:admin", {"actor": "agent:a", "permissions": []}),
    "tokens.list": ("tenant:admin", {}),
    "tokens.show": ("tenant:admin", {"token_id": ID}),
    "tokens.rotate": ("tenant:admin", {"token_id": ID}),
    "tokens.revoke": ("tenant:admin", {"token_id": ID}),
    "webhooks.add": ("tenant:admin", {"url": "https://example.org/"}),
    "webhooks.list": ("tenant:admin", {}),
    "webhooks.show": ("tenant:admin", {"webhook_id": ID}),
    "webhooks.change": ("tenant:admin", {"webhook_id": ID, "names": ["pass.*"]}),
    "webhooks.enable": ("tenant:admin", {"webhook_id": ID}),
    "webhooks.rotate": ("tenant:admin", {"webhook_id": ID}),
    "webhooks.remove": ("tenant:admin", {"webhook_id": ID}),
    "webhooks.test": ("tenant:admin", {"webhook_id": ID, "seconds": 0}),
    "webhooks.deliveries": ("tenant:admin", {"webhook_id": ID}),
    "webhooks.replay": ("tenant:admin", {"webhook_id": ID, "from_position": 1}),
    "webhooks.replay_delivery": ("tenant:admin", {"delivery_id": ID}),
}
ANYBODY = {"close", "caller", "whoami"}
"""They say who calls, or let go."""


def door(world, permissions: frozenset[Permission]) -> AsyncMemory:
    caller = Caller(world.caller.tenant, world.caller.actor, permissions)
    return AsyncMemory(world.engine, caller, pass_settings(ToldJudge()))


async def call(memory: AsyncMemory, verb: str, arguments: dict[str, Any]) -> None:
    where: Any = memory
    for part in verb.split("."):
        where = getattr(where, part)
    coming = where(**arguments)
    if inspect.isasyncgen(coming):
        try:
            await anext(coming)
        except StopAsyncIteration:
            pass
        finally:
            await coming.aclose()
    else:
        await coming


def verbs() -> Iterator[str]:
    of_door = (
        ("", AsyncMemory),
        ("tenants.", AsyncTenants),
        ("tokens.", AsyncTokens),
        ("sessions.", AsyncSessions),
        ("webhooks.", AsyncWebhooks),
    )
    for prefix, kind in of_door:
        for name, member in inspect.getmembers(kind):
            if not name.startswith("_") and inspect.isfunction(member):
                yield prefix + name


def test_every_verb_of_the_door_is_in_the_table():
    assert set(verbs()) - ANYBODY == set(NEEDS)


@pytest.fixture
async def ready(world):
    """What the positive control needs beside the permission."""
    await world.engine.tenants.set_judgment(world.caller.tenant, True, world.caller.actor)
    await world.catch_up()
    return world


async def test_without_its_permission_each_verb_is_denied_and_changes_nothing(ready):
    head = await ready.engine.log.head()
    for verb, (needs, arguments) in NEEDS.items():
        for needed in (needs,) if isinstance(needs, str) else needs:
            with pytest.raises(AccessDenied) as denied:
                await call(door(ready, ALL_PERMISSIONS - {needed}), verb, arguments)
            assert denied.value.details["permission"] == needed, verb
    assert await ready.engine.log.head() == head
    async with ready.engine.database.connection() as connection:
        cursor = await connection.execute("select count(*) from lethelog.directory")
        assert await cursor.fetchone() == (0,), "no name was taken note of"


async def test_with_its_permission_alone_no_verb_is_denied(ready, monkeypatch: pytest.MonkeyPatch):
    # No worker runs here; that a rehearsal waits for one is told elsewhere.
    monkeypatch.setattr("lethelog.handlers.erasure.rehearsal.WAIT_SECONDS", 0.1)
    for verb, (needs, arguments) in NEEDS.items():
        allowed = frozenset((needs,) if isinstance(needs, str) else needs)
        try:
            await call(door(ready, allowed), verb, arguments)
        except AccessDenied as denied:
            raise AssertionError(verb) from denied
        except LethelogError:
            continue
        await ready.catch_up()


async def test_who_may_write_and_not_read_is_told_no_text_by_any_verb(ready):
    """An ingesting agent's credential: what it writes is found again by others, and tells it nothing of them."""
    given = {"topic": "canary topic", "tags": ["canary"], "project": "canary", "metadata": {"k": "canary"}}
    theirs = await ready.remember("canary text of somebody else", user_id="canary", **given)
    promise = await ready.remember("canary promise", memory_type="commitment", owner="canary")
    proposal = await dependency(ready, await ready.remember("canary to put away"))
    mine = door(ready, frozenset({"memory:write", "memory:review"}))
    answers = [
        await mine.remember("Canary text of somebody ELSE"),
        await mine.move(theirs, scope="work"),
        *[await getattr(mine, verb)(theirs) for verb in ("reaffirm", "pin", "archive", "restore", "refute")],
        await mine.resolve(promise, status="waiting"),
        await mine.archive_many([theirs]),
        await with_views(ready, mine.accept(proposal, comment="canary")),
    ]
    told = [one.model_dump_json() for one in answers]
    assert [text for text in told if "canary" in text.lower()] == []
    assert all(one.withheld for one in answers if isinstance(one, Written | Decided))
    # The control: who may read is told all of it.
    full = await door(ready, frozenset({"memory:write", "memory:read"})).pin(theirs, pinned=False)
    assert not full.withheld and "canary" in full.model_dump_json()
