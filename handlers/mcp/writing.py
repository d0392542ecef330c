"""The tools that write."""

from collections.abc import Mapping
from typing import Any

from ...domain import commands as c
from ...domain.errors import InvalidInput
from .answers import Answer, lean, line, lines, shortened, written
from .tool import Call

_PREVIEWED = 5
_OF_A_SUCCESSOR = ("content", "memory_type", "topic", "owner", "due_at", "expires_at", "edge")
_OF_FILING = ("scope", "project", "tags")


async def remember(call: Call) -> Answer:
    """Write a memory."""
    content = call.given.pop("content")
    session = await call.written_in(c.Remember, **{"topic": "t", **call.given, "content": content})
    done = await call.memory.remember(content, **call.given, **session)
    said = "already remembered" if done.deduplicated else "remembered"
    return Answer(written(done), f"{said}: {line(done.memory)}")


async def revise(call: Call) -> Answer:
    """Write a successor, file a memory elsewhere, or say that it still holds."""
    given = call.given
    memory_id, disposition = given.pop("memory_id"), given.pop("disposition")
    if disposition == "successor":
        if "content" not in given:
            raise InvalidInput(
                "content", "is required for a successor", "Or give the disposition move or reaffirm"
            )
        _refuse(given, ("no_project",), disposition)
        session = await call.written_in(c.Revise, memory_id=memory_id, **given)
        done = await call.memory.revise(memory_id, given.pop("content"), **given, **session)
        said = f"{memory_id} is superseded by {line(done.memory)}"
    elif disposition == "move":
        _refuse(given, _OF_A_SUCCESSOR, disposition)
        session = await call.written_in(c.Move, memory_id=memory_id, **given)
        done = await call.memory.move(memory_id, **given, **session)
        said = f"filed: {line(done.memory)}" if done.changed else f"was filed so already: {line(done.memory)}"
    else:
        _refuse(given, (*_OF_A_SUCCESSOR, *_OF_FILING, "no_project", "expected_version"), disposition)
        done = await call.memory.reaffirm(memory_id, **await call.written_in(c.Reaffirm, memory_id=memory_id))
        said = f"still holds: {line(done.memory)}"
    return Answer(written(done), said)


async def resolve(call: Call) -> Answer:
    """Set the status of a commitment, or put a blocker away."""
    session = await call.written_in(c.Resolve, **call.given)
    done = await call.memory.resolve(call.given.pop("memory_id"), **call.given, **session)
    data = {**lean(done), "changed": done.changed}
    return Answer(data, f"{done.memory_id} is {done.status}{'' if done.changed else ', as it was'}")


async def forget(call: Call) -> Answer:
    """Archive a memory by its id; of a query, only show what it finds."""
    given = call.given
    if "query" in given:
        for field in ("memory_id", "reason"):
            if field in given:
                raise InvalidInput(field, "does not go with query", "A query only previews; an id archives")
        found = await call.memory.search(given["query"], limit=_PREVIEWED, current=True)
        hits = [shortened(hit.memory) for hit in found.hits]
        head = "nothing was changed; forget with the memory_id of the one that is meant"
        return Answer(
            {"archived": False, "candidates": hits}, lines(head, (line(hit.memory) for hit in found.hits))
        )
    if "memory_id" not in given:
        raise InvalidInput("memory_id", "is required", "Or give query for a preview")
    session = await call.written_in(c.Archive, **given)
    done = await call.memory.archive(given.pop("memory_id"), **given, **session)
    return Answer({"archived": True, **written(done)}, f"archived, restore brings it back: {line(done.memory)}")


async def restore(call: Call) -> Answer:
    """Bring a memory back."""
    session = await call.written_in(c.Restore, **call.given)
    done = await call.memory.restore(call.given.pop("memory_id"), **call.given, **session)
    return Answer(written(done), f"{'restored' if done.changed else 'was there already'}: {line(done.memory)}")


def _refuse(given: Mapping[str, Any], fields: tuple[str, ...], disposition: str) -> None:
    for field in fields:
        if field in given:
            raise InvalidInput(field, f"does not go with the disposition {disposition}", "Leave it out")
