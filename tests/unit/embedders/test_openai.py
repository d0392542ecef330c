import gzip
import json
import logging
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lethelog.domain.errors import LethelogError, Misconfigured, Unavailable
from lethelog.projections.embedders import Embedder, floor_for, open_embedder
from lethelog.projections.embedders.openai_wire import Failure, read_answer

from .embedder_contract import EmbedderContract
from .openai_server import (
    Fault,
    OpenAiServer,
    changed,
    drip,
    error_code,
    hang,
    hang_up,
    html,
    raw,
    status,
)

SECRET = "Ms Vantongeren owes 4711 euros"
KEY = "sk-0123456789abcdef"


@pytest.fixture(scope="module", autouse=True)
def no_proxy() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("NO_PROXY", "127.0.0.1")
        yield


@pytest.fixture(scope="module")
def lasting_server() -> Iterator[OpenAiServer]:
    with OpenAiServer() as running:
        yield running


@pytest.fixture
def server() -> Iterator[OpenAiServer]:
    with OpenAiServer() as running:
        yield running


def opened(server: OpenAiServer, **options: Any) -> Embedder:
    defaults: dict[str, Any] = {
        "base_url": server.url,
        "model": "spelling",
        "dimensions": 64,
        "api_key": KEY,
        "backoff": 0.01,
        "timeout": 5,
        "retry_budget": 5,
    }
    return open_embedder("openai", **{**defaults, **options})


@pytest.fixture(scope="module")
def embedder(lasting_server: OpenAiServer) -> Iterator[Embedder]:
    with opened(lasting_server) as embedder:
        yield embedder


@pytest.fixture
def fresh(lasting_server: OpenAiServer) -> Embedder:
    return opened(lasting_server)


class TestOpenAi(EmbedderContract):
    pass


def test_a_request_is_what_the_wire_says(server: OpenAiServer) -> None:
    with opened(server) as embedder:
        embedder.embed(["first", "second"])
    (seen,) = server.seen
    assert seen.path == "/v1/embeddings"
    assert seen.body == {"model": "spelling", "encoding_format": "float", "input": ["first", "second"]}
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert seen.headers["content-type"] == "application/json"


def test_without_a_key_no_key_is_sent(server: OpenAiServer) -> None:
    with opened(server, api_key="") as embedder:
        embedder.embed(["text"])
    assert "authorization" not in server.seen[0].headers


def test_texts_go_in_batches_and_come_back_in_order(server: OpenAiServer) -> None:
    texts = [f"memory number {number}" for number in range(10)]
    with opened(server, batch_size=4) as embedder:
        together = embedder.embed(texts)
    assert [len(seen.body["input"]) for seen in server.seen] == [4, 4, 2]
    with opened(server, batch_size=1) as embedder:
        assert (embedder.embed(texts) == together).all()


def test_a_batch_stays_below_the_bytes_a_request_may_have(server: OpenAiServer) -> None:
    with opened(server, batch_size=2048) as embedder:
        embedder.embed(["ab " * 2_600] * 80)
    sizes = [sum(len(text.encode()) for text in seen.body["input"]) for seen in server.seen]
    assert len(sizes) > 1
    assert max(sizes) <= 256_000


def test_blank_texts_are_not_sent(server: OpenAiServer) -> None:
    with opened(server) as embedder:
        vectors = embedder.embed(["", "word", "  \n"])
    assert [seen.body["input"] for seen in server.seen] == [["word"]]
    assert (vectors[0] == vectors[2]).all()


def test_nothing_to_embed_sends_nothing(server: OpenAiServer) -> None:
    with opened(server) as embedder:
        assert embedder.embed([]).shape == (0, 64)
    assert server.seen == []


