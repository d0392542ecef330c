"""Random commands, erasures and rebuilds: nothing that was erased stands anywhere, and live equals rebuilt."""

import random

import pytest
from lethelog.domain.errors import Conflict
from lethelog.handlers.erasure.erasures import Erasures
from lethelog.projections.rebuild import Rebuilder
from lethelog.streams import audit

from .test_erasure import clear_rows, same_as_rebuilt

PEOPLE = ("ada", "bob", "cid")


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_happens_what_was_erased_is_nowhere_and_the_rest_is_as_rebuilt(world, seed):
    chance = random.Random(seed)
    erasures = Erasures(world.engine)
    texts: dict[object, tuple[str, str]] = {}
    gone: set[str] = set()

    async def erase(**what) -> None:
        preview = await erasures.preview(world.caller, what)
        done = await erasures.erase(
            world.caller,
            {"erasure_id": preview.id, "reason": "asked_for", "re_entry": chance.choice(["none", "block"])},
        )
        assert done.verified, done.remaining
        state, _ = await erasures._saga.load(world.caller.tenant, preview.id)
        for memory in state.memories:
            if memory in texts:
                gone.add(texts.pop(memory)[0])

    for step in range(40):
        what = chance.choices(
            [
                "remember",
                "derive",
                "revise",
                "archive",
                "refute",
                "move",
                "erase",
                "forget",
                "rebuild",
                "catch up",
            ],
            [8, 2, 4, 2, 1, 2, 3, 0.5, 1, 4],
        )[0]
        one = chance.choice(list(texts)) if texts else None
        text = f"canary-{seed}-{step}-zz"
        try:
            if what == "remember" or one is None:
                person = chance.choice(PEOPLE)
                texts[await world.remember(text, user_id=person, project=chance.choice("AB"))] = (text, person)
            elif what == "derive":
                texts[await world.remember(text, derived_from=[one])] = (text, "")
            elif what == "revise":
                written = await world.commands.revise(world.caller, {"memory_id": one, "content": text})
                texts[written.memory.id] = (text, "")
            elif what == "archive":
                await world.commands.archive(world.caller, {"memory_id": one, "reason": texts[one][0]})
            elif what == "refute":
                await world.commands.refute(world.caller, {"memory_id": one, "reason": texts[one][0]})
            elif what == "move":
                await world.commands.move(world.caller, {"memory_id": one, "tags": [texts[one][0][:40]]})
            elif what == "erase":
                await erase(memory_id=one)
            elif what == "forget" and await world.engine.directory.find(world.caller.tenant, "user", "ada"):
                await erase(subject="ada")
            elif what == "rebuild":
                projection = chance.choice(world.engine.projections)
                engine = world.engine
                await Rebuilder(engine.database, engine.log, engine.tail, projection).rebuild()
            else:
                await world.catch_up()
        except Conflict:
            continue
    if texts:
        await erase(memory_id=next(iter(texts)))
    await world.catch_up()
    assert gone
    for text in gone:
        assert await clear_rows(world, text) == []
    for memory, (text, _) in texts.items():
        assert (await world.get(memory)).content == text
        assert await clear_rows(world, text)
    await same_as_rebuilt(world)
    assert (await audit.verify(world.engine.database)).intact
