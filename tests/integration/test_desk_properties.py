"""Whatever happens at the review desk: nothing changes before somebody decided, and everything can be taken back.

A machine of two reviewers, of people who write, of passes, of undos and of a clock that jumps.
"""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from lethelog.projections.rebuild import Rebuilder

from .desk import REVIEWERS, TEXTS, Desk
from .test_properties import Remembering

TEXT = st.integers(0, len(TEXTS) - 1)
ONE = st.sampled_from((0, 0, 0, 0, 1, 1, 2, 3, 5))
"""So that many things happen to a few."""
WHO = st.sampled_from(REVIEWERS)
KIND = st.sampled_from(("decision", "decision", "fact", "fact", "preference", "commitment", "event", "blocker"))
VERDICT = st.sampled_from(("accept", "accept", "reject"))
EITHER = st.booleans()
BEGINNINGS = (
    ("decision", "decision", "fact", "fact", "commitment"),
    ("commitment", "commitment", "preference", "preference", "decision"),
    ("decision", "decision", "commitment", "commitment", "fact"),
)
"""Of which type the texts are remembered first."""


def step(name: str, **given: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    """One thing that `Desk` does, with what it is given."""
    return st.fixed_dictionaries(given).map(lambda drawn: (name, drawn))


SAID = (
    step("remember", text=TEXT, kind=KIND, due=EITHER, ends=EITHER, on=st.none() | ONE),
    step("revise", which=ONE, text=TEXT, kind=KIND),
    step("change", verb=st.sampled_from(("archive", "restore", "restore", "refute")), which=ONE),
    step("change", verb=st.sampled_from(("restore", "release", "reaffirm", "verify")), which=ONE),
    step("resolve", which=ONE, status=st.sampled_from(("open", "waiting", "resolved"))),
    step("jump", days=st.sampled_from((-0.05, 1, 8, 45)), expires=EITHER),
    step("jump", days=st.sampled_from((8, 45)), expires=st.just(True)),
)
LOOKED_FOR = (
    step("forget"),
    step("consolidate"),
    step("review_dependents"),
    step("propose", kind=st.sampled_from(("archive", "fact")), which=ONE, other=ONE),
    step("propose", kind=st.sampled_from(("supersedes", "updates", "extends")), which=ONE, other=ONE),
    step("propose", kind=st.sampled_from(("archive", "supersedes", "updates")), which=ONE, other=ONE),
)
DECIDED = (
    step("decide", who=WHO, number=ONE, verdict=VERDICT, holds=EITHER),
    step("decide", who=WHO, number=ONE, verdict=VERDICT, holds=EITHER),
    step("decide_and_take_back", who=WHO, number=ONE, holds=EITHER, stays=EITHER),
    step("both_decide", number=ONE, verdicts=st.tuples(VERDICT, VERDICT)),
    step("decide_many", who=WHO, verdict=VERDICT, together=EITHER),
)
UNDONE = (
    step("undo", selector=st.sampled_from(("effect", "proposal_id", "pass_id", "reviewer")), number=ONE),
    step("undo", selector=st.just("undo_id"), number=ONE),
    step("undo", selector=st.just("promise"), number=ONE),
)


class Machine(RuleBasedStateMachine):
    """Hypothesis draws the steps in any order; so few rules, since it leaves some out of each example."""

    world: Any
    loop: asyncio.AbstractEventLoop
    lived: Counter[str]
    desk: Desk

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    @initialize(kinds=st.sampled_from(BEGINNINGS), ends=EITHER)
    def begin(self, kinds: tuple[str, ...], ends: bool) -> None:
        self.desk = self.do(Desk.begin(self.world))
        for text, kind in enumerate(kinds):
            self.do(self.desk.remember(text, kind, due=True, ends=ends))

    @rule(
        said=st.one_of(*SAID),
        proposed=st.lists(st.one_of(*LOOKED_FOR), min_size=1, max_size=2),
        decided=st.one_of(*DECIDED),
        then=st.one_of(*SAID, *DECIDED, *UNDONE),
        undone=st.one_of(*UNDONE, *UNDONE, *SAID),
    )
    def happens(self, said: Any, proposed: list[Any], decided: Any, then: Any, undone: Any) -> None:
        for name, given in (said, *proposed, decided, then, undone):
            self.do(getattr(self.desk, name)(**given))

    def teardown(self) -> None:
        self.lived.update(self.do(self.desk.check()))


ACCEPT: dict[str, Any] = {"who": "ada", "number": 0, "verdict": "accept"}
ARCHIVED = (("propose", {"kind": "archive", "which": 0, "other": 0}), ("decide", ACCEPT))
SUPERSEDED = (("propose", {"kind": "supersedes", "which": 0, "other": 1}), ("decide", ACCEPT))
LAST: dict[str, Any] = {"selector": "proposal_id", "number": 0}
EXAMPLES: dict[str, tuple[tuple[str, dict[str, Any]], ...]] = {
    "somebody restored it and archived it himself": (
        ("remember", {"text": 0, "kind": "decision"}),
        *ARCHIVED,
        ("change", {"verb": "restore", "which": 0}),
        ("change", {"verb": "archive", "which": 0}),
        ("undo", LAST),
    ),
    "its text was remembered anew": (
        ("remember", {"text": 0, "kind": "decision"}),
        *ARCHIVED,
        ("remember", {"text": 0, "kind": "decision"}),
        ("undo", LAST),
    ),
    "the newer one was superseded by the older one since": (
        ("remember", {"text": 2, "kind": "fact"}),
        ("remember", {"text": 3, "kind": "fact"}),
        *SUPERSEDED,
        ("undo", LAST),
        *SUPERSEDED,
        ("undo", {"selector": "undo_id", "number": 0}),
    ),
    "a commitment that was resolved with its memory": (
        ("remember", {"text": 4, "kind": "commitment", "due": True}),
        ("remember", {"text": 0, "kind": "decision"}),
        ("propose", {"kind": "supersedes", "which": 0, "other": 1}),
        ("decide_and_take_back", {"who": "bob", "number": 0, "holds": False, "stays": True}),
        ("undo", {"selector": "effect", "number": 0}),
        ("undo", {"selector": "undo_id", "number": 0}),
    ),
    "a commitment that expired": (
        ("remember", {"text": 4, "kind": "commitment", "due": True}),
        ("jump", {"days": 45, "expires": True}),
        ("undo", {"selector": "promise", "number": 0}),
        ("undo", {"selector": "undo_id", "number": 0}),
        ("resolve", {"which": 0, "status": "open"}),
        ("undo", {"selector": "promise", "number": 0}),
    ),
    "a text that was never true, and somebody who revises into it": (
        ("remember", {"text": 0, "kind": "decision"}),
        ("change", {"verb": "refute", "which": 0}),
        ("remember", {"text": 1, "kind": "decision"}),
        ("revise", {"which": 0, "text": 0, "kind": "decision"}),
        ("decide", {**ACCEPT, "verdict": "reject"}),
        ("undo", LAST),
        ("decide_and_take_back", {"who": "ada", "number": 0, "holds": True, "stays": False}),
    ),
}
"""What a step stands on, where drawn steps seldom come to it."""
SEEN = frozenset(
    {
        "commitment.effect_undone",
        "commitment.effect_undone again",
        "commitment.transitioned",
        "consolidation.completed",
        "contradiction.effect_undone",
        "contradiction.flagged",
        "contradiction.resolved",
        "memory.archived",
        "memory.effect_undone",
        "memory.effect_undone again",
        "memory.restored",
        "memory.superseded",
        "pass.completed",
        "proposal.accepted",
        "proposal.dependency_staged",
        "proposal.edge_staged",
        "proposal.fact_staged",
        "proposal.rejected",
    }
)
"""What the examples are of use for."""


@pytest.mark.timeout(420)  # only where it fails: then the shortest sequence is looked for
async def test_whatever_happens_at_the_desk_only_decisions_change_what_is_read_and_undoing_restores_it(world):
    world.engine.live_memory._embedder = world.engine.search._embedder = Remembering(world.engine.embedder)
    loop, lived = asyncio.get_running_loop(), Counter[str]()

    class OfThisWorld(Machine):
        def __init__(self) -> None:
            super().__init__()
            self.world, self.loop, self.lived = world, loop, lived

    for steps in EXAMPLES.values():
        desk = await Desk.begin(world)
        for name, given in steps:
            await getattr(desk, name)(**given)
        lived.update(await desk.check())
    await asyncio.to_thread(
        run_state_machine_as_test,
        OfThisWorld,
        settings=settings(
            max_examples=6,
            stateful_step_count=8,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert set(lived) >= SEEN, f"never came to be: {sorted(SEEN - set(lived))}"
    head = await world.catch_up()
    for projection in world.engine.projections:
        rebuilder = Rebuilder(world.engine.database, world.engine.log, world.engine.tail, projection)
        compared = await rebuilder.compare()
        assert compared.equal and compared.position == head, f"{projection.name}: {compared.differences}"