def test_long_texts_are_sent_in_windows_and_pooled(server: OpenAiServer) -> None:
    text = " ".join(f"word{number}" for number in range(300))
    with opened(server, window_bytes=500) as embedder:
        vector = embedder.embed([text])[0]
    parts = [part for seen in server.seen for part in seen.body["input"]]
    assert len(parts) > 3
    assert all(len(part.encode()) <= 500 for part in parts)
    assert {word for part in parts for word in part.split()} == set(text.split())
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("model", "dimensions", "asked", "identity"),
    [
        ("text-embedding-3-large", None, None, "text-embedding-3-large-3072@openai+"),
        ("text-embedding-3-large", 1536, 1536, "text-embedding-3-large-1536@openai+"),
        ("text-embedding-ada-002", None, None, "text-embedding-ada-002-1536@openai+"),
        ("nomic-embed-text", 768, None, "nomic-embed-text-768@openai+"),
    ],
)
def test_dimensions_are_asked_for_only_where_the_model_can_give_fewer(
    model: str, dimensions: int | None, asked: int | None, identity: str
) -> None:
    with OpenAiServer(dimensions=dimensions or 3072 if "large" in model else dimensions or 1536) as server:
        with opened(server, model=model, dimensions=dimensions) as embedder:
            embedder.embed(["text"])
            assert embedder.model.startswith(identity)
        assert server.seen[0].body.get("dimensions") == asked


def test_the_identity_moves_with_revision_and_window_not_with_the_address(server: OpenAiServer) -> None:
    with opened(server) as one, opened(server, base_url="https://elsewhere.example/v1/") as same:
        assert one.model == same.model == "spelling-64@openai+windows1-bytes8000.chars1"
    with opened(server, revision="b") as revised, opened(server, window_bytes=500) as narrow:
        assert len({one.model, revised.model, narrow.model}) == 3


def test_the_floor_of_the_source_belongs_to_one_model_only(server: OpenAiServer) -> None:
    with opened(server, model="text-embedding-3-large", dimensions=1536) as large:
        assert floor_for(large.model) == 0.82
    with opened(server, model="text-embedding-3-small", dimensions=512) as small:
        assert floor_for(small.model) == 0.0


@pytest.mark.parametrize(
    "fault",
    [
        status(500),
        status(503),
        status(529),
        status(429),
        status(429, retry_after="0"),
        status(408),
        html(502),
        hang_up,
    ],
)
def test_a_passing_fault_is_tried_again(server: OpenAiServer, fault: Fault) -> None:
    server.fail_next(fault, fault)
    with opened(server) as embedder:
        recovered = embedder.embed(["text"])
        assert (recovered == embedder.embed(["text"])).all()
    assert len(server.seen) == 4


def test_a_retry_after_is_obeyed(server: OpenAiServer) -> None:
    server.fail_next(status(429, retry_after="0.4"))
    started = time.monotonic()
    with opened(server) as embedder:
        embedder.embed(["text"])
    assert time.monotonic() - started >= 0.4


@pytest.mark.parametrize(
    "header",
    [
        "3600",
        pytest.param(format_datetime(datetime.now(UTC) + timedelta(hours=1)), id="in an hour"),
        "1e300",
        "86400.5",
    ],
)
def test_a_long_retry_after_is_obeyed_up_to_the_cap(server: OpenAiServer, header: str) -> None:
    server.fail_next(status(503, retry_after=header))
    started = time.monotonic()
    with opened(server, retry_after_cap=0.2) as embedder:
        embedder.embed(["text"])
    assert 0.2 <= time.monotonic() - started < 60


@pytest.mark.parametrize("header", ["soon", "", "-5", "nan", format_datetime(datetime(2001, 1, 1, tzinfo=UTC))])
def test_a_retry_after_that_says_nothing_delays_nothing(server: OpenAiServer, header: str) -> None:
    server.fail_next(status(503, retry_after=header))
    with opened(server) as embedder:
        embedder.embed(["text"])
    assert len(server.seen) == 2


def test_a_pause_that_exceeds_the_budget_is_not_begun(server: OpenAiServer) -> None:
    server.fail_next(status(503, retry_after="10"))
    started = time.monotonic()
    with opened(server, retry_budget=1) as embedder, pytest.raises(Unavailable) as error:
        embedder.embed(["text"])
    assert time.monotonic() - started < 10
    assert error.value.details["retry_after"] == 10


def test_failures_end_when_their_time_is_spent(server: OpenAiServer) -> None:
    server.fail_next(*[status(503)] * 100)
    # The last try may be cut short by the end of the budget instead of being answered.
    with opened(server, retry_budget=1) as embedder, pytest.raises(Unavailable, match=r"HTTP 503|did not finish"):
        embedder.embed(["text"])
    assert 2 <= len(server.seen) < 40


