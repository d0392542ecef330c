"""The System One judge against real peers over real sockets.

The peer is the conformance suite's own server: it speaks the protocol exactly, and breaks one requirement at a
time on demand. `FAULTS` says for each of its faults what the judge must make of it; never an unsound answer.
"""

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx2
import pytest
from jevcompat import mock
from lethelog.domain.errors import Misconfigured
from lethelog.domain.judging import Answer, DecisionResult, Item, Judge, JudgeRejected, JudgeUnavailable, NoVerdict
from lethelog.handlers.judges import SystemOneSettings, open_judge
from lethelog.handlers.judges.systemone import decode_reply, encode_request, questions_of
from lethelog.streams.ending import end
from pydantic import SecretStr
from typesafe_sdk import Choice, ChoiceAnswer, SystemOneResponse, TypeSafeClient

from ..unit.judges.judge_contract import (
    JudgeContract,
    assert_sound,
    every_form,
    pair,
    request_of,
    resolution_request,
    single,
)

KEY = "sk-integration"
PEER_MODEL = "jevcompat-mock-0.1"
"""The peer answers under this id, whatever it was asked for."""

RIGHT = "right"
REJECTED = "rejected"

FAULTS: dict[str, str] = {
    # The call cannot be made at all.
    "wrong-route": REJECTED,
    "auth-rejects-header": RIGHT,  # Without a key none is sent; with one it is refused, tested below.
    # A reply that is no strict JSON.
    "xssi-200": "malformed_reply",
    "nan": "malformed_reply",
    # Answers that break the rule of judges.md 4.4.
    "choice-sum": "probabilities_do_not_sum_to_one",
    "choice-second": "choice_is_not_the_most_probable",
    "first-question-only": "answer_missing",
    # The model looks at what it must not see, so the two orders can disagree: sound, but not the clean answer.
    "id-leaks": "sound",
    "order-leaks": "sound",
    "batch-leaks": "sound",
    # Off, but nothing we read: extra answers and fields, confidence, usage, content type, other question types,
    # requests we do not send.
    **dict.fromkeys(
        [
            "accept-boolean",
            "accept-map-score",
            "auth-invalid-403-text",
            "auth-plain",
            "auth-x-api-key",
            "boolean-type",
            "cap-5-levels",
            "cap-64",
            "choice-key-case",  # Every option key is lower case already.
            "choice-no-confidence",
            "confidence-margin",
            "confidence-over",
            "error-flat",
            "extra-answer",
            "float-usage",
            "forbid-extra",
            "legend-1-based",
            "models-404",
            "nfd-keys",  # Every option key is ASCII.
            "no-null-description",
            "no-usage",
            "noul-needs-instructions",
            "noul-range",
            "noul-two-sided",
            "plain-content-type",
            "reject-array-state",
            "reject-jev-latest",
            "score-argmax",
            "score-keys-1-based",
            "score-no-legend",
            "score-sum",
            "strict-ids",
            "string-only-text",
            "text-errors",
            "unprefixed-extra",
            "validation-400",
            "500-on-unknown-type",
        ],
        RIGHT,
    ),
}


@contextmanager
def peer(**config: Any) -> Iterator[str]:
    running = mock.Running(mock.MockConfig(**config))
    # Its own thread looks only twice a second whether it should stop, which is most of these tests' time.
    running.thread = threading.Thread(target=running.server.serve_forever, args=(0.01,), daemon=True)
    with running:
        yield running.url


def settings(url: str, **changes: Any) -> SystemOneSettings:
    fields: dict[str, Any] = {"base_url": url, "model": "jev-1.13.0", "answers_as": (PEER_MODEL,)}
    return SystemOneSettings(**{**fields, **changes})


async def decide(url: str, items: list[Item] | None = None, **changes: Any) -> DecisionResult:
    chosen = items or [pair(0)]
    judge = open_judge("systemone", systemone=settings(url, items_per_call=len(chosen), **changes))
    try:
        result = await judge.decide(request_of(*chosen))
    finally:
        await judge.close()
    assert_sound(result, chosen)
    return result


def clean_answer(items: list[Item], item: Item) -> Answer:
    """What the peer's model says, asked directly. It looks neither at ids nor at orders."""
    request = request_of(*items)
    question = {"type": "choice", "instructions": request.instructions(item.ref), "criteria": dict(item.options)}
    told = mock.answer(mock.MockConfig(), request.state, item.ref, question, 0, 1)
    return Answer(told["choice"], told["probabilities"])


