"""A real HTTP server that speaks the chat format of OpenAI, and answers as a test tells it to."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


def fact(subject: str, predicate: str, value: str, quote: str, confidence: float = 0.9) -> dict[str, Any]:
    return {
        "subject": subject,
        "predicate": predicate,
        "value": value,
        "quote": quote,
        "confidence": confidence,
    }


def completion(content: Any, **changes: Any) -> dict[str, Any]:
    """A reply around what the model says; ``changes`` are of its first choice."""
    text = content if isinstance(content, str) or content is None else json.dumps(content)
    message = {"role": "assistant", "content": text, "refusal": None}
    return {
        "id": "chatcmpl-17",
        "object": "chat.completion",
        "model": "told-2026-10-01",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", **changes}],
        "usage": {"prompt_tokens": 120, "completion_tokens": 30, "total_tokens": 150, "cost": 0.0001},
    }


def facts(*said: Any) -> dict[str, Any]:
    """A reply that gives these facts."""
    return completion({"facts": list(said)})


@dataclass(frozen=True)
class Answer:
    """One answer, whole."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


def answer(reply: Any, status: int = 200, **headers: str) -> Answer:
    body = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
    return Answer(body, status, {name.replace("_", "-"): value for name, value in headers.items()})


@dataclass
class ChatServer:
    """Answers each request by ``says``, which is given the text of the memory that was sent."""

    says: Callable[[str], Answer] = lambda _text: answer(facts())
    asked: list[dict[str, Any]] = field(default_factory=list)
    """The bodies of all requests."""
    keys: list[str | None] = field(default_factory=list)
    released: asyncio.Event | None = None
    """Where there is one, no answer is given before it is set."""
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def texts(self) -> list[str]:
        """The contents of the memories that were sent."""
        return [memory_in(body)["content"] for body in self.asked]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value for name, _, value in (one.partition(": ") for one in head[1:] if one)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            if head[0].startswith("GET /v1/models "):
                self._write(writer, answer({"object": "list", "data": []}))
                return
            assert head[0] == "POST /v1/chat/completions HTTP/1.1", head[0]
            self.asked.append(json.loads(body))
            self.keys.append(headers.get("authorization"))
            self.arrived.set()
            if self.released is not None:
                await self.released.wait()
            self._write(writer, self.says(memory_in(self.asked[-1])["content"]))
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _write(self, writer: asyncio.StreamWriter, said: Answer) -> None:
        headers = {"Content-Type": "application/json", "Content-Length": str(len(said.body)), **said.headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {said.status} X\r\n{lines}Connection: close\r\n\r\n".encode() + said.body)


def memory_in(body: dict[str, Any]) -> dict[str, Any]:
    """The memory that a request shows: the JSON between the fences of the user's message."""
    _, _, fenced = body["messages"][1]["content"].partition("\n")
    opening, _, rest = fenced.partition("\n")
    return json.loads(rest.partition(f"\n{opening.removesuffix('json')}")[0])["memory"]


@asynccontextmanager
async def chatting(**given: Any) -> AsyncGenerator[ChatServer]:
    """A server on a free port of this machine."""
    chat = ChatServer(**given)
    server = await asyncio.start_server(chat.serve, "127.0.0.1", 0)
    chat.port = server.sockets[0].getsockname()[1]
    try:
        yield chat
    finally:
        if chat.released is not None:
            chat.released.set()
        server.close()
