"""Reading what an OpenAI-style embeddings server answers: vectors, or why there are none.

Nothing here sends anything. Failures are values, not exceptions, so that none drags along a frame that holds
texts; their messages name the endpoint, the status and a known code, never what was sent or received.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ...domain.errors import LethelogError, Misconfigured, Unavailable

_NOT_NOW = frozenset({408, 409, 425, 429})
"""Answers below 500 that say "not now"; all from 500 on do."""
_TOLD = frozenset(
    {"context_length_exceeded", "insufficient_quota", "invalid_api_key", "model_not_found", "rate_limit_exceeded"}
)
"""Error codes of the wire that may be repeated. Anything else in an error's body could quote a text."""
_FINAL = frozenset({"insufficient_quota"})
"""Codes with which a "not now" stays one however often it is asked."""
_REFUSED = "it refuses the request: check model and dimensions; for texts too long for it lower window_bytes"
_NO_KEY = "it refuses the key: set api_key to one that may use this model"
_MOVED = "it redirects, and texts go nowhere but to the address set: set base_url to the final one"
_FIXES = {
    400: _REFUSED,
    401: _NO_KEY,
    403: _NO_KEY,
    404: "there is no such address or model: check base_url and model",
    413: _REFUSED,
    422: _REFUSED,
}


@dataclass(frozen=True)
class Failure:
    """Why a request brought nothing.

    Attributes:
        error: what to raise where it is not tried again.
        passing: the same request may succeed later.
        wait: seconds the server asked to wait, if it did.
    """

    error: LethelogError
    passing: bool = False
    wait: float | None = None


Vectors64 = list[NDArray[np.float64]]
"""One vector per text, in the order of the texts, finite, not zero, and of the expected dimensions."""


def read_answer(
    endpoint: str, status: int, headers: Mapping[str, str], body: bytes, count: int, dimensions: int
) -> Vectors64 | Failure:
    """The vectors of ``count`` texts from an answer. ``headers`` are looked up in lower case."""
    if status != 200:
        return _refusal(endpoint, status, headers.get("retry-after"), _told_code(_json(body)))
    answer = _json(body)
    if answer is None and "json" not in headers.get("content-type", ""):
        return Failure(
            Misconfigured(
                f"the embeddings server {endpoint} answers with something other than JSON; check base_url",
                endpoint=endpoint,
            )
        )
    rows = _fields(answer).get("data")
    if not isinstance(rows, list):
        code = _told_code(answer)
        return odd(endpoint, "sent an answer without vectors" + (f" ({code})" if code else ""))
    return _vectors(endpoint, cast("list[object]", rows), count, dimensions)


def odd(endpoint: str, what: str) -> Failure:
    """An answer that is none. Not tried again at once: what produced it would produce it again, at a price."""
    return Failure(Unavailable(f"the embeddings server {endpoint} {what}", endpoint=endpoint))


def silent(endpoint: str, what: str) -> Failure:
    """No answer, or only part of one."""
    return Failure(Unavailable(f"the embeddings server {endpoint} {what}", endpoint=endpoint), passing=True)


def most_bytes(count: int, dimensions: int) -> int:
    """The length at which an answer with ``count`` vectors is longer than it can be in earnest."""
    return 65_536 + count * dimensions * 40


def _refusal(endpoint: str, status: int, retry_after: str | None, code: str | None) -> Failure:
    said = f"HTTP {status}" + (f", {code}" if code else "")
    facts: dict[str, object] = {"endpoint": endpoint, "status": status, "reason": code}
    if status in _NOT_NOW or status >= 500:
        wait = _seconds(retry_after)
        error = Unavailable(
            f"the embeddings server {endpoint} cannot answer now ({said}); try again later",
            **facts,
            retry_after=wait,
        )
        return Failure(error, passing=code not in _FINAL, wait=wait)
    fix = _MOVED if 300 <= status < 400 else _FIXES.get(status, "check base_url")
    return Failure(Misconfigured(f"the embeddings server {endpoint} answers {said}: {fix}", **facts))


def _vectors(endpoint: str, rows: list[object], count: int, dimensions: int) -> Vectors64 | Failure:
    if len(rows) != count:
        return odd(endpoint, f"sent {len(rows)} vectors for {count} texts")
    found: dict[int, NDArray[np.float64]] = {}
    for row in rows:
        fields = _fields(row)
        place = fields.get("index")
        if type(place) is not int or not 0 <= place < count or place in found:
            return odd(endpoint, "sent vectors that their index does not assign to the texts")
        vector = _vector(fields.get("embedding"))
        if vector is None:
            return odd(endpoint, "sent a vector that is not one of finite numbers, some of them not zero")
        if len(vector) != dimensions:
            error = Misconfigured(
                f"dimensions: {endpoint} gives vectors of {len(vector)} dimensions, {dimensions} are expected; "
                "set dimensions to what the model gives",
                endpoint=endpoint,
                expected=dimensions,
                received=len(vector),
            )
            return Failure(error)
        found[place] = vector
    return [found[place] for place in range(count)]


def _vector(given: object) -> NDArray[np.float64] | None:
    if not isinstance(given, list):
        return None
    numbers = cast("list[object]", given)
    if not all(type(number) in (int, float) for number in numbers):
        return None
    try:
        vector = np.array(numbers, dtype=np.float64)
    except OverflowError:
        return None
    length = float(np.linalg.norm(vector))
    return vector if math.isfinite(length) and length > 0 else None


def _json(body: bytes) -> object:
    """What the body says, or None where it is not JSON."""
    try:
        return cast("object", json.loads(body))
    except (ValueError, RecursionError):
        return None


def _fields(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _told_code(answer: object) -> str | None:
    error = _fields(_fields(answer).get("error"))
    codes = [code for code in (error.get("code"), error.get("type")) if isinstance(code, str)]
    return next((code for code in codes if code in _TOLD), None)


def _seconds(retry_after: str | None) -> float | None:
    """Seconds until the moment a Retry-After header names: a number of seconds, or a date."""
    if retry_after is None:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        try:
            moment = parsedate_to_datetime(retry_after)
        except ValueError:
            return None
        seconds = (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else None
