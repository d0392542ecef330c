"""Events as bytes: they come back whole, hide what is personal, and never read as something else unnoticed.

What the seal covers: every personal field, the key it is under, the tenant, the stream, the version and the event's
name. What it does not cover: the header (actor, cause, correlation, policy, judge and the clear fields), which a
writer with access to the table can change unnoticed, and whose damage makes a sealed part look destroyed. The tests
below say so one by one.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lethelog.domain.events import (
    Event,
    MemoryArchived,
    MemorySuperseded,
    VerdictRecorded,
    event_class,
    event_names,
)
from lethelog.streams import sealing
from lethelog.streams.payloads import (
    Actor,
    ActorKind,
    Envelope,
    Origin,
    UnreadableEvent,
    decode_envelope,
    decode_event,
    encode,
    is_moved_in,
    recorded_first,
    sealed_under,
    split,
)
from lethelog.streams.sealing import SealBroken

SAMPLES = Path(__file__).parent / "event_samples"
REPEATABLE = settings(derandomize=True, deadline=None, database=None)
NAMES = event_names()
TENANT, OTHER_TENANT, STREAM = UUID(int=100), UUID(int=101), UUID(int=2)
KEYS = {UUID(int=n): bytes([n]) * 32 for n in range(1, 20)}
ENVELOPE = Envelope(Actor("agent", UUID(int=7)), cause=UUID(int=8), correlation=UUID(int=9), policy=3, judge="j:1")

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=60)
"""Every script, combining marks, control characters; NUL and halves of surrogate pairs never reach an event."""
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
PERSONAL: dict[str, st.SearchStrategy[Any]] = {
    "tags": st.lists(TEXT, max_size=4).map(tuple),
    "tags_before": st.lists(TEXT, max_size=4).map(tuple),
    "metadata": st.dictionaries(TEXT, JSON, max_size=4),
}


def sample(name: str) -> Event:
    cls = event_class(name)
    assert cls is not None
    return cls.model_validate(json.loads((SAMPLES / f"{name}.{cls.SCHEMA}.json").read_text()))


def personal_fields(event: Event) -> list[str]:
    return sorted([*event.SEALED, *event.SEALED_FOR])


SEALING = [name for name in NAMES if personal_fields(sample(name))]


@st.composite
def events(draw: st.DrawFn) -> Event:
    """Any event, its personal fields replaced by whatever people write; absent now and then."""
    event = sample(draw(st.sampled_from(NAMES)))
    texts = {name: draw(st.none() | PERSONAL.get(name, TEXT)) for name in personal_fields(event)}
    return type(event).model_validate(event.model_dump() | texts)


ENVELOPES = st.builds(
    Envelope,
    actor=st.builds(Actor, st.sampled_from(ActorKind.__args__), st.uuids()),
    cause=st.uuids(),
    correlation=st.uuids(),
    policy=st.none() | st.integers(0, 2**31),
    judge=st.none() | TEXT,
)


def written(event: Event, envelope: Envelope = ENVELOPE, *, stream: UUID = STREAM, version: int = 4) -> bytes:
    return encode(event, envelope, tenant=TENANT, stream=stream, version=version, key_of=KEYS.get)


def read(name: str, body: bytes, **place: Any) -> Event | None:
    said: dict[str, Any] = {"tenant": TENANT, "stream": STREAM, "version": 4, "key_of": KEYS.get}
    return decode_event(name, split(body), **(said | place))


def header_of(body: bytes) -> dict[str, Any]:
    return json.loads(body[5 : 5 + int.from_bytes(body[1:5], "big")])


def with_header(body: bytes, header: dict[str, Any]) -> bytes:
    """The same sealed parts behind another header, as whoever can write to the table could put them."""
    parts = body[5 + int.from_bytes(body[1:5], "big") :]
    said = json.dumps(header, ensure_ascii=False).encode()
    return body[:1] + len(said).to_bytes(4, "big") + said + parts


# --- what comes back -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_event_comes_back_as_it_was(name):
    event = sample(name)
    body = written(event)
    assert read(name, body) == event
    assert decode_envelope(split(body)) == ENVELOPE


@REPEATABLE
@given(events(), ENVELOPES, st.integers(1, 2**62))
def test_text_of_every_script_and_any_envelope_come_back_as_they_were(
    event: Event, envelope: Envelope, version: int
):
    body = written(event, envelope, version=version)
    assert read(event.NAME, body, version=version) == event
    assert decode_envelope(split(body)) == envelope


@REPEATABLE
@given(events())
def test_writing_the_same_event_twice_gives_other_bytes_that_read_the_same(event: Event):
    """A sealed text cannot be recognised by its ciphertext."""
    first, second = written(event), written(event)
    assert read(event.NAME, first) == read(event.NAME, second) == event
    assert (first == second) == (not sealed_under(event, STREAM))


@pytest.mark.parametrize("name", SEALING)
def test_no_personal_field_stands_in_the_stored_bytes(name):
    """F06; the positive control is that the same canaries are read back with the key."""
    event = sample(name)
    canaries = {field: f"zq-{field}-9931" for field in personal_fields(event)}
    fields = {
        field: (canary,) if field.startswith("tags") else {canary: canary} if field == "metadata" else canary
        for field, canary in canaries.items()
    }
    event = type(event).model_validate(event.model_dump() | fields)
    body = written(event)
    opened = read(name, body)
    assert opened is not None
    for field, canary in canaries.items():
        assert canary.encode() not in body, field
        assert canary in str(getattr(opened, field)), field


# --- which key opens what ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_personal_field_that_is_given_is_sealed_under_exactly_one_key(name):
    event = sample(name)
    groups = sealed_under(event, STREAM)
    sealed = [field for fields in groups.values() for field in fields]
    assert sorted(sealed) == [field for field in personal_fields(event) if getattr(event, field) is not None]
    own = [field for field in sealed if field in event.SEALED]
    assert sorted(groups.get(STREAM, [])) == sorted(
        own + [field for field, of in event.SEALED_FOR.items() if getattr(event, of) == STREAM and field in sealed]
    )
    for field, names in event.SEALED_FOR.items():
        assert field not in sealed or field in groups[getattr(event, names)]
    assert {key_id for key_id, _ in split(written(event)).parts} == set(groups)


def test_fields_that_hold_nothing_need_no_key():
    event = MemoryArchived()
    assert sealed_under(event, STREAM) == {}
    body = encode(event, ENVELOPE, tenant=TENANT, stream=STREAM, version=4, key_of=lambda _: None)
    assert read("memory.archived", body, key_of=lambda _: None) == event


def test_a_text_that_names_no_memory_to_seal_it_under_is_refused():
    verdict = sample("verdict.recorded").model_copy(update={"evidence_memory": None})
    with pytest.raises(ValueError, match="nothing can seal it"):
        sealed_under(verdict, STREAM)


def test_a_text_about_two_memories_is_read_in_part_when_one_key_is_destroyed():
    """F45: B's part stays readable when A is erased."""
    verdict = sample("verdict.recorded")
    assert isinstance(verdict, VerdictRecorded) and verdict.evidence_memory is not None
    body = written(verdict)
    without = {verdict.evidence_memory: "quote", verdict.memory_id: "state_digest"}
    for destroyed, field in without.items():
        opened = read(verdict.NAME, body, key_of={k: v for k, v in KEYS.items() if k != destroyed}.get)
        assert opened == verdict.model_copy(update={field: None})


