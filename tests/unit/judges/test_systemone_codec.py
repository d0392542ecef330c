"""The System One format, byte by byte (judges.md 1.1, 4.4; cases F34, F35)."""

import json
from typing import Any

import pytest
from lethelog.domain.judging import Answer, Item, NoVerdict
from lethelog.handlers.judges.strict_json import NotStrictJson, strict_json_object
from lethelog.handlers.judges.systemone import (
    decode_reply,
    encode_request,
    error_type,
    questions_of,
)

from .judge_contract import SECRET, every_form, pair, request_of, single
from .wire import MODEL, answer, reply, same_in_all_orders, towards

PAIR = pair(0)
ITEMS: list[Item] = [PAIR]
ASKED = questions_of(ITEMS, permute=False)


def read(body: bytes, items: list[Item] | None = None, *, permute: bool = False) -> dict[str, Any]:
    chosen = ITEMS if items is None else items
    return dict(decode_reply(body, chosen, questions_of(chosen, permute=permute)).answers)


def test_the_worked_example_of_the_format_is_read() -> None:
    body = (
        b'{"model":"jev-1.14.0","answers":{"p0":{"type":"choice","choice":"supersede_older","confidence":0.92,'
        b'"probabilities":{"keep_both":0.02,"archive_older":0.03,"supersede_older":0.94,"conflict":0.01}}},'
        b'"usage":{"input_tokens":171,"output_tokens":9}}'
    )
    got = decode_reply(body, ITEMS, ASKED)
    assert got.model == "jev-1.14.0"
    assert (got.input_tokens, got.output_tokens, got.cost_usd) == (171, 9, None)
    given = got.answers["p0"]
    assert isinstance(given, Answer)
    assert given.choice == "supersede_older"
    assert given.probabilities["supersede_older"] == pytest.approx(0.94)


def test_a_request_holds_exactly_model_state_and_questions() -> None:
    request = request_of(*every_form())
    asked = questions_of(request.items, permute=True)
    body = json.loads(encode_request(request, asked, model=MODEL, extra_body={}))
    assert list(body) == ["model", "state", "questions"]
    assert body["model"] == MODEL
    assert body["state"] == request.state
    for item in request.items:
        first, second = body["questions"][f"{item.ref}_a"], body["questions"][f"{item.ref}_b"]
        assert first["criteria"] == second["criteria"] == dict(item.options)
        assert list(first["criteria"]) == list(item.options)
        assert list(second["criteria"]) == list(item.options)[::-1]
        assert first["instructions"] == second["instructions"] == request.instructions(item.ref)
    assert len(body["questions"]) == 2 * len(request.items)
    assert SECRET not in json.dumps(body["questions"])


def test_without_permutation_each_item_is_one_question_of_its_own_ref() -> None:
    assert [(q.id, q.keys) for q in ASKED] == [("p0", tuple(PAIR.options))]


def test_extra_body_is_added() -> None:
    body = encode_request(
        request_of(PAIR), ASKED, model=MODEL, extra_body={"provider": {"data_collection": "deny"}}
    )
    assert json.loads(body)["provider"] == {"data_collection": "deny"}