def assert_right(result: DecisionResult, items: list[Item]) -> None:
    for item in items:
        got, clean = result.answers[item.ref], clean_answer(items, item)
        assert isinstance(got, Answer), got
        assert got.choice == clean.choice
        assert got.probabilities == pytest.approx(dict(clean.probabilities))


class TestContractOneByOne(JudgeContract):
    @pytest.fixture
    async def judge(self) -> AsyncIterator[Judge]:
        with peer(key=KEY) as url:
            judge = open_judge("systemone", systemone=settings(url, api_key=SecretStr(KEY)))
            yield judge
            await judge.close()


class TestContractInBatches(JudgeContract):
    @pytest.fixture
    async def judge(self) -> AsyncIterator[Judge]:
        with peer() as url:
            judge = open_judge("systemone", systemone=settings(url, items_per_call=12))
            yield judge
            await judge.close()


def test_the_table_covers_every_fault_of_the_peer() -> None:
    assert FAULTS.keys() == mock.FAULTS.keys()
    assert len(FAULTS) == 47


@pytest.mark.parametrize("fault", sorted(mock.FAULTS))
async def test_faults(fault: str) -> None:
    items = [pair(0), single(0, neighbours=3), single(2, memory_type="blocker"), pair(1, pinned=True)]
    expected = FAULTS[fault]
    with peer(faults=frozenset({fault})) as url:
        if expected == REJECTED:
            with pytest.raises(JudgeRejected):
                await decide(url, items)
            return
        result = await decide(url, items)
    if expected == RIGHT:
        assert_right(result, items)
    elif expected != "sound":
        reasons = {answer.reason for answer in result.answers.values() if isinstance(answer, NoVerdict)}
        assert reasons == {expected}
        assert not any(isinstance(answer, Answer) for answer in result.answers.values())


async def test_a_model_that_looks_at_the_order_gives_no_action_it_did_not_give_in_both() -> None:
    """Over many items, the two orders disagree often, and then only a keep or no verdict is left."""
    items: list[Item] = [pair(i) for i in range(20)]
    with peer(faults=frozenset({"order-leaks"})) as url:
        permuted = await decide(url, items)
    reasons = [answer.reason for answer in permuted.answers.values() if isinstance(answer, NoVerdict)]
    assert "order_sensitive" in reasons
    assert set(reasons) == {"order_sensitive"}


async def test_every_form_of_item_is_answered_right() -> None:
    items = every_form()
    with peer() as url:
        result = await decide(url, items)
    asked = [item for item in items if len(item.options) > 1]
    for item in asked:
        got, clean = result.answers[item.ref], clean_answer(items, item)
        assert isinstance(got, Answer)
        assert got.probabilities == pytest.approx(dict(clean.probabilities))
    assert result.model == PEER_MODEL
    assert result.input_tokens > 0
    assert result.output_tokens == 2 * 2 * len(asked)
    assert result.request_id == "req_mock"
    assert result.attempts == 1


async def test_without_permutation_each_item_is_asked_once() -> None:
    items: list[Item] = [pair(0), pair(1)]
    with peer() as url:
        result = await decide(url, items, permute=False)
    assert_right(result, items)
    assert result.output_tokens == 2 * 2


async def test_whether_a_commitment_is_done_is_asked_in_both_orders_and_answered() -> None:
    request = resolution_request()
    with peer() as url:
        judge = open_judge("systemone", systemone=settings(url))
        result = await judge.decide_resolution(request)
        await judge.close()
    question = {"type": "choice", "instructions": request.instructions("c0"), "criteria": request.questions["c0"]}
    clean = mock.answer(mock.MockConfig(), request.state, "c0", question, 0, 1)
    answer = result.answers["c0"]
    assert isinstance(answer, Answer) and answer.probabilities == pytest.approx(clean["probabilities"])
    assert (result.model, result.output_tokens, result.attempts) == (PEER_MODEL, 2 * 2, 1)


