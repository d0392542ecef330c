"""An id of another thing is told apart from an unknown one, by every verb that takes an id (F50)."""

from operator import attrgetter
from typing import Any
from uuid import UUID

from lethelog.domain.errors import LethelogError, WrongKind
from lethelog.handlers.http.routes import ROUTES

from .review_desk import dependency
from .test_bad_input import memory_door

KINDS = {
    "memory_id": "memory",
    "memory_ids": "memory",
    "ids": "memory",
    "derived_from": "memory",
    "session_run_id": "session run",
    "session": "session run",
}
"""What a field wants; the others say it by their names. Here a session's id is given for all but sessions."""
ANY = {"source", "stream", "effect", "cursor", "delivery_id", "about", "holds"}
"""Fields that take ids of several kinds or that are no streams', or one of the two that a proposal names."""
ELSEWHERE = {
    *(("archive_many", "memory_ids"), ("archive_many", "session_run_id"), ("decide_many", "proposal_ids")),
    ("resume_undo", "session_run_id"),
}
"""Answered for each item on its own; and what needs an undo first."""
LISTS = {"memory_ids", "ids", "derived_from", "proposal_ids"}
ALSO: dict[str, dict[str, Any]] = {
    "undo session_run_id": {"judge": "any"},
    "decide_many": {"verdict": "reject", "expected": 0},
    "move": {"scope": "work"},
    "webhooks.change": {"names": ["proposal.*"]},
    "erase": {"reason": "broken"},
    "webhooks.replay": {"from_position": 1},
    "wait_for_pass": {"seconds": 0.1},
    "search": {"query": "q"},
    "remember": {"content": "c"},
    "import_memory": {"content": "c"},
    "revise": {"content": "c"},
    "release": {"reason": "r"},
}
CASES = [
    (route, field)
    for route in ROUTES
    for field, known in route.takes.model_fields.items()
    if "UUID" in str(known.annotation) and field not in ANY and (route.verb, field) not in ELSEWHERE
]


async def test_an_id_of_another_kind_is_told_apart_from_an_unknown_one_by_every_verb(world):
    door: Any = memory_door(world)
    memory = await world.remember("Deploys go to Hetzner")
    run = (await door.sessions.open("standup")).id
    proposal = await dependency(world, memory)
    known = {"memory_id": memory, "memory_ids": [memory], "proposal_id": proposal}
    head = await world.catch_up()
    problems: list[str] = []
    for route, field in CASES:
        wrong: UUID = memory if KINDS.get(field) == "session run" else run
        needed = [name for name, said in route.takes.model_fields.items() if said.is_required() and name in known]
        right = {name: known[name] for name in needed}
        given = {
            **right,
            **ALSO.get(route.verb, {}),
            **ALSO.get(f"{route.verb} {field}", {}),
            field: [wrong] if field in LISTS else wrong,
        }
        try:
            await attrgetter(route.verb)(door)(**given)
        except WrongKind as refused:
            assert refused.details["id"] == wrong
        except LethelogError as other:
            problems.append(f"{route.verb}({field}): {other!r}")
        else:
            problems.append(f"{route.verb}({field}): taken")
    assert problems == [] and len(CASES) > 70
    assert await world.engine.log.head() == head