MALFORMED = {
    "empty": b"",
    "not json": b"keep_both",
    "html with 200": b"<!doctype html><html><body>Sign in</body></html>",
    "fenced": b"```json\n" + reply({"p0": towards(PAIR, "keep_both")}) + b"\n```",
    "prose first": b"Here {about travel} it is: " + reply({"p0": towards(PAIR, "keep_both")}),
    "prose after": reply({"p0": towards(PAIR, "keep_both")}) + b" Hope this helps!",
    "guard prefix": b")]}'\n" + reply({"p0": towards(PAIR, "keep_both")}),
    "byte order mark": b"\xef\xbb\xbf" + reply({"p0": towards(PAIR, "keep_both")}),
    "two objects": reply({}) + reply({}),
    "truncated": reply({"p0": towards(PAIR, "keep_both")})[:-20],
    "trailing comma": reply({"p0": towards(PAIR, "keep_both")})[:-1] + b",}",
    "bad escape": rb'{"model":"m","answers":{},"note":"\u12g4"}',
    "lone surrogate in a value": rb'{"model":"jev-1.14.0","answers":{},"note":"\ud83d"}',
    "lone surrogate in a key": rb'{"model":"jev-1.14.0","answers":{"\udc00":{}}}',
    "surrogates the wrong way round": rb'{"model":"\ude00\ud83d","answers":{}}',
    "nan": b'{"model":"jev-1.14.0","answers":{},"x":NaN}',
    "infinity": b'{"model":"jev-1.14.0","answers":{},"x":-Infinity}',
    "repeated key": b'{"model":"a","model":"jev-1.14.0","answers":{}}',
    "repeated answer": b'{"model":"jev-1.14.0","answers":{"p0":{},"p0":{}}}',
    "not utf-8": b'{"model":"jev-1.14.0","answers":{},"x":"\xff"}',
    "utf-16": '{"model":"jev-1.14.0","answers":{}}'.encode("utf-16"),
    "list": b"[]",
    "string": b'"keep_both"',
    "null": b"null",
    "deep": b"[" * 100_000,
    "deep object": b'{"a":' * 50_000,
    "number of many digits": b'{"model":"m","answers":{},"x":' + b"9" * 5_000 + b"}",
    "no answers": b'{"model":"jev-1.14.0"}',
    "answers as list": b'{"model":"jev-1.14.0","answers":[{"type":"choice"}]}',
    "answers null": b'{"model":"jev-1.14.0","answers":null}',
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_reply_answers_nothing(body: bytes) -> None:
    items = [PAIR, single(0)]
    assert read(body, items) == {"p0": NoVerdict("malformed_reply"), "s0": NoVerdict("malformed_reply")}


@pytest.mark.parametrize("model", [None, 3, ["jev-1.14.0"]])
def test_a_reply_that_names_no_model_answers_nothing(model: Any) -> None:
    got = decode_reply(reply({"p0": towards(PAIR, "keep_both")}, model=model), ITEMS, ASKED)
    assert got.answers == {"p0": NoVerdict("model_missing")}
    assert got.model is None


FULL = {"keep_both": 0.1, "archive_older": 0.1, "supersede_older": 0.7, "conflict": 0.1}
OFF = {
    "null": (None, "answer_missing"),
    "a text": ("supersede_older", "answer_not_an_object"),
    "a list": ([answer("supersede_older", FULL)], "answer_not_an_object"),
    "another type": ({**answer("supersede_older", FULL), "type": "noul"}, "answer_type_not_choice"),
    "no type": ({"choice": "supersede_older", "probabilities": FULL}, "answer_type_not_choice"),
    "no choice": ({"type": "choice", "probabilities": FULL}, "choice_missing"),
    "choice as number": (answer(2, FULL), "choice_missing"),
    "unknown choice": (answer("supersede", FULL), "unknown_choice"),
    "upper case": (answer("SUPERSEDE_OLDER", FULL), "unknown_choice"),
    "no probabilities": ({"type": "choice", "choice": "conflict"}, "probabilities_missing"),
    "null probabilities": (answer("conflict", None), "probabilities_missing"),
    "probabilities as pairs": (answer("conflict", [["conflict", 1.0]]), "probabilities_missing"),
    "a key too few": (
        answer("supersede_older", {k: v for k, v in FULL.items() if k != "conflict"}),
        "probabilities_do_not_cover_the_options",
    ),
    "a key too many": (
        answer("supersede_older", {**FULL, "unclear": 0.0}),
        "probabilities_do_not_cover_the_options",
    ),
    "text as number": (answer("supersede_older", {**FULL, "supersede_older": "0.7"}), "probability_not_a_number"),
    "true as number": (answer("supersede_older", {**FULL, "supersede_older": True}), "probability_not_a_number"),
    "null as number": (answer("supersede_older", {**FULL, "conflict": None}), "probability_not_a_number"),
    "above one": (answer("supersede_older", {**FULL, "supersede_older": 1.2}), "probability_out_of_range"),
    "below zero": (answer("supersede_older", {**FULL, "conflict": -0.1}), "probability_out_of_range"),
    "sum of 1.7": (
        answer("supersede_older", dict.fromkeys(FULL, 0.3) | {"supersede_older": 0.8}),
        "probabilities_do_not_sum_to_one",
    ),
    "all zero": (answer("supersede_older", dict.fromkeys(FULL, 0.0)), "probabilities_do_not_sum_to_one"),
    "choice not the largest": (answer("keep_both", FULL), "choice_is_not_the_most_probable"),
}


@pytest.mark.parametrize(("given", "reason"), OFF.values(), ids=OFF.keys())
@pytest.mark.parametrize("permute", [False, True])
def test_what_is_off_with_one_item_leaves_the_others_valid(given: Any, reason: str, permute: bool) -> None:
    items: list[Item] = [PAIR, pair(1)]
    answers = same_in_all_orders(items, {"p0": given, "p1": towards(items[1], "conflict")}, permute=permute)
    got = read(reply(answers), items, permute=permute)
    assert got["p0"] == NoVerdict(reason)
    assert isinstance(got["p1"], Answer)
    assert got["p1"].choice == "conflict"


@pytest.mark.parametrize("number", ["1e999", "-1e999", "9" * 4_000, "1e-400"])
def test_numbers_at_the_edge_of_floats_do_no_harm(number: str) -> None:
    body = reply({"p0": answer("keep_both", {**FULL, "keep_both": 77})}).replace(b"77", number.encode())
    assert isinstance(read(body)["p0"], NoVerdict)


def test_eleven_answers_for_twelve_items_leave_one_without() -> None:
    items: list[Item] = [pair(i) for i in range(12)]
    answers = same_in_all_orders(items, {i.ref: towards(i, "keep_both") for i in items if i.ref != "p7"})
    got = read(reply(answers), items, permute=True)
    assert [ref for ref, a in got.items() if isinstance(a, NoVerdict)] == ["p7"]
    assert got["p7"] == NoVerdict("answer_missing")


def test_answers_in_another_order_belong_to_their_ids() -> None:
    items: list[Item] = [pair(0), pair(1)]
    answers = {"p1": towards(items[1], "conflict"), "p0": towards(items[0], "archive_older")}
    got = read(reply(answers), items)
    assert (got["p0"].choice, got["p1"].choice) == ("archive_older", "conflict")


def test_answers_nobody_asked_for_are_ignored_and_counted() -> None:
    got = decode_reply(
        reply({"p0": towards(PAIR, "conflict"), "p1": towards(PAIR, "conflict"), "": 1}), ITEMS, ASKED
    )
    assert list(got.answers) == ["p0"]
    assert got.extra_answers == 2


@pytest.mark.parametrize("ref", ["s0n9", "s1n0", "s0", "00000000-0000-0000-0000-000000000001"])
def test_a_reference_that_was_not_offered_is_refused(ref: str) -> None:
    """F35: an invented neighbour, another item's, the memory itself, a guessed id."""
    items: list[Item] = [single(0, neighbours=3), single(1, neighbours=1)]
    keys = dict.fromkeys(items[0].options, 0.02)
    invented = answer(f"supersede_by:{ref}", {**keys, f"supersede_by:{ref}": 0.9})
    only_named = answer(f"supersede_by:{ref}", {**keys, "keep": 0.92})
    for given in (invented, only_named):
        got = read(reply({"s0": given, "s1": towards(items[1], "supersede_by:s1n0")}), items)
        assert got["s0"] == NoVerdict("unknown_choice")
        assert got["s1"].choice == "supersede_by:s1n0"


def test_swapped_answers_are_refused_where_the_options_differ() -> None:
    items: list[Item] = [single(0), single(1)]
    got = read(reply({"s0": towards(items[1], "keep"), "s1": towards(items[0], "keep")}), items)
    assert {a.reason for a in got.values()} == {"probabilities_do_not_cover_the_options"}


def test_two_decimals_are_normalised_and_the_raw_map_kept() -> None:
    given = {"keep_both": 0.33, "archive_older": 0.33, "supersede_older": 0.33, "conflict": 0.0}
    got = read(reply({"p0": answer("keep_both", given)}))["p0"]
    assert sum(got.probabilities.values()) == pytest.approx(1, abs=1e-9)
    assert got.raw_probabilities == given


class TestTwoOrders:
    def both(self, first: Any, second: Any, item: Item = PAIR) -> Answer | NoVerdict:
        return read(reply({f"{item.ref}_a": first, f"{item.ref}_b": second}), [item], permute=True)[item.ref]

    def test_maps_are_averaged_by_key(self) -> None:
        one = {"keep_both": 0.2, "archive_older": 0.1, "supersede_older": 0.6, "conflict": 0.1}
        two = {"conflict": 0.1, "supersede_older": 0.8, "archive_older": 0.1, "keep_both": 0.0}
        got = self.both(answer("supersede_older", one), answer("supersede_older", two))
        assert isinstance(got, Answer)
        assert got.choice == "supersede_older"
        assert got.probabilities == pytest.approx(
            {"keep_both": 0.1, "archive_older": 0.1, "supersede_older": 0.7, "conflict": 0.1}
        )
        assert got.raw_probabilities is None

    def test_the_raw_maps_are_averaged_where_normalising_changed_one(self) -> None:
        one = {"keep_both": 0.0, "archive_older": 0.0, "supersede_older": 0.96, "conflict": 0.0}
        two = {"keep_both": 0.0, "archive_older": 0.0, "supersede_older": 1.0, "conflict": 0.0}
        got = self.both(answer("supersede_older", one), answer("supersede_older", two))
        assert isinstance(got, Answer)
        assert got.probabilities["supersede_older"] == pytest.approx(1)
        assert got.raw_probabilities is not None
        assert got.raw_probabilities["supersede_older"] == pytest.approx(0.98)

    def test_a_changed_mind_is_no_verdict(self) -> None:
        got = self.both(towards(PAIR, "supersede_older", 0.9), towards(PAIR, "archive_older", 0.8))
        assert got == NoVerdict("order_sensitive")

    def test_a_changed_mind_whose_mean_keeps_is_a_keep(self) -> None:
        got = self.both(towards(PAIR, "keep_both", 0.9), towards(PAIR, "conflict", 0.5))
        assert isinstance(got, Answer)
        assert got.choice == "keep_both"
        assert got.probabilities["keep_both"] == pytest.approx((0.9 + 0.5 / 3) / 2)

    def test_a_changed_mind_is_never_an_action(self) -> None:
        """Even where one action leads the mean clearly, the orders disagreed on it."""
        got = self.both(towards(PAIR, "supersede_older", 0.99), towards(PAIR, "keep_both", 0.4))
        assert got == NoVerdict("order_sensitive")

    def test_one_order_without_a_sound_answer_leaves_none(self) -> None:
        sound = towards(PAIR, "conflict")
        assert self.both(sound, None) == NoVerdict("answer_missing")
        assert self.both(answer("conflict", {}), sound) == NoVerdict("probabilities_do_not_cover_the_options")

    @pytest.mark.parametrize("item", every_form(), ids=lambda item: item.ref)
    def test_the_keep_key_is_the_first_option_of_every_form(self, item: Item) -> None:
        assert item.keep == next(iter(item.options))


class TestUsage:
    @pytest.mark.parametrize("value", [-1, "171", None, True, [1], 1e18, 2**40])
    def test_a_count_that_is_none_counts_nothing(self, value: Any) -> None:
        got = decode_reply(reply({}, usage={"input_tokens": value, "output_tokens": 9}), ITEMS, ASKED)
        assert (got.input_tokens, got.output_tokens) == (0, 9)

    def test_whole_floats_are_counts(self) -> None:
        assert decode_reply(reply({}, usage={"input_tokens": 171.0}), ITEMS, ASKED).input_tokens == 171

    @pytest.mark.parametrize("usage", [None, 3, [], "many"])
    def test_usage_may_be_missing(self, usage: Any) -> None:
        got = decode_reply(reply({}, usage=usage), ITEMS, ASKED)
        assert (got.input_tokens, got.output_tokens, got.cost_usd) == (0, 0, None)

    @pytest.mark.parametrize(
        ("value", "cost"),
        [(0.0000072, 0.0000072), (0, 0.0), (-0.1, None), ("0.1", None), (True, None), (1e300, None)],
    )
    def test_cost_is_an_amount_or_unknown(self, value: Any, cost: float | None) -> None:
        assert decode_reply(reply({}, usage={"cost": value}), ITEMS, ASKED).cost_usd == cost

    @pytest.mark.parametrize(
        ("value", "shown"), [("gen-1a2b", "gen-1a2b"), ("a b", None), ("x" * 129, None), (7, None)]
    )
    def test_request_ids_are_short_printable_texts(self, value: Any, shown: str | None) -> None:
        assert decode_reply(reply({}, id=value), ITEMS, ASKED).request_id == shown


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"detail":{"error_type":"api_usage_error","message":"Unknown model: x"}}', "api_usage_error"),
        (b'{"detail":[{"loc":["body","state"],"msg":"Field required","type":"missing"}]}', "missing"),
        (
            b'{"error":{"code":501,"message":"not a decision model","type":"not_supported_error"}}',
            "not_supported_error",
        ),
        (b'{"error":{"code":402,"message":"no credit"}}', "402"),
        (b'{"error":"bad key"}', None),
        (b'{"detail":[]}', None),
        (b'{"detail":{"error_type":"quoting the memory: the safe is 1234"}}', None),
        (b'{"detail":{"error_type":{"a":1}},"error":{"code":true}}', None),
        (b"Unauthorized", None),
        (b"", None),
    ],
)
def test_error_replies_give_their_kind_and_nothing_else(body: bytes, kind: str | None) -> None:
    assert error_type(body) == kind


def test_strict_json_does_not_carry_the_text_in_its_error() -> None:
    with pytest.raises(NotStrictJson) as caught:
        strict_json_object(f'{{"a":"{SECRET}"'.encode())
    seen: BaseException | None = caught.value
    assert SECRET not in repr(seen)
    assert caught.value.__suppress_context__