class TestKeys:
    async def test_the_right_key_is_accepted(self) -> None:
        with peer(key=KEY) as url:
            assert_right(await decide(url, api_key=SecretStr(KEY)), [pair(0)])

    @pytest.mark.parametrize(
        ("fault", "given", "status"),
        [
            (None, "sk-wrong", 401),
            (None, None, 403),
            ("auth-plain", None, 401),
            ("auth-invalid-403-text", "sk-wrong", 401),
            ("auth-x-api-key", KEY, 403),
            ("text-errors", "sk-wrong", 401),
        ],
    )
    async def test_a_refused_key_is_rejected_without_showing_it(
        self, fault: str | None, given: str | None, status: int
    ) -> None:
        key = SecretStr(given) if given else None
        with (
            peer(key=KEY, faults=frozenset({fault} if fault else ())) as url,
            pytest.raises(JudgeRejected) as caught,
        ):
            await decide(url, api_key=key)
        assert caught.value.details["status"] == status
        assert "LETHELOG_JUDGE_KEY" in caught.value.message
        assert "sk-" not in repr(caught.value.as_dict())

    async def test_a_server_that_takes_no_key_says_so(self) -> None:
        with peer(faults=frozenset({"auth-rejects-header"})) as url, pytest.raises(JudgeRejected) as caught:
            await decide(url, api_key=SecretStr(KEY))
        assert caught.value.details == {"status": 401, "error_type": "authentication_error"}

    async def test_a_key_may_travel_in_a_header_of_the_server_s_own(self) -> None:
        with peer(key=KEY, faults=frozenset({"auth-x-api-key"})) as url:
            assert_right(await decide(url, extra_headers={"x-api-key": KEY}), [pair(0)])


class TestModels:
    @pytest.mark.parametrize(
        ("fault", "model", "status", "kind"),
        [
            (None, "jev-1.14.0", 400, "api_usage_error"),
            ("error-flat", "jev-1.14.0", 400, None),
            ("text-errors", "jev-1.14.0", 400, None),
            ("reject-jev-latest", "jev-latest", 404, "not_found"),
        ],
    )
    async def test_an_unknown_model_is_rejected(
        self, fault: str | None, model: str, status: int, kind: str | None
    ) -> None:
        with peer(faults=frozenset({fault} if fault else ())) as url, pytest.raises(JudgeRejected) as caught:
            await decide(url, model=model, allow_unpinned=True)
        assert caught.value.details == {"status": status, "error_type": kind}

    async def test_another_model_than_the_pinned_one_is_rejected_by_both_names(self) -> None:
        with peer() as url, pytest.raises(JudgeRejected) as caught:
            await decide(url, answers_as=())
        assert "jev-1.13.0" in caught.value.message
        assert PEER_MODEL in caught.value.message

    async def test_an_unpinned_model_needs_permission(self) -> None:
        with peer() as url:
            with pytest.raises(Misconfigured):
                await decide(url, model="jev-latest")
            assert (await decide(url, model="jev-latest", allow_unpinned=True)).model == PEER_MODEL

    @pytest.mark.parametrize("fault", [None, "validation-400"])
    async def test_a_request_the_server_finds_invalid_is_rejected(self, fault: str | None) -> None:
        with (
            peer(faults=frozenset({"forbid-extra", *([fault] if fault else [])})) as url,
            pytest.raises(JudgeRejected) as caught,
        ):
            await decide(url, extra_body={"provider": {"data_collection": "deny"}})
        assert caught.value.details["status"] == (400 if fault else 422)


