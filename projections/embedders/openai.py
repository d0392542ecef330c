"""Embeddings from a server that speaks the OpenAI wire: the service, a gateway, a model server of your own.

Texts leave this process here, so this is careful about where they go and what is told of them: redirects are not
followed, and no error carries a text, an answer's body, or the key.
"""

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from random import uniform
from threading import Event
from time import monotonic
from typing import Any

import httpx2
import numpy as np
from numpy.typing import NDArray

from ...domain.errors import Misconfigured
from . import character_hashing, openai_wire, windows
from .port import Embedder, Vectors, closed, listed, stacked

_NATIVE = {"text-embedding-3-large": 3072, "text-embedding-3-small": 1536, "text-embedding-ada-002": 1536}
"""Dimensions of the models whose own are known; those named text-embedding-3 can be asked for fewer."""
_SHORTENED = "text-embedding-3-"

_REQUEST_BYTES = 256_000
"""Most bytes of text in a request: no more than as many tokens, and OpenAI accepts 300,000 in all."""


class OpenAiEmbedder(Embedder):
    """``POST {base_url}/embeddings``, in batches, with a bound on the time that failures may take.

    The identity names the model, its dimensions, ``revision`` and the window rule, not the server: the same model
    behind another address is the same model. Where a server changes its weights under the same name, change
    ``revision``. Such a server need not give the same bits twice.

    Safe to share between threads. ``close`` ends pauses between tries at once.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: str = "",
        dimensions: int | None = None,
        *,
        batch_size: int = 64,
        timeout: float = 30.0,
        retry_budget: float = 60.0,
        backoff: float = 0.5,
        retry_after_cap: float = 20.0,
        window_bytes: int = 8000,
        revision: str = "",
    ) -> None:
        """Check the settings; nothing is sent yet.

        Args:
            base_url: up to and with the version, e.g. ``https://api.openai.com/v1``; http or https.
            api_key: sent as a bearer token; empty for a server that wants none.
            dimensions: of the vectors. May be left out for OpenAI's own models. It is asked for on the wire only
                of a ``text-embedding-3`` model that is to give fewer than it would; else it is what is expected.
            batch_size: texts, or windows of long texts, per request.
            timeout: seconds for one request, from the first byte sent to the last one read.
            retry_budget: seconds that failed tries and the pauses after them may take in one call of ``embed``.
            backoff: seconds of the first pause; each next one is twice as long, up to half of it cut by chance.
            retry_after_cap: a server's Retry-After is obeyed, but for no longer than these seconds.
            window_bytes: size of a window. 8,000 bytes can be no more than 8,000 tokens, which fit OpenAI's models
                (8,191); set less for a model that reads less.
            revision: becomes part of the identity.
        """
        self._url, self._shown = _endpoint(base_url)
        if not model.strip():
            raise Misconfigured("model: name the embedding model that the server is to use")
        native = _NATIVE.get(model)
        expected = dimensions if dimensions is not None else native
        if expected is None:
            raise Misconfigured(f"dimensions: say how many dimensions the vectors of {model!r} have")
        _positive(
            dimensions=expected,
            batch_size=batch_size,
            timeout=timeout,
            retry_budget=retry_budget,
            backoff=backoff,
            retry_after_cap=retry_after_cap,
        )
        if window_bytes < 64:
            raise Misconfigured(f"window_bytes: {window_bytes} is too small a window; give 64 or more")
        self.dimensions = expected
        self._request: dict[str, Any] = {"model": model, "encoding_format": "float"}
        if model.startswith(_SHORTENED) and expected != native:
            self._request["dimensions"] = expected
        self._batch_size, self._window = batch_size, window_bytes
        self._timeout, self._budget = timeout, retry_budget
        self._backoff, self._cap = backoff, retry_after_cap
        self._closing = Event()
        self._client = httpx2.Client(headers=_headers(api_key), timeout=timeout, follow_redirects=False)
        rules = f"{windows.RULE}-bytes{window_bytes}.{character_hashing.RULE}"
        self.model = f"{model}-{expected}@openai{'-' + revision if revision else ''}+{rules}"

    def embed(self, texts: Sequence[str]) -> Vectors:
        windowed = [self._parts(text) for text in listed(texts)]
        asked = [part for parts in windowed for part in parts]
        spent = _Spent(self._budget)
        answers = chain.from_iterable(
            self._answered([text for text, _ in batch], spent) for batch in _batches(asked, self._batch_size)
        )
        return stacked([self._pooled(parts, answers) for parts in windowed], self.dimensions)

    def close(self) -> None:
        self._closing.set()
        self._client.close()

    def _parts(self, text: str) -> list[tuple[str, int]]:
        if not text.strip():
            return []  # servers refuse blank input
        costs = windows.utf8_costs(text)
        found = windows.slices(text, costs, self._window)
        return [(part, cost) for part, cost in found if part.strip()]

    def _pooled(self, parts: list[tuple[str, int]], answers: Iterator[NDArray[np.float64]]) -> NDArray[np.float32]:
        if not parts:
            return character_hashing.character_vector([], self.dimensions)
        vectors = [next(answers) for _ in parts]
        pooled = windows.pooled(vectors, [cost for _, cost in parts])
        return character_hashing.blended(pooled, 1, [], self.dimensions)

    def _answered(self, texts: list[str], spent: "_Spent") -> openai_wire.Vectors64:
        """One batch, asked until it is answered, refused, or the time for failures is spent."""
        body = json.dumps({**self._request, "input": texts}, ensure_ascii=False).encode()
        pause, seconds = self._backoff, self._timeout
        while True:
            started = monotonic()
            outcome = self._tried(body, len(texts), seconds)
            if not isinstance(outcome, openai_wire.Failure):
                return outcome
            spent.add(monotonic() - started)
            if self._closing.is_set():
                raise closed(self)
            wait = pause * uniform(0.5, 1.0) if outcome.wait is None else min(outcome.wait, self._cap)
            if not outcome.passing or wait >= spent.left:
                raise outcome.error
            if self._closing.wait(wait):
                raise closed(self)
            spent.add(wait)
            pause, seconds = pause * 2, min(self._timeout, spent.left)

    def _tried(self, body: bytes, count: int, seconds: float) -> openai_wire.Vectors64 | openai_wire.Failure:
        """One request. Nothing is raised: an exception would carry the request, and with it the texts."""
        limit = openai_wire.most_bytes(count, self.dimensions)
        deadline = monotonic() + seconds
        received = bytearray()
        try:
            with self._client.stream("POST", self._url, content=body, timeout=seconds) as response:
                for chunk in response.iter_bytes():
                    received += chunk
                    if len(received) > limit:
                        return openai_wire.odd(self._shown, "sent more than the vectors asked for can take")
                    if monotonic() > deadline:
                        return openai_wire.silent(self._shown, f"did not finish within {seconds:.3g} s")
        except httpx2.TimeoutException:
            return openai_wire.silent(self._shown, f"did not answer within {seconds:.3g} s")
        except httpx2.DecodingError:
            return openai_wire.odd(self._shown, "sent an answer that cannot be decompressed")
        except httpx2.TransportError as fault:
            return openai_wire.silent(self._shown, f"cannot be reached ({type(fault).__name__})")
        except RuntimeError:
            # The client says so when it was closed meanwhile.
            if self._closing.is_set():
                return openai_wire.Failure(closed(self))
            raise
        return openai_wire.read_answer(
            self._shown, response.status_code, response.headers, bytes(received), count, self.dimensions
        )


class _Spent:
    """The time that failures took so far in one call, against what they may take."""

    def __init__(self, budget: float) -> None:
        self.left = budget

    def add(self, seconds: float) -> None:
        self.left -= seconds


def _batches(parts: list[tuple[str, int]], most: int) -> Iterator[list[tuple[str, int]]]:
    """Parts in order, at most ``most`` and ``_REQUEST_BYTES`` to a batch."""
    batch: list[tuple[str, int]] = []
    size = 0
    for part in parts:
        if batch and (len(batch) == most or size + part[1] > _REQUEST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(part)
        size += part[1]
    if batch:
        yield batch


def _endpoint(base_url: str) -> tuple[httpx2.URL, str]:
    """The address to send to, and the same address as it may be shown."""
    url = None
    with suppress(httpx2.InvalidURL):
        url = httpx2.URL(base_url.rstrip("/") + "/embeddings")
    if url is None or url.scheme not in ("http", "https") or not url.host or url.query or url.fragment:
        raise Misconfigured("base_url: give an http or https address, e.g. https://api.openai.com/v1")
    if url.userinfo:
        raise Misconfigured("base_url: leave user and password out of the address; the key belongs in api_key")
    return url, str(url)


def _headers(api_key: str) -> dict[str, str]:
    headers = {"content-type": "application/json", "accept": "application/json"}
    if api_key:
        if not (api_key.isascii() and api_key.isprintable() and " " not in api_key):
            raise Misconfigured("api_key: it has characters that no key has, such as a space or a line break")
        headers["authorization"] = f"Bearer {api_key}"
    return headers


def _positive(**settings: float) -> None:
    for name, value in settings.items():
        if not (math.isfinite(value) and value > 0):
            raise Misconfigured(f"{name}: {value} is not possible; give a number above 0")