@pytest.mark.parametrize("name", NAMES)
def test_without_keys_exactly_the_personal_fields_are_absent(name):
    event = sample(name)
    opened = read(name, written(event), key_of=lambda _: None)
    assert opened == event.model_copy(update=dict.fromkeys(personal_fields(event)))


@pytest.mark.parametrize("name", SEALING)
def test_nothing_is_written_about_a_memory_whose_key_is_destroyed(name):
    event = sample(name)
    for destroyed in sealed_under(event, STREAM):
        with pytest.raises(UnreadableEvent, match="destroyed"):
            encode(
                event,
                ENVELOPE,
                tenant=TENANT,
                stream=STREAM,
                version=4,
                key_of={k: v for k, v in KEYS.items() if k != destroyed}.get,
            )


# --- what the seal covers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SEALING)
@pytest.mark.parametrize(
    "elsewhere",
    [{"tenant": OTHER_TENANT}, {"stream": UUID(int=3)}, {"version": 5}, {"key_of": lambda _: b"x" * 32}],
    ids=["tenant", "stream", "version", "key"],
)
def test_a_sealed_part_opens_only_where_it_was_written(name, elsewhere):
    with pytest.raises(SealBroken):
        read(name, written(sample(name)), **elsewhere)


def test_a_sealed_part_does_not_open_under_another_events_name():
    """Archived and refuted have the same fields; a reason for the one is none for the other."""
    body = written(MemoryArchived(reason="old"))
    assert read("memory.archived", body) == MemoryArchived(reason="old")
    for name in ("memory.refuted", "memory.released"):
        with pytest.raises(SealBroken):
            read(name, body)


