"""A world with something of everything, and archives of it as the tests look at them."""

import gzip
import json
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
from lethelog.domain import events as e
from lethelog.handlers.archive.exporting import Exporting
from lethelog.handlers.archive.importing import Importing, ImportResult
from lethelog.handlers.forgetting.open_proposals import take_slot
from lethelog.streams.log import Appended, Claim, NewEvent, Unit
from lethelog.streams.payloads import Actor, Envelope

WORKER = Actor("worker", UUID(int=7))


async def export(world, path: Path, **arguments: Any) -> Path:
    await Exporting(world.engine).export(world.caller, path, arguments)
    return path


async def bring_in(world, path: Path, *, dry_run: bool = False) -> ImportResult:
    return await Importing(world.engine).import_archive(world.caller, path, dry_run=dry_run)


def lines_of(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    return [json.loads(line) for line in text.splitlines()]


def body_of(path: Path) -> bytes:
    """Everything but the header."""
    return path.read_bytes().partition(b"\n")[2]


async def propose(
    world, memory_id: UUID, action: str = "archive", related: UUID | None = None, quote: str = ""
) -> UUID:
    """A pass with one verdict that led to a proposal which waits for a reviewer."""
    pass_id, verdict, proposal = uuid4(), uuid4(), uuid4()
    state = await world.commands.load(world.caller.tenant, memory_id)
    seen = {memory_id: state.state_version}
    if related is not None:
        seen[related] = (await world.commands.load(world.caller.tenant, related)).state_version
    said: dict[str, Any] = {
        "pass_id": pass_id,
        "ref": "s0",
        "rule": "single" if related is None else "pair",
        "action": action,
        "memory_id": memory_id,
        "related_id": related if action in ("supersede", "conflict") else None,
        "judged_pair": None if related is None else (memory_id, related),
        "probability": 0.9,
        "probabilities": {action: 0.9, "keep": 0.1},
        "judge": "told:1",
        "model": "told-1",
        "seen": seen,
        "evidence_memory": memory_id if quote else None,
        "quote": quote or None,
    }
    asked = e.PassRequested(trigger="hand", day="2026-03-01", judge="told:1")
    done = e.PassCompleted(judged=1, refused=0, proposed={action: 1}, dismissed={})
    await append(world, [NewEvent(pass_id, 1, asked), NewEvent(pass_id, 2, done)])
    ids = await append(world, [NewEvent(verdict, 1, e.VerdictRecorded(**said, call_id=uuid4()))])
    staged = e.ProposalStaged(**said, threshold=0.85, verdict_event=ids[0])
    await append(
        world,
        [NewEvent(proposal, 1, staged)],
        [take_slot(memory_id.bytes + action.encode(), proposal)],
    )
    return proposal


async def append(world, events: list[NewEvent], claims: list[Claim] | None = None) -> tuple[UUID, ...]:
    envelope = Envelope(WORKER, cause=uuid4(), correlation=uuid4(), policy=1, judge="told:1")
    unit = Unit(world.caller.tenant, events[0].stream, events, envelope, claims or ())
    outcome = await world.engine.log.append(unit)
    assert isinstance(outcome, Appended)
    return outcome.event_ids


async def destroy_key(world, memory_id: UUID) -> None:
    """What an erasure does to the text of a memory in the log."""
    with psycopg.connect(world.database_url) as connection:
        connection.execute("delete from lethelog_vault.data_keys where key_id = %s", (memory_id,))
    world.engine.vault.forget()


async def lived_in(world) -> dict[str, UUID]:
    """Memories of every fate, by name: chains, pins, expiry, decisions, refutations, one that is erased."""
    caller, do = world.caller, world.commands
    now = world.clock.now
    made: dict[str, UUID] = {}

    async def remember(name: str, content: str, **fields: Any) -> UUID:
        made[name] = await world.remember(content, **fields)
        return made[name]

    await world.engine.tenants.set_judgment(caller.tenant, True, caller.actor)
    await world.engine.tenants.set_policy(caller.tenant, {"singles_cap": 7}, caller.actor)
    first = await remember(
        "first",
        "Deploys go to Heroku",
        memory_type="decision",
        project="Ünïcode ✓",
        user_id="ada",
        agent_id="planner",
        run_id="r1",
        session_id="s1",
        tags=["infra", "日本"],
        metadata={"n": 1.5, "none": None, "deep": {"a": [1, None]}},
        occurred_at=now - timedelta(days=40),
        core=True,
    )
    revised = await do.revise(caller, {"memory_id": first, "content": "Deploys go to Hetzner", "edge": "updates"})
    made["second"] = revised.memory.id
    await do.pin(caller, {"memory_id": made["second"]})
    await do.verify(caller, {"memory_id": made["second"]})
    await remember("expiring", "Guest code is 4711", expires_at=now + timedelta(days=1), pinned=True)
    await remember("archived", "Standup is at nine", scope="work", derived_from=[made["second"]])
    await do.archive(caller, {"memory_id": made["archived"], "reason": "we stopped"})
    await remember("suppressed", "Lunch was pasta")
    plan = {"plan_id": uuid4(), "approver": "grace", "reason": "retention plan"}
    await do.suppress(caller, {"memory_id": made["suppressed"], **plan})
    likes = {"subject": "Ada", "predicate": "likes", "value": "green tea"}
    window = {"valid_from": now - timedelta(days=9), "valid_to": now, "confidence": 0.75}
    await remember("moved", "Likes green tea", user_id="ada", facts=[likes, likes | {"value": "tea"} | window])
    await do.move(caller, {"memory_id": made["moved"], "scope": "work", "project": "Tea", "tags": ["drink"]})
    await do.reaffirm(caller, {"memory_id": made["moved"]})
    await remember("refuted", "Orla works at Pell & Co")
    await do.refute(caller, {"memory_id": made["refuted"], "reason": "never did"})
    await remember("quarantined", "ORLA works at Pell & Co")
    await remember("once wrong", "The moon is cheese")
    await do.refute(caller, {"memory_id": made["once wrong"]})
    await remember("released", "The moon is cheese")
    await do.release(caller, {"memory_id": made["released"], "reason": "it is in this game"})
    await remember("stale", "Uses Python 3.8", memory_type="decision")
    made["open"] = await propose(world, made["stale"], quote="Uses Python 3.8")
    await remember("older", "Lives in Porto")
    await remember("newer", "Lives in Lisbon")
    accepted = await propose(world, made["older"], "supersede", made["newer"])
    await world.catch_up()
    await world.reviewing.accept(caller, {"proposal_id": accepted, "comment": "moved"})
    made["accepted"] = accepted
    rejected = await propose(world, made["newer"], quote="Lives in Lisbon")
    await world.catch_up()
    await world.reviewing.reject(caller, {"proposal_id": rejected, "comment": "she does"})
    made["rejected"] = rejected
    salary = {"subject": "Eve", "predicate": "earns", "value": "4711"}
    await remember("erased", "Her salary is 4711", user_id="eve", facts=[salary])
    await propose(world, made["erased"], quote="Her salary is 4711")
    await destroy_key(world, made["erased"])
    return made