def test_time_that_succeeds_is_not_counted_against_the_budget(server: OpenAiServer) -> None:
    def slowly(exchange: Any) -> None:
        time.sleep(0.2)
        exchange.send(200, json.dumps(exchange.right_answer()).encode())

    server.fail_next(slowly, slowly, slowly, status(500))
    with opened(server, batch_size=1, retry_budget=0.4) as embedder:
        assert embedder.embed(["a", "b", "c", "d"]).shape == (4, 64)


@pytest.mark.parametrize("fault", [hang, drip])
def test_a_server_that_does_not_come_to_an_end_is_given_up(server: OpenAiServer, fault: Fault) -> None:
    server.fail_next(fault, fault)
    started = time.monotonic()
    with (
        opened(server, timeout=0.3, retry_budget=0.5) as embedder,
        pytest.raises(Unavailable, match=r"within 0\.\d+ s"),
    ):
        embedder.embed(["text"])
    assert time.monotonic() - started < 3


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with OpenAiServer() as gone:
        url = gone.url
    with (
        open_embedder("openai", base_url=url, model="m", dimensions=4, retry_budget=0.2, backoff=0.05) as embedder,
        pytest.raises(Unavailable, match="cannot be reached"),
    ):
        embedder.embed([SECRET])


def test_close_ends_a_pause_at_once(server: OpenAiServer) -> None:
    server.fail_next(status(503, retry_after="20"))
    embedder = opened(server, retry_budget=60)
    threading.Timer(0.3, embedder.close).start()
    started = time.monotonic()
    with pytest.raises(Unavailable, match="closed"):
        embedder.embed(["text"])
    assert time.monotonic() - started < 20


