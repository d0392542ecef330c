"""What would have been proposed under other thresholds, another policy or another judge.

Thresholds and policies are computed from what is on record and leave nothing there. Another judge is asked the
recorded questions, which stands on record as what it is (`asking`).
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from pydantic import Field

from ...domain import whatif as rules
from ...domain.errors import Conflict, InvalidInput, Misconfigured
from ...domain.events import WhatIfRequested
from ...domain.fields import Input, Instant, Name, Position, parse
from ...domain.judging import Judge
from ...domain.thresholds import MINIMUM_PROPOSALS, Thresholds, starting_thresholds
from ...domain.whatif import ACTIONS, Asked, Precision, Said, Would
from ...projections.progress import wait_for
from ...streams.ids import new_id
from ...streams.log import Appended, NewEvent, Unit
from ...streams.payloads import Envelope
from ..access.caller import Caller
from ..analytics.review_stats import share
from ..engine import Engine
from .asking import Answers, OtherJudge, Report
from .policies import UnderPolicy, read_changes
from .recorded import RecordedPass, read_passes
from .views import ActionPrecision, Asking, WhatIfReport, WouldBe

SHOWN = 100
VIEWS = ("review_queue", "effects")
JudgeNamed = Callable[[str], tuple[Judge, Thresholds]]
"""A judge by the name settings know it by, and the thresholds selected for it."""


def no_judges(name: str) -> tuple[Judge, Thresholds]:
    """Where no judge can be opened. Raises `InvalidInput`."""
    raise InvalidInput("judge", "no other judge can be asked here", "Open the memory with its settings")


def silent(done: int, of: int) -> None:
    """Reports nothing."""


class WhatIfQuery(Input):
    """What is to be different: thresholds, a policy, or the judge, which thresholds may go with."""

    archive: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    """The threshold of this action."""
    supersede: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    conflict: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    judge: Name | None = None
    """Another judge, by its name in the settings."""
    since: Instant | None = None
    """Passes with verdicts since then; by default all, the newest ones first."""
    passes: int = Field(default=100, ge=1, le=1_000)
    """How many passes are looked at."""
    questions: int = Field(default=100, ge=1, le=10_000)
    """How many questions another judge is asked at most."""
    after: Position | None = None


class WhatIf:
    """Replays the passes of one caller's tenant."""

    def __init__(self, engine: Engine, judge_named: JudgeNamed = no_judges) -> None:
        self._engine = engine
        self._judge_named = judge_named

    async def replay(
        self,
        caller: Caller,
        arguments: Mapping[str, Any],
        policy: Mapping[str, Any] | None = None,
        report: Report = silent,
    ) -> WhatIfReport:
        """What would have been proposed, and how often reviewers agreed.

        Raises `InvalidInput`; where another judge is to be asked, also `Conflict` while judging is off for the
        tenant, and `Misconfigured` where that judge cannot answer.
        """
        caller.require("memory:review")
        query = parse(WhatIfQuery, arguments)
        given = {action: value for action in ACTIONS if (value := getattr(query, action)) is not None}
        if policy is not None and (query.judge is not None or given):
            raise InvalidInput("policy", "stands alone", "Try thresholds and judges one after the other")
        if policy is None and query.judge is None and not given:
            raise InvalidInput("archive", "is missing: give a threshold, a policy or a judge")
        changes = None if policy is None else read_changes(policy)
        if query.judge is not None:
            caller.require("memory:write")
        for name in VIEWS if query.after else ():
            await wait_for(self._engine.doors, name, query.after or 0)
        if changes is not None:
            return await self._under_policy(caller.tenant, query, changes)
        if query.judge is not None:
            return await self._by_judge(caller, query, query.judge, given, report)
        return await self._under_thresholds(caller.tenant, query, given)

    async def _under_thresholds(
        self, tenant: UUID, query: WhatIfQuery, given: Mapping[str, float]
    ) -> WhatIfReport:
        passes, left_out = await self._passes(tenant, query)
        asked = _all_asked(passes)
        own = _own_thresholds(passes)

        def clears(one: Asked, said: Said) -> bool:
            threshold = rules.threshold_of(said.action, own[one.pass_id], given)
            return threshold is not None and said.probability >= threshold

        would = rules.replay(((one, one.said) for one in asked), clears)
        return await self._report(
            query,
            (passes, left_out),
            would,
            thresholds=dict(given),
            thresholds_from="given",
            not_replayed=_of_any_replay(),
        )

    async def _under_policy(self, tenant: UUID, query: WhatIfQuery, changes: Mapping[str, Any]) -> WhatIfReport:
        passes, left_out = await self._passes(tenant, query)
        under = UnderPolicy(self._engine, tenant, changes)
        kept = await under.kept(passes)
        own = _own_thresholds(passes)

        def clears(one: Asked, said: Said) -> bool:
            threshold = own[one.pass_id].get(said.action)
            return threshold is not None and said.probability >= threshold

        would = rules.replay(((one, one.said) for one in kept), clears)
        return await self._report(
            query, (passes, left_out), would, not_replayed=(*under.not_replayed(), *_of_any_replay())
        )

    async def _by_judge(
        self, caller: Caller, query: WhatIfQuery, name: str, given: Mapping[str, float], report: Report
    ) -> WhatIfReport:
        judge, selected = self._judge_named(name)
        try:
            if judge.unavailable_because is not None:
                raise Misconfigured(f"this judge answers nothing: {judge.unavailable_because}")
            tenant = await self._engine.tenants.get(caller.tenant, fresh=True)
            if not tenant.judgment:
                raise Conflict(
                    "judging is off for this tenant, so nothing is sent; "
                    "turn it on with: lethelog settings judgment on"
                )
            passes, left_out = await self._passes(caller.tenant, query)
            whatif = await self._request(caller, query, judge, tenant.policy_version)
            other = OtherJudge(self._engine, caller, whatif, judge, query.questions)
            answers = await other.ask(passes, report)
        finally:
            await judge.close()
        thresholds, where_from = _thresholds_for(judge, selected, given)

        def clears(_one: Asked, said: Said) -> bool:
            return thresholds.clears(said.action, said.probability)

        return await self._report(
            query,
            (passes, left_out),
            rules.replay(answers.said, clears),
            whatif=whatif,
            among={(one.pass_id, one.ref) for one, _ in answers.said},
            thresholds={action: thresholds.for_action(action) for action in ACTIONS},
            thresholds_from=where_from,
            asking=_asking(judge, answers),
            not_replayed=_of_any_replay(),
        )

    async def _request(self, caller: Caller, query: WhatIfQuery, judge: Judge, policy: int) -> UUID:
        whatif = new_id()
        event = WhatIfRequested(judge=judge.identity, since=query.since, most=query.questions)
        outcome = await self._engine.log.append(
            Unit(
                tenant=caller.tenant,
                subject=whatif,
                events=[NewEvent(whatif, 1, event)],
                envelope=Envelope(caller.actor, whatif, whatif, policy=policy, judge=judge.identity),
            )
        )
        if not isinstance(outcome, Appended):
            raise Conflict("the what-if could not be put on record; try again")
        return whatif

    async def _passes(self, tenant: UUID, query: WhatIfQuery) -> tuple[list[RecordedPass], int]:
        return await read_passes(self._engine, tenant, query.since, query.passes)

    async def _report(
        self,
        query: WhatIfQuery,
        passes: tuple[list[RecordedPass], int],
        would: Sequence[Would],
        *,
        whatif: UUID | None = None,
        among: set[tuple[UUID, str]] | None = None,
        thresholds: dict[str, float | None] | None = None,
        thresholds_from: str = "recorded",
        asking: Asking | None = None,
        not_replayed: Iterable[str] = (),
    ) -> WhatIfReport:
        asked = [one for one in _all_asked(passes[0]) if among is None or (one.pass_id, one.ref) in among]
        was = rules.recorded(asked)
        kept = {(one.asked.pass_id, one.asked.ref) for one in would if one.real}
        appearing = [one for one in would if not one.real]
        gone = [one for one in was if (one.asked.pass_id, one.asked.ref) not in kept]
        gone.sort(key=lambda one: one.decision != "accepted")
        return WhatIfReport(
            id=whatif,
            since=query.since,
            passes=len(passes[0]),
            passes_left_out=passes[1],
            questions=len(asked),
            thresholds=thresholds,
            thresholds_from=thresholds_from,
            recorded=tuple(_precision(one) for one in rules.precision(was)),
            replayed=tuple(_precision(one) for one in rules.precision(would)),
            unchanged=len(kept),
            appeared=len(appearing),
            disappeared=len(gone),
            appearing=tuple(_would_be(one) for one in appearing[:SHOWN]),
            disappearing=tuple(_would_be(one) for one in gone[:SHOWN]),
            asking=asking,
            not_replayed=tuple(not_replayed),
            position=await self._engine.log.head(),
        )


