"""Stored names and payloads are for ever: the list is frozen, and samples of every schema are replayed."""

import json
from pathlib import Path

import pytest
from lethelog.domain.events import Event, event_class, event_names
from lethelog.domain.upcasters import UPCASTERS, upcast
from lethelog.handlers.archive.contents import LEFT_OUT, is_archived

SAMPLES = Path(__file__).parent / "event_samples"
NAMES = (
    "archive.export_started", "archive.exported", "archive.import_started", "archive.imported",
    "commitment.carried", "commitment.effect_undone", "commitment.opened", "commitment.scheduled",
    "commitment.transitioned",
    "consolidation.completed", "consolidation.requested", "consolidation.selected",
    "contradiction.effect_undone", "contradiction.flagged", "contradiction.resolved",
    "erasure.acknowledged", "erasure.incomplete", "erasure.performed", "erasure.previewed", "erasure.requested",
    "erasure.verified",
    "extraction.recorded", "fact.asserted", "fact.effect_undone",
    "memory.archived", "memory.edge_added", "memory.effect_undone", "memory.moved", "memory.pinned", "memory.prolonged", "memory.quarantined", "memory.reaffirmed", "memory.refuted",
    "memory.released", "memory.remembered", "memory.restored", "memory.superseded", "memory.suppressed",
    "memory.unpinned", "memory.verified",
    "pass.candidates_selected", "pass.completed", "pass.dispatched", "pass.failed", "pass.requested", "pass.started",
    "proposal.accepted", "proposal.contradiction_staged", "proposal.dependency_staged", "proposal.dismissed",
    "proposal.edge_staged", "proposal.fact_staged", "proposal.rejected", "proposal.resolution_staged",
    "proposal.staged", "proposal.withdrawn",
    "session.closed", "session.closer_failed", "session.closer_finished", "session.closer_judged",
    "session.opened", "session.resumed", "session.seen",
    "tenant.budget_reserved", "tenant.budget_settled", "tenant.created", "tenant.judgment_opted", "tenant.policy_changed",
    "tenant.retrieval_changed", "tenant.scope_registered",
    "token.issued", "token.revoked", "token.rotated",
    "undo.performed", "undo.requested",
    "verdict.recorded", "verdict.refused",
    "webhook.changed", "webhook.disabled", "webhook.enabled", "webhook.registered", "webhook.removed",
    "webhook.secret_rotated",
    "whatif.requested", "whatif.verdict_recorded",
)  # fmt: skip


def test_an_archive_holds_every_event_or_says_why_not():
    """F49: what is stored anew must not be left behind without a word."""
    assert [name for name in NAMES if not is_archived(name) and not name.startswith(tuple(LEFT_OUT))] == []


def test_the_stored_names_are_these_and_no_others():
    assert event_names() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_schema_ever_stored_has_a_frozen_sample_that_still_reads(name: str):
    cls = event_class(name)
    assert cls is not None
    for schema in range(1, cls.SCHEMA + 1):
        fields = json.loads((SAMPLES / f"{name}.{schema}.json").read_text())
        event = cls.model_validate(upcast(name, schema, fields, present=cls.SCHEMA))
        if schema == cls.SCHEMA:
            assert event.model_dump(mode="json", exclude_none=True) == fields


def test_no_sample_is_left_without_its_event():
    assert {path.name.rsplit(".", 2)[0] for path in SAMPLES.glob("*.json")} == set(NAMES)


def test_every_sealed_field_exists_and_may_be_absent():
    for name in NAMES:
        cls = event_class(name)
        assert cls is not None and issubclass(cls, Event)
        for field in [*cls.SEALED, *cls.SEALED_FOR]:
            assert cls.model_fields[field].default is None, f"{name}.{field} cannot read as erased"
        for names in cls.SEALED_FOR.values():
            assert names in cls.model_fields


def test_upcasting_goes_step_by_step_and_misses_loudly():
    steps = {("x", 1): lambda f: f | {"b": 2}, ("x", 2): lambda f: {"c": f["a"] + f["b"]}}
    assert upcast("x", 1, {"a": 1}, present=3, steps=steps) == {"c": 3}
    with pytest.raises(KeyError):
        upcast("x", 1, {}, present=2, steps={})
    assert all(1 <= schema < (event_class(name) or Event).SCHEMA for name, schema in UPCASTERS)
