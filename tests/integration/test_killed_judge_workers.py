"""A judge worker killed at its worst moments: one charge and one proposal in the end (F43)."""

import pytest
from lethelog.handlers.forgetting.requesting import Passes
from lethelog.handlers.operating import workers
from lethelog.streams.handling import RetryPolicy

from .passes import ToldJudge, finish, old, pass_settings, sure, working


@pytest.mark.parametrize("point", ["after the reserve", "after the answer", "after the append"])
async def test_a_worker_killed_there_leads_to_one_charge_and_one_proposal(
    judging_world, broker, database_url, start, monkeypatch, point
):
    world = judging_world
    stale = await old(world, "Deploys go to Fly.io")
    settings = pass_settings(ToldJudge(sure("archive")))
    # The dead worker's delivery comes again after this long; the server's least is used to keep the test short.
    monkeypatch.setattr(workers, "JUDGE_POLICY", RetryPolicy(ack_wait=1.0))
    async with working(world, broker, settings, roles={"views", "relay", "passes"}):
        killed = await start(
            "judge", database_url=database_url, broker_url=broker.url, prefix=broker.prefix, fatal=point
        )
        view = await Passes(world.engine, settings).request(world.caller)
        assert await killed.process.wait() == 9
        async with working(world, broker, settings, roles={"judge"}):
            done = await finish(world, settings, view, seconds=60)
    assert (done.judged, done.refused, done.proposed) == (1, 0, {"archive": 1})
    budget = await world.engine.tenants.budget(world.caller.tenant, done.requested_at.date())
    assert (len(budget.reserved), len(budget.settled)) == (1, 1)
    proposals = (await world.reviewing.list(world.caller, {})).proposals
    assert [p.memory_id for p in proposals] == [stale]