def _thresholds_for(judge: Judge, selected: Thresholds, given: Mapping[str, float]) -> tuple[Thresholds, str]:
    """By which the other judge would propose; the source's values where none were selected for it."""
    base, where_from = selected, "selected"
    if not selected.selected or all(selected.for_action(action) is None for action in ACTIONS):
        base, where_from = starting_thresholds(judge.identity), "starting"
    values = {action: given.get(action, base.for_action(action)) for action in ACTIONS}
    return Thresholds(judge.identity, **values, selected=base.selected), "given" if given else where_from


def _own_thresholds(passes: Iterable[RecordedPass]) -> dict[UUID, Mapping[str, float | None]]:
    return {one.state.id: one.state.settings.thresholds for one in passes if one.state.settings is not None}


def _all_asked(passes: Iterable[RecordedPass]) -> list[Asked]:
    return [one for recorded in passes for one in recorded.asked.values()]


def _of_any_replay() -> tuple[str, ...]:
    """What no replay says: one pass's decisions shape what later passes ask."""
    return (
        "what later passes would have asked: a proposal that had not been, or had, opens and closes questions",
    )


def _asking(judge: Judge, answers: Answers) -> Asking:
    return Asking(
        judge=judge.identity,
        asked=answers.asked,
        answered=answers.answered,
        reused=answers.reused,
        unanswered=dict(answers.unanswered),
        calls=answers.calls,
        cost_usd=math.fsum(answers.costs) if answers.costs else None,
        stopped=answers.stopped,
    )


def _precision(one: Precision) -> ActionPrecision:
    return ActionPrecision(
        action=one.action,
        proposed=one.proposed,
        precision=share(one.accepted, one.decided),
        enough=one.decided >= MINIMUM_PROPOSALS,
    )


def _would_be(one: Would) -> WouldBe:
    return WouldBe(
        pass_id=one.asked.pass_id,
        ref=one.asked.ref,
        action=one.said.action,
        memory_id=one.said.memory_id,
        related_id=one.said.related_id,
        probability=one.said.probability,
        decision=one.decision,
    )