def test_a_sealed_part_does_not_open_when_it_is_said_to_be_under_another_key_of_the_same_bytes():
    """The key's id is authenticated beside the key."""
    same = dict.fromkeys(KEYS, b"k" * 32)
    body = encode(MemoryArchived(reason="old"), ENVELOPE, tenant=TENANT, stream=STREAM, version=4, key_of=same.get)
    header = header_of(body)
    header["k"][0][0] = str(UUID(int=3))
    with pytest.raises(SealBroken):
        read("memory.archived", with_header(body, header), key_of=same.get)


def flipped(body: bytes, begin: int, end: int) -> Iterator[bytes]:
    for at in range(begin, end):
        for bit in range(8):
            yield body[:at] + bytes([body[at] ^ 1 << bit]) + body[at + 1 :]


@pytest.mark.parametrize("name", SEALING)
def test_every_flipped_bit_of_a_sealed_part_is_noticed(name):
    body = written(sample(name))
    begin = 5 + int.from_bytes(body[1:5], "big")
    for damaged in flipped(body, begin, len(body)):
        with pytest.raises(SealBroken):
            read(name, damaged)


@pytest.mark.parametrize("name", ["memory.remembered", "memory.pinned", "verdict.recorded"])
def test_every_flipped_bit_of_format_and_length_is_noticed(name):
    for damaged in flipped(written(sample(name)), 0, 5):
        with pytest.raises(UnreadableEvent):
            split(damaged)


@pytest.mark.parametrize("name", NAMES)
def test_no_flipped_bit_of_the_header_changes_personal_text(name):
    """It may make a part look destroyed or change a clear field, and it may be unreadable; text is never altered."""
    event = sample(name)
    body = written(event)
    for damaged in flipped(body, 5, 5 + int.from_bytes(body[1:5], "big")):
        try:
            opened = read(name, damaged)
        except Exception:  # which errors these are is the next test's matter
            continue
        assert opened is not None
        for field in personal_fields(event):
            assert getattr(opened, field) in (getattr(event, field), None)


def test_a_damaged_header_is_an_unreadable_event_and_no_other_error():
    for name in NAMES:
        body = written(sample(name))
        for damaged in flipped(body, 5, 5 + int.from_bytes(body[1:5], "big")):
            try:
                taken_apart = split(damaged)
                decode_envelope(taken_apart)
                decode_event(name, taken_apart, tenant=TENANT, stream=STREAM, version=4, key_of=KEYS.get)
            except (UnreadableEvent, SealBroken):
                continue


@REPEATABLE
@given(st.binary(max_size=200), st.integers(0, 400))
def test_bytes_that_are_no_body_are_unreadable(noise: bytes, cut: int):
    body = written(sample("memory.remembered"))
    for damaged in (noise, b"\x01" + noise, body[:cut], body + noise[:1] + b"x"):
        if damaged != body:
            with pytest.raises(UnreadableEvent):
                split(damaged)


def test_the_header_is_not_covered_by_the_seal():
    """Stated so that nobody relies on it: the log's own protection (append only, and the hash chain to come) is."""
    body = written(sample("memory.remembered"))
    header = header_of(body)
    header["d"]["scope"] = "elsewhere"
    header["a"][1] = str(UUID(int=1))
    altered = with_header(body, header)
    assert getattr(read("memory.remembered", altered), "scope", None) == "elsewhere"
    assert decode_envelope(split(altered)).actor.id == UUID(int=1)


