"""The chat format: what is sent, and what a reply may say. Whatever is no answer gives no fact (F34)."""

import json
from typing import Any

import pytest
from lethelog.domain.errors import Misconfigured
from lethelog.domain.extraction import EXTRACTOR, ExtractionRequest
from lethelog.handlers.extracting.chat import SCHEMA, decode_reply, encode_request
from lethelog.handlers.extracting.chat_extractor import identity_of
from lethelog.handlers.extracting.settings import ExtractorSettings
from openai.types.chat import ChatCompletion
from pydantic import SecretStr

from ...chat_server import completion, fact, facts

TEXTS = ("Ada", "Ada moved to Porto")
PORTO = fact("Ada", "lives in", "Porto", "moved to Porto")
KEY = SecretStr("sk-hunter2")


def settings(**changes: Any) -> ExtractorSettings:
    fields: dict[str, Any] = {"base_url": "http://127.0.0.1:9/v1", "model": "told-1", "api_key": KEY}
    return ExtractorSettings(**{**fields, **changes})


def test_the_text_stands_in_the_user_s_message_alone_and_the_answer_is_held_to_a_schema():
    request = ExtractionRequest(texts=TEXTS, state="the block")
    body = json.loads(encode_request(request, model="told-1", extra_body={"temperature": 0}))
    assert [one["role"] for one in body["messages"]] == ["system", "user"]
    assert body["messages"] == [
        {"role": "system", "content": request.instructions},
        {"role": "user", "content": "the block"},
    ]
    assert (body["model"], body["temperature"], body["stream"]) == ("told-1", 0, False)
    held = body["response_format"]["json_schema"]
    assert held["strict"] is True and held["schema"] == SCHEMA
    item = held["schema"]["properties"]["facts"]["items"]
    assert set(item["required"]) == set(item["properties"]) == set(PORTO)


def test_a_sound_reply_gives_its_facts_and_what_it_cost():
    body = json.dumps(facts(PORTO)).encode()
    reply = decode_reply(body, TEXTS)
    assert reply.outcome == "read" and [one.value for one in reply.taken.facts] == ["Porto"]
    assert (reply.model, reply.input_tokens, reply.output_tokens) == ("told-2026-10-01", 120, 30)
    assert (reply.cost_usd, reply.request_id) == (0.0001, "chatcmpl-17")
    # The reply of these tests is one of the format.
    parsed = ChatCompletion.model_validate_json(json.dumps(facts(PORTO) | {"created": 1, "usage": None}).encode())
    assert parsed.choices[0].message.content is not None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b'{"choices": []}',
        b'{"choices": {}}',
        b'{"choices": [7]}',
        b'{"a": NaN}',
        b'{"choices": [], "choices": []}',
        json.dumps(completion("```json\n" + json.dumps({"facts": [PORTO]}) + "\n```")).encode(),
        json.dumps(completion(json.dumps({"facts": [PORTO]}) + " That is all.")).encode(),
        json.dumps(completion({"facts": [PORTO], "note": "more"})).encode(),
        json.dumps(completion({"facts": {"0": PORTO}})).encode(),
        json.dumps(completion([PORTO])).encode(),
        json.dumps(completion("")).encode(),
        json.dumps(completion(None)).encode(),
        json.dumps(completion('{"facts": [}')).encode(),
        json.dumps(completion({"facts": [PORTO]}, finish_reason="length")).encode(),
    ],
)
def test_whatever_is_no_answer_gives_no_fact(body: bytes):
    reply = decode_reply(body, TEXTS)
    assert reply.outcome == "malformed" and reply.taken.facts == ()


@pytest.mark.parametrize(
    "reply",
    [
        completion(None, message={"role": "assistant", "content": None, "refusal": "I cannot help with that."}),
        completion({"facts": [PORTO]}, finish_reason="content_filter"),
    ],
)
def test_a_refusal_is_told_from_an_empty_answer(reply: dict[str, Any]):
    decoded = decode_reply(json.dumps(reply).encode(), TEXTS)
    assert decoded.outcome == "refused" and decoded.taken.facts == ()
    assert decode_reply(json.dumps(facts()).encode(), TEXTS).outcome == "read"


def test_a_model_that_names_itself_by_no_id_is_not_repeated():
    reply = facts(PORTO) | {"model": "ignore \n all"}
    assert decode_reply(json.dumps(reply).encode(), TEXTS).model == "(an unreadable id)"


@pytest.mark.parametrize(
    ("changes", "setting"),
    [
        ({"base_url": ""}, "LETHELOG_EXTRACTOR_URL"),
        ({"base_url": "https://me:hunter2@api.openai.com/v1"}, "LETHELOG_EXTRACTOR_URL"),
        ({"base_url": "http://elsewhere.example.com/v1"}, "LETHELOG_EXTRACTOR_URL"),
        ({"model": ""}, "LETHELOG_EXTRACTOR_MODEL"),
        ({"model": "a b"}, "LETHELOG_EXTRACTOR_MODEL"),
        ({"base_url": "https://api.openai.com/v1", "api_key": None}, "LETHELOG_EXTRACTOR_KEY"),
        ({"path": "chat"}, "LETHELOG_EXTRACTOR_PATH"),
        ({"extra_body": {"messages": []}}, "LETHELOG_EXTRACTOR_EXTRA_BODY"),
        ({"extra_headers": {"Authorization": "Bearer hunter2"}}, "LETHELOG_EXTRACTOR_HEADERS"),
        ({"timeout": 0}, "LETHELOG_EXTRACTOR_TIMEOUT"),
        ({"max_attempts": 11}, "LETHELOG_EXTRACTOR_ATTEMPTS"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_by_its_name(changes: dict[str, Any], setting: str):
    with pytest.raises(Misconfigured) as refused:
        settings(**changes)
    assert refused.value.details["setting"] == setting and "hunter2" not in repr(refused.value.as_dict())


def test_the_identity_moves_with_whatever_could_change_an_answer():
    identity = identity_of(settings())
    assert identity.startswith(f"{EXTRACTOR}127.0.0.1:9:told-1:") and " " not in identity
    moved = [
        {"model": "told-2"},
        {"extra_body": {"temperature": 0}},
        {"path": "/chat"},
        {"base_url": "http://[::1]:9"},
    ]
    assert len({identity, *(identity_of(settings(**one)) for one in moved)}) == 5
    still = [{"api_key": None}, {"timeout": 1.0}, {"extra_headers": {"X-Title": "t"}}]
    assert {identity_of(settings(**one)) for one in still} == {identity}
