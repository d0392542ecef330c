"""Which edge is proposed between two near memories (behaviour.md 1.13; A13 to A15)."""

from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest
from lethelog.domain.consolidation import (
    EDGES,
    MILDEST_FIRST,
    Side,
    edge_between,
    hour_of,
    mildest_edge,
    scheduled_consolidation_id,
)
from lethelog.domain.differences import read

SAME = read("deploys go out on green builds")


def side(memory_type: str, *, guarded: bool = False) -> Side:
    return Side(memory_type, SAME, guarded)


@pytest.mark.parametrize(
    ("newer", "older", "edge"),
    [
        pytest.param("fact", "fact", "extends", id="A13"),
        pytest.param("event", "event", "extends", id="A14"),
        pytest.param("event", "preference", None, id="A14 with a preference"),
        pytest.param("preference", "event", None, id="A14 the other way round"),
        pytest.param("preference", "preference", "updates", id="A15"),
        ("preference", "fact", "updates"),
        ("decision", "preference", "updates"),
        ("commitment", "blocker", "extends"),
        ("event", "fact", "extends"),
        ("note", "pattern", "extends"),
    ],
)
def test_the_mildest_edge_that_both_types_allow_is_proposed(newer: str, older: str, edge: str | None):
    assert mildest_edge(newer, older) == edge


def test_no_pair_of_types_gets_an_edge_that_one_of_them_forbids_or_a_stronger_one_than_needed():
    for newer, of_newer in EDGES.items():
        for older, of_older in EDGES.items():
            common = [edge for edge in MILDEST_FIRST if edge in of_newer and edge in of_older]
            assert mildest_edge(newer, older) == (common[0] if common else None)


def test_events_only_ever_get_extends():
    assert {mildest_edge("event", older) for older in EDGES} == {"extends", None}
    assert {mildest_edge(newer, "event") for newer in EDGES} == {"extends", None}


def test_a_difference_in_number_blocks_every_edge():
    changed = Side("fact", read("deploys go out on 3 green builds"))
    assert edge_between(side("fact"), side("fact")) == ("extends", None)
    assert edge_between(changed, side("fact")) == (None, "number")


def test_a_pinned_or_verified_memory_is_never_closed_but_may_be_extended():
    assert edge_between(side("preference"), side("preference", guarded=True)) == (None, "guarded")
    assert edge_between(side("fact"), side("fact", guarded=True)) == ("extends", None)


def test_the_scheduled_pass_of_a_tenant_and_hour_has_one_id_wherever_it_is_asked_for():
    tenant, moment = UUID(int=7), datetime(2026, 3, 1, 9, 59, 59, tzinfo=UTC)
    elsewhere = moment.astimezone(timezone(timedelta(hours=2)))
    assert scheduled_consolidation_id(tenant, moment) == scheduled_consolidation_id(tenant, elsewhere)
    assert scheduled_consolidation_id(tenant, hour_of(moment)) == scheduled_consolidation_id(tenant, moment)
    assert scheduled_consolidation_id(tenant, moment + timedelta(seconds=1)) != scheduled_consolidation_id(
        tenant, moment
    )
    assert scheduled_consolidation_id(UUID(int=8), moment) != scheduled_consolidation_id(tenant, moment)
