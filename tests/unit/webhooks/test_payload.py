"""A webhook says ids, kind, action, times, position and counts, and never what anybody wrote."""

import json
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest
from lethelog.domain.events import (
    EdgeStaged,
    Event,
    FactStaged,
    PassCompleted,
    ProposalAccepted,
    ProposalStaged,
    event_class,
)
from lethelog.domain.webhook import sendable_names
from lethelog.handlers.webhooks.payload import body_of, body_of_test, sayable_fields
from lethelog.streams.payloads import Actor, Envelope, RecordedEvent

AT = datetime(2026, 3, 1, 9, tzinfo=UTC)
WORD = "zqcanary"


def recorded(event: Event | None, name: str = "proposal.staged") -> RecordedEvent:
    envelope = Envelope(Actor("worker", uuid4()), cause=uuid4(), correlation=uuid4(), policy=1)
    name = name if event is None else event.NAME
    return RecordedEvent(7, uuid4(), uuid4(), 1, name, uuid4(), AT, envelope, event)


def edge(**fields) -> EdgeStaged:
    return EdgeStaged(
        memory_id=UUID(int=1), related_id=UUID(int=2), seen={UUID(int=1): 3}, source=UUID(int=4), edge="updates",
        similarity=0.9, embedding_model=WORD, floor=0.5, rationale=WORD, **fields,
    )  # fmt: skip


def test_a_proposal_is_told_by_its_ids_kind_and_action():
    one = recorded(edge())
    said = json.loads(body_of(one, None))
    assert said["type"] == "proposal.edge_staged" and said["timestamp"] == "2026-03-01T09:00:00Z"
    data = said["data"]
    assert (data["position"], data["id"], data["event_id"]) == (7, str(one.stream), str(one.event_id))
    assert (data["kind"], data["action"], data["actor"]) == ("consolidation", "updates", "worker")
    assert data["clear"]["memory_id"] == str(UUID(int=1)) and data["clear"]["related_id"] == str(UUID(int=2))


def test_a_decision_is_told_with_the_kind_and_action_of_its_proposal():
    decided = recorded(ProposalAccepted(memory_id=UUID(int=1), comment=WORD, effects=(UUID(int=1),)))
    data = json.loads(body_of(decided, edge()))["data"]
    assert (data["kind"], data["action"]) == ("consolidation", "updates")
    assert data["clear"] == {"effects": [str(UUID(int=1))], "memory_id": str(UUID(int=1))}


def test_counts_of_a_pass_are_told():
    done = PassCompleted(judged=5, refused=1, proposed={"archive": 2}, dismissed={"keep": 3})
    clear = json.loads(body_of(recorded(done), None))["data"]["clear"]
    assert clear == {"judged": 5, "refused": 1, "proposed": {"archive": 2}, "dismissed": {"keep": 3}}


def test_a_long_list_is_told_by_its_length():
    many = ProposalAccepted(memory_id=UUID(int=1), effects=tuple(uuid4() for _ in range(51)))
    assert json.loads(body_of(recorded(many), None))["data"]["clear"]["effects"] == {"count": 51}


def test_an_event_that_this_version_does_not_know_is_told_by_its_place():
    said = json.loads(body_of(recorded(None, "proposal.of_tomorrow"), None))
    assert said["type"] == "proposal.of_tomorrow" and said["data"]["position"] == 7


@pytest.mark.parametrize("name", sendable_names())
def test_no_field_that_has_room_for_text_is_said(name: str):
    """Also not of an event that somebody adds: every field of every event that is sent, by its type."""
    cls = event_class(name)
    assert cls is not None
    for field in sayable_fields(cls):
        assert field not in {*cls.SEALED, *cls.SEALED_FOR}
        if field not in ("proposed", "dismissed"):
            assert not takes_text(cls.model_json_schema(), cls.model_json_schema()["properties"][field]), field


def takes_text(whole: dict, schema: dict) -> bool:
    if "$ref" in schema:
        return True
    if schema.get("type") == "string" and schema.keys().isdisjoint(("format", "enum", "const")):
        return True
    inner = [*schema.get("anyOf", ()), *schema.get("prefixItems", ())]
    inner += [schema[key] for key in ("items", "additionalProperties") if isinstance(schema.get(key), dict)]
    return any(takes_text(whole, one) for one in inner)


def test_texts_of_a_proposal_are_nowhere_in_its_message_and_would_be_found():
    fact = FactStaged(
        memory_id=UUID(int=1), seen={UUID(int=1): 1}, source=UUID(int=4), subject=WORD, predicate=WORD, value=WORD,
        extractor=WORD, rationale=WORD,
    )  # fmt: skip
    for event in (fact, edge()):
        assert WORD not in body_of(recorded(event), None)
        assert WORD in event.model_dump_json(), "the positive control"
    assert {"quote", "judge", "model", "ref"}.isdisjoint(sayable_fields(ProposalStaged))
    assert {"memory_id", "action", "kind", "probability", "seen"} <= sayable_fields(ProposalStaged)


def test_a_message_to_try_it_out_says_nothing_but_its_webhook():
    said = json.loads(body_of_test(AT, UUID(int=9)))
    assert said == {"type": "webhook.test", "timestamp": "2026-03-01T09:00:00Z", "data": {"id": str(UUID(int=9))}}


def test_what_is_sent_is_of_the_families_that_people_decide_on():
    families = {name.partition(".")[0] for name in sendable_names()}
    assert {"proposal", "pass", "erasure"} <= families
    assert families.isdisjoint({"memory", "token", "webhook", "tenant", "verdict"})