class TestBusy:
    async def test_a_busy_server_is_asked_again_when_it_says(self) -> None:
        with peer(busy_every=2) as url:
            assert (await decide(url)).attempts == 1
            second = await decide(url)
        assert second.attempts == 2
        assert_right(second, [pair(0)])

    async def test_a_server_that_stays_busy_is_unavailable(self) -> None:
        with peer(busy_every=1) as url, pytest.raises(JudgeUnavailable) as caught:
            await decide(url, max_attempts=4)
        assert caught.value.details == {"status": 429, "fault": "status 429", "attempts": 4, "retry_after": 0.0}


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def socket_server(handle: Handler) -> AsyncIterator[str]:
    """A server of bare sockets, for what no HTTP server would do. Handlers end when the block does."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handle(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.get_running_loop().create_task(connected(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.close()
        for task in tasks:
            await end(task)


async def hear_request(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
    )
    await reader.readexactly(length)


def raw_server(*chunks: bytes, then_wait: bool = False) -> Handler:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hear_request(reader)
        for chunk in chunks:
            writer.write(chunk)
        await writer.drain()
        if then_wait:
            await asyncio.Event().wait()

    return handle


class TestBrokenServers:
    async def test_one_that_never_answers_costs_the_deadline_and_no_more(self) -> None:
        async with socket_server(raw_server(then_wait=True)) as url:
            began = asyncio.get_running_loop().time()
            with pytest.raises(JudgeUnavailable) as caught:
                await decide(url, timeout=0.1, deadline=0.3, max_attempts=5)
            assert asyncio.get_running_loop().time() - began < 2
        assert caught.value.details["fault"] == "timeout"
        assert caught.value.details["status"] is None

    async def test_one_that_stops_in_the_middle_is_timed_out_too(self) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"
        async with socket_server(raw_server(head, then_wait=True)) as url:
            with pytest.raises(JudgeUnavailable) as caught:
                await decide(url, timeout=0.1, max_attempts=1)
        assert caught.value.details["fault"] == "timeout"

    async def test_one_that_trickles_does_not_outlast_the_timeout(self) -> None:
        async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await hear_request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
            while True:
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.01)

        async with socket_server(trickle) as url:
            with pytest.raises(JudgeUnavailable) as caught:
                await decide(url, timeout=0.2, max_attempts=1)
        assert caught.value.details["fault"] == "timeout"

    async def test_nobody_listening(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with pytest.raises(JudgeUnavailable) as caught:
            await decide(f"http://127.0.0.1:{port}", max_attempts=1)
        assert caught.value.details["fault"] == "ConnectError"

    @pytest.mark.parametrize(
        "sent",
        [
            b"",
            b"SSH-2.0-OpenSSH_9.6\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{}",
            b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n{}",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}",
            b"HTTP/1.1 999 \xff\xfe\r\n\x00: \x00\r\n\r\n",
            b"\x00" * 100_000,
        ],
        ids=["hangs up", "not http", "cut short", "bad length", "bad chunk", "bad head", "zeros"],
    )
    async def test_no_http_at_all(self, sent: bytes) -> None:
        async with socket_server(raw_server(sent)) as url:
            with pytest.raises(JudgeUnavailable):
                await decide(url, max_attempts=1)

    async def test_a_reply_without_end_is_left_after_its_bound(self) -> None:
        async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await hear_request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
            while True:
                writer.write(b"[" * 10_000)
                await writer.drain()

        async with socket_server(flood) as url:
            result = await decide(url, max_reply_bytes=50_000)
        assert result.answers == {"p0": NoVerdict("reply_too_large")}

    async def test_a_login_page_with_200_answers_nothing(self) -> None:
        page = b"<!doctype html><title>Sign in</title>"
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(page)
        async with socket_server(raw_server(head, page)) as url:
            assert (await decide(url)).answers == {"p0": NoVerdict("malformed_reply")}

    async def test_a_cancelled_decision_stays_cancelled(self) -> None:
        async with socket_server(raw_server(then_wait=True)) as url:
            task = asyncio.create_task(decide(url))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task


async def test_many_decisions_share_one_judge() -> None:
    with peer() as url:
        judge = open_judge("systemone", systemone=settings(url))
        items = [pair(i) for i in range(30)]
        results = await asyncio.gather(*(judge.decide(request_of(item)) for item in items))
        await judge.close()
    for item, result in zip(items, results, strict=True):
        assert_right(result, [item])


class TestVendorClient:
    """The vendor's own client as a second writer and reader of the same bytes."""

    def test_it_writes_the_same_request_and_reads_the_same_reply(self) -> None:
        items: list[Item] = [pair(0), single(1, neighbours=2)]
        request = request_of(*items)
        asked = questions_of(items, permute=True)
        ours = encode_request(request, asked, model="jev-1.13.0", extra_body={})
        seen: list[bytes] = []

        class Recording(httpx2.HTTPTransport):
            def handle_request(self, request: httpx2.Request) -> httpx2.Response:
                seen.append(request.read())
                return super().handle_request(request)

        questions = {
            question.id: Choice(
                instructions=request.instructions(question.ref),
                criteria={key: request.questions[question.ref][key] for key in question.keys},
            )
            for question in asked
        }
        with peer() as url, httpx2.Client() as client:
            with TypeSafeClient(
                api_key=KEY, base_url=url, transport=Recording(), compression=False, model="jev-1.13.0"
            ) as theirs:
                theirs.system_one(state=request.state, questions=questions)
            reply = client.post(f"{url}/v1/systemone", content=ours).content
        assert json.loads(seen[0]) == json.loads(ours)
        for question in asked:  # The order of the options is part of what is asked.
            theirs_asked = json.loads(seen[0])["questions"][question.id]["criteria"]
            assert list(theirs_asked) == list(question.keys)
        parsed = SystemOneResponse.model_validate_json(reply)
        decoded = decode_reply(reply, items, asked)
        assert decoded.model == parsed.model
        assert decoded.input_tokens == parsed.usage.input_tokens
        for item in items:
            told = parsed.answers[f"{item.ref}_a"]
            got = decoded.answers[item.ref]
            assert isinstance(told, ChoiceAnswer)
            assert isinstance(got, Answer)
            assert got.choice == told.choice
            assert got.probabilities == pytest.approx(told.probabilities)