def test_a_clear_field_never_stands_in_for_a_sealed_one():
    """With its part cut off, forged text in the header would be served as the memory's own words."""
    for name in SEALING:
        event = sample(name)
        body = written(event)
        header = header_of(body)
        header["k"] = []
        header["d"] |= event.model_dump(mode="json", include=set(personal_fields(event)))
        bare = with_header(body[: 5 + int.from_bytes(body[1:5], "big")], header)
        with pytest.raises(UnreadableEvent):
            read(name, bare)


def test_a_payload_of_a_newer_schema_is_not_read_as_the_present_one():
    """Two versions of this program share a log while one replaces the other."""
    for name in NAMES:
        body = written(sample(name))
        header = header_of(body)
        header["s"] = type(sample(name)).SCHEMA + 1
        with pytest.raises(UnreadableEvent):
            read(name, with_header(body, header))


def test_a_payload_of_an_older_schema_is_read_through_its_upcasters():
    """memory.superseded at schema 1 did not say until when the older memory held."""
    body = written(sample("memory.superseded"))
    header = header_of(body)
    assert header["s"] == 2 and header["d"].pop("held_until")
    with pytest.raises(UnreadableEvent):
        read("memory.superseded", with_header(body, header | {"s": 0}))
    event = read("memory.superseded", with_header(body, header | {"s": 1}))
    assert isinstance(event, MemorySuperseded)
    assert event == sample("memory.superseded").model_copy(update={"held_until": None})


def test_an_unknown_name_reads_as_no_event_and_not_as_an_error():
    assert read("memory.evaporated", written(sample("memory.archived"))) is None


# --- the seal itself -----------------------------------------------------------------------------------------------


@REPEATABLE
@given(st.binary(max_size=100), st.binary(max_size=40), st.binary(max_size=40))
def test_a_seal_opens_with_its_key_and_what_it_is_bound_to_and_with_nothing_else(
    text: bytes, bound: bytes, other: bytes
):
    key = b"k" * 32
    sealed = sealing.seal(key, text, bound)
    assert sealing.unseal(key, sealed, bound) == text
    if other != bound:
        with pytest.raises(SealBroken):
            sealing.unseal(key, sealed, other)
    for broken in (b"", sealed[:11], sealed[:-1], sealed + b"x", sealed[1:]):
        with pytest.raises(SealBroken):
            sealing.unseal(key, broken, bound)


@REPEATABLE
@given(st.lists(st.binary(max_size=8), max_size=4), st.lists(st.binary(max_size=8), max_size=4))
def test_two_lists_of_parts_share_a_digest_only_when_they_are_equal(left: list[bytes], right: list[bytes]):
    """("ab", "c") and ("a", "bc") must not collide: claims are found by these digests."""
    assert (sealing.keyed_digest(b"k", *left) == sealing.keyed_digest(b"k", *right)) == (left == right)


@REPEATABLE
@given(
    st.tuples(st.uuids(), st.uuids(), st.integers(0, 2**62), st.sampled_from(NAMES), st.uuids()),
    st.tuples(st.uuids(), st.uuids(), st.integers(0, 2**62), st.sampled_from(NAMES), st.uuids()),
)
def test_no_two_places_share_a_binding(left: Any, right: Any):
    assert (sealing.event_binding(*left) == sealing.event_binding(*right)) == (left == right)


def test_an_event_that_was_moved_in_keeps_where_it_came_from_and_is_told_from_others_without_being_read():
    event = MemoryArchived(reason="old")
    at = datetime(2026, 3, 1, 9, 0, 0, 123456, tzinfo=UTC)
    moved = ENVELOPE._replace(origin=Origin(UUID(int=77), 41, at))
    bodies = [
        encode(event, envelope, tenant=TENANT, stream=STREAM, version=1, key_of=KEYS.get)
        for envelope in (ENVELOPE, moved)
    ]
    assert [decode_envelope(split(body)) for body in bodies] == [ENVELOPE, moved]
    assert [is_moved_in(body) for body in bodies] == [False, True]
    stored = at + timedelta(days=3)
    assert (recorded_first(ENVELOPE, stored), recorded_first(moved, stored)) == (stored, at)
    assert recorded_first(moved, at - timedelta(days=1)) == at - timedelta(days=1), (
        "never later than it was stored"
    )
