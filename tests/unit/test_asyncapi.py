"""The AsyncAPI document is the one that is committed, and says of every event what is in it."""

import json
from pathlib import Path

from lethelog.domain.events import event_names
from lethelog.streams.asyncapi import document

COMMITTED = Path(__file__).parents[2] / "docs" / "reference" / "asyncapi.json"


def test_the_committed_document_is_what_the_events_say():
    assert json.loads(COMMITTED.read_text()) == json.loads(json.dumps(document())), (
        "events or messages changed: run python -m lethelog.streams.asyncapi > docs/reference/asyncapi.json"
    )


def test_every_event_has_its_channel_with_tenant_and_shard():
    channels = document()["channels"]
    assert sorted(channels) == list(event_names())
    assert channels["memory.remembered"]["address"] == "lethelog.events.{tenant}.{shard}.memory.remembered"
    assert set(channels["memory.remembered"]["parameters"]) == {"tenant", "shard"}


def test_sealed_fields_are_no_clear_fields():
    clear = document()["components"]["schemas"]["MemoryRememberedClear"]
    assert "memory_type" in clear["properties"]
    assert not {"content", "topic", "tags", "metadata"} & set(clear["properties"])
    assert clear["description"] == "Sealed in the body: content, metadata, tags, topic."


def test_every_reference_leads_somewhere():
    made = document()

    def references(part: object) -> list[str]:
        if isinstance(part, dict):
            return [
                ref for key, value in part.items() for ref in ([value] if key == "$ref" else references(value))
            ]
        return [ref for value in part for ref in references(value)] if isinstance(part, list) else []

    for reference in references(made):
        found = made
        for step in reference.removeprefix("#/").split("/"):
            assert step in found, reference
            found = found[step]