WRONG: dict[str, tuple[Fault, type[LethelogError], str]] = {
    "too few vectors": (changed(lambda right: right["data"].pop()), Unavailable, "sent 1 vectors for 2 texts"),
    "too many": (changed(lambda right: right["data"].append({})), Unavailable, "sent 3 vectors"),
    "one index twice": (changed(lambda right: right["data"][0].update(index=0)), Unavailable, "index"),
    "an index outside": (changed(lambda right: right["data"][0].update(index=2)), Unavailable, "index"),
    "an index that is true": (changed(lambda right: right["data"][0].update(index=True)), Unavailable, "index"),
    "no index": (changed(lambda right: right["data"][0].pop("index")), Unavailable, "index"),
    "NaN": (changed(lambda right: right["data"][0]["embedding"].append(float("nan"))), Unavailable, "finite"),
    "infinity": (changed(lambda right: right["data"][1].update(embedding=[1e999] * 64)), Unavailable, "finite"),
    "null": (changed(lambda right: right["data"][0].update(embedding=[None] * 64)), Unavailable, "finite"),
    "a huge integer": (changed(lambda right: right["data"][0].update(embedding=[10**400])), Unavailable, "finite"),
    "only zeros": (changed(lambda right: right["data"][0].update(embedding=[0.0] * 64)), Unavailable, "zero"),
    "strings": (changed(lambda right: right["data"][0].update(embedding=["1"] * 64)), Unavailable, "finite"),
    "base64": (changed(lambda right: right["data"][0].update(embedding="AAAA")), Unavailable, "finite"),
    "no data": (changed(lambda right: right.pop("data")), Unavailable, "without vectors"),
    "data that is no list": (changed(lambda right: right.update(data={})), Unavailable, "without vectors"),
    "an error as a success": (error_code(200, "model_not_found"), Unavailable, "model_not_found"),
    "a list": (raw(b"[1, 2]"), Unavailable, "without vectors"),
    "cut JSON": (raw(b'{"data": ['), Unavailable, "without vectors"),
    "nested JSON": (raw(b"[" * 60_000), Unavailable, "without vectors"),
    "not compressed": (raw(b"plain", content_encoding="gzip"), Unavailable, "decompressed"),
    "a flood": (raw(b" " * 200_000), Unavailable, "more than"),
    "a compressed flood": (
        raw(gzip.compress(b" " * 9_000_000), content_encoding="gzip"),
        Unavailable,
        "more than",
    ),
    "other dimensions": (
        changed(lambda right: [row.update(embedding=[1.0] * 65) for row in right["data"]]),
        Misconfigured,
        "65 dimensions, 64 are expected",
    ),
    "a web page": (html(), Misconfigured, "other than JSON; check base_url"),
    "a redirect": (status(307, location="http://127.0.0.1:9/v1/embeddings"), Misconfigured, "redirects"),
    "an unknown key": (status(401), Misconfigured, "api_key"),
    "a forbidden model": (status(403), Misconfigured, "api_key"),
    "no such path": (status(404), Misconfigured, "base_url and model"),
    "a bad request": (status(400), Misconfigured, "window_bytes"),
    "too long": (error_code(400, "context_length_exceeded"), Misconfigured, "context_length_exceeded"),
    "a teapot": (status(418), Misconfigured, "HTTP 418"),
    "no quota": (error_code(429, "insufficient_quota"), Unavailable, "insufficient_quota"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_is_named_once_and_tells_nothing(
    server: OpenAiServer, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    fault, kind, said = WRONG[name]
    server.fail_next(fault)
    with (
        caplog.at_level(logging.DEBUG),
        opened(server) as embedder,
        pytest.raises(kind, match=said) as error,
    ):
        embedder.embed([SECRET, f"{SECRET} again"])
    assert len(server.seen) == 1
    assert_silent(error.value, caplog.text, repr(embedder))


@pytest.mark.parametrize("fault", [status(500), hang_up, html(503), hang])
def test_giving_up_tells_nothing_either(
    server: OpenAiServer, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    server.fail_next(*[fault] * 50)
    with (
        caplog.at_level(logging.DEBUG),
        opened(server, timeout=0.2, retry_budget=0.3) as embedder,
        pytest.raises(Unavailable) as error,
    ):
        embedder.embed([SECRET])
    assert_silent(error.value, caplog.text, repr(embedder))


def assert_silent(error: LethelogError, *others: str) -> None:
    # An exception behind the error would hold the request, and so the texts and the key.
    assert error.__cause__ is None
    assert error.__context__ is None
    shown = [str(error), repr(error), json.dumps(error.as_dict()), *traceback.format_exception(error), *others]
    for text in shown:
        assert "Vantongeren" not in text
        assert KEY not in text


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"base_url": "ftp://host/v1"}, "base_url"),
        ({"base_url": "api.openai.com/v1"}, "base_url"),
        ({"base_url": "https://"}, "base_url"),
        ({"base_url": "http://[::1/v1"}, "base_url"),
        ({"base_url": "https://user:hunter2@host/v1"}, "user and password"),
        ({"base_url": "https://host/v1?api-version=1"}, "base_url"),
        ({"model": " "}, "model"),
        ({"dimensions": None}, "dimensions"),
        ({"dimensions": 0}, "dimensions"),
        ({"batch_size": 0}, "batch_size"),
        ({"timeout": float("inf")}, "timeout"),
        ({"retry_budget": -1}, "retry_budget"),
        ({"backoff": 0}, "backoff"),
        ({"retry_after_cap": float("nan")}, "retry_after_cap"),
        ({"window_bytes": 10}, "window_bytes"),
        ({"api_key": "sk-1234\nX-Other: 1"}, "api_key"),
        ({"api_key": "sk-é"}, "api_key"),
    ],
)
def test_settings_that_cannot_be_are_named(options: dict[str, Any], problem: str) -> None:
    valid = {"base_url": "http://127.0.0.1:9/v1", "model": "m", "dimensions": 8}
    with pytest.raises(Misconfigured, match=problem) as error:
        open_embedder("openai", **{**valid, **options})
    assert "hunter2" not in str(error.value)
    assert "sk-" not in str(error.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["data", "index", "embedding"]), inner)
    ),
    max_leaves=12,
)


@given(answer=json_values, status_code=st.sampled_from([200, 200, 200, 400, 429, 500]))
def test_any_json_is_read_as_vectors_or_as_a_failure(answer: object, status_code: int) -> None:
    read = read_answer("http://server", status_code, {}, json.dumps(answer).encode(), 2, 3)
    if not isinstance(read, Failure):
        assert [vector.shape for vector in read] == [(3,), (3,)]


@given(body=st.binary(max_size=60), header=st.text(max_size=30))
def test_any_bytes_are_read_as_vectors_or_as_a_failure(body: bytes, header: str) -> None:
    make: Callable[[int], object] = lambda code: read_answer("http://s", code, {"retry-after": header}, body, 1, 1)  # noqa: E731
    assert isinstance(make(200), Failure)
    assert isinstance(make(503), Failure)
