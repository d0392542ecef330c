"""A small embeddings server on loopback that speaks the OpenAI wire, and misbehaves on request.

Its "model" is the spelling of a text (``character_vector``), so like texts have like vectors. Faults queued with
``fail_next`` answer the next requests, one each; every request is kept for inspection.
"""

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from lethelog.projections.embedders.character_hashing import character_vector

Fault = Callable[["Exchange"], None]


@dataclass
class Seen:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class Exchange:
    """One request being answered."""

    handler: BaseHTTPRequestHandler
    body: dict[str, Any]
    dimensions: int
    key: str
    stopping: threading.Event

    def send(self, status: int, body: bytes, kind: str = "application/json", **headers: str) -> None:
        self.handler.send_response(status)
        self.handler.send_header("content-type", kind)
        self.handler.send_header("content-length", str(len(body)))
        for name, value in headers.items():
            self.handler.send_header(name.replace("_", "-"), value)
        self.handler.end_headers()
        self.handler.wfile.write(body)

    def right_answer(self) -> dict[str, Any]:
        # Last text first: an answer is to be put in order by its indices.
        rows = [
            {
                "object": "embedding",
                "index": index,
                "embedding": (3 * character_vector(text.split(), self.dimensions)).tolist(),
            }
            for index, text in enumerate(self.body["input"])
        ][::-1]
        return {"object": "list", "model": self.body["model"], "data": rows, "usage": {"prompt_tokens": 1}}

    def gossip(self) -> dict[str, Any]:
        """What a careless server says in an error: all it was told."""
        return {"error": {"message": f"bad: {self.body['input']} by {self.key}", "code": str(self.body["input"])}}


@dataclass
class OpenAiServer:
    """Use as a context; ``url`` is the ``base_url`` to give to the embedder."""

    dimensions: int = 64
    seen: list[Seen] = field(default_factory=list)
    faults: deque[Fault] = field(default_factory=deque)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def fail_next(self, *faults: Fault) -> None:
        self.faults.extend(faults)

    def __enter__(self) -> "OpenAiServer":
        owner = self
        self._stopping = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                headers = {name.lower(): value for name, value in self.headers.items()}
                owner.seen.append(Seen(self.path, headers, body))
                key = headers.get("authorization", "")
                exchange = Exchange(self, body, owner.dimensions, key, owner._stopping)
                with suppress(ConnectionError):
                    if owner.faults:
                        owner.faults.popleft()(exchange)
                    else:
                        exchange.send(200, json.dumps(exchange.right_answer()).encode())

            def log_message(self, *args: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,))
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def status(code: int, **headers: str) -> Fault:
    """Answers with a status, telling all it was told."""
    return lambda exchange: exchange.send(code, json.dumps(exchange.gossip()).encode(), **headers)


def error_code(code: int, told: str) -> Fault:
    body = json.dumps({"error": {"message": "no", "code": told}}).encode()
    return lambda exchange: exchange.send(code, body)


def html(code: int = 200) -> Fault:
    return lambda exchange: exchange.send(
        code, f"<html>{exchange.body['input']}</html>".encode(), "text/html; charset=utf-8"
    )


def raw(body: bytes, **headers: str) -> Fault:
    return lambda exchange: exchange.send(200, body, **headers)


def changed(change: Callable[[dict[str, Any]], object]) -> Fault:
    """The right answer after ``change`` has spoilt it."""

    def answer(exchange: Exchange) -> None:
        right = exchange.right_answer()
        change(right)
        exchange.send(200, json.dumps(right).encode())

    return answer


def hang(exchange: Exchange) -> None:
    exchange.stopping.wait(30)
    exchange.handler.close_connection = True


def drip(exchange: Exchange) -> None:
    """Sends a byte now and then, each soon enough for a client that waits for single reads."""
    exchange.handler.send_response(200)
    exchange.handler.send_header("content-length", "100000")
    exchange.handler.end_headers()
    while not exchange.stopping.is_set():
        exchange.handler.wfile.write(b" ")
        exchange.handler.wfile.flush()
        time.sleep(0.05)


def hang_up(exchange: Exchange) -> None:
    """Closes the connection in the middle of the answer."""
    exchange.handler.send_response(200)
    exchange.handler.send_header("content-length", "100000")
    exchange.handler.end_headers()
    exchange.handler.wfile.write(b'{"data": [')
    exchange.handler.close_connection = True
