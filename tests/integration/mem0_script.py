"""One script of calls that a program of mem0 makes, run by `Mem0Memory` and, in a process of its own, by mem0 itself.

Prints what became of each call as JSON. The model and the embedder of mem0 are a server here that speaks OpenAI's
format; nothing leaves the machine.
"""

import hashlib
import json
import logging
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DIMENSIONS = 64
NOBODY = "00000000-0000-0000-0000-000000000000"
FACTS = ["Ada likes tea", "Ada lives in Graz"]


class Model(ThreadingHTTPServer):
    """A model and an embedder in OpenAI's format. ``answers`` are given one after the other, the last for ever."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.answers: list[str] = [json.dumps({"facts": FACTS})]
        self.status = 200
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class _Answering(BaseHTTPRequestHandler):
    server: Model  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path.endswith("/embeddings"):
            texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
            said: dict[str, Any] = {
                "object": "list",
                "model": "m",
                "data": [
                    {"object": "embedding", "index": n, "embedding": _vector(one)} for n, one in enumerate(texts)
                ],
                "usage": {"prompt_tokens": 1, "total_tokens": 1},
            }
        else:
            self.server.asked.append(body)
            self.server.keys.append(self.headers["authorization"])
            answers = self.server.answers
            content = answers.pop(0) if len(answers) > 1 else answers[0]
            said = {
                "id": "x",
                "object": "chat.completion",
                "created": 1,
                "model": "m",
                "choices": [
                    {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}
                ],
                "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
            }
        sent = json.dumps(said).encode()
        self.send_response(self.server.status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, *given: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        pass


def _vector(text: str) -> list[float]:
    found = [0.0] * DIMENSIONS
    for word in text.lower().split():
        found[int(hashlib.md5(word.encode(), usedforsecurity=False).hexdigest(), 16) % DIMENSIONS] += 1.0
    return found


@contextmanager
def served() -> Generator[Model]:
    """The server, until the block ends."""
    with Model() as model:
        thread = threading.Thread(target=model.serve_forever, daemon=True)
        thread.start()
        yield model
        model.shutdown()
        thread.join()


def script(m: Any) -> Generator[tuple[str, Callable[[], Any]]]:
    """The calls, by name. Each is made before the next is asked for."""
    made: dict[str, Any] = {}

    def add(name: str, *given: Any, **named: Any) -> Any:
        made[name] = m.add(*given, **named)
        return made[name]

    def one(name: str) -> str:
        return made[name]["results"][0]["id"]

    ada = {"user_id": "ada"}
    talk = [
        {"role": "system", "content": "You are kind."},
        {"role": "user", "name": "Ada", "content": "I moved to Graz"},
        {"role": "assistant", "content": "Graz is a fine town"},
    ]
    yield (
        "add text",
        lambda: add("pizza", "I love pizza", user_id="ada", infer=False, metadata={"k": 1, "tags": ["a"]}),
    )
    yield "add talk", lambda: add("talk", talk, user_id="ada", agent_id="bot", run_id="r", infer=False)
    yield "add one message", lambda: m.add({"role": "user", "content": "One message"}, user_id="ada", infer=False)
    yield "add until", lambda: add("until", "Until then", user_id="ada", infer=False, expiration_date="2099-12-31")
    yield (
        "add expired",
        lambda: add("expired", "Long ago", user_id="eve", infer=False, expiration_date="2020-01-01"),
    )
    yield "add by a number", lambda: m.add("By a number", user_id=7, infer=False)
    yield "get", lambda: m.get(one("pizza"))
    yield "get of a talk", lambda: m.get(one("talk"))
    yield "get with a date", lambda: m.get(one("until"))
    yield "get_all", lambda: m.get_all(filters={"agent_id": "bot"})
    yield "get_all of nobody", lambda: m.get_all(filters={"user_id": "nobody"})
    yield "get_all bounded", lambda: len(m.get_all(filters=ada, top_k=2)["results"])
    yield "get_all of the expired", lambda: m.get_all(filters={"user_id": "eve"})
    yield "get_all with the expired", lambda: m.get_all(filters={"user_id": "eve"}, show_expired=True)
    yield "search", lambda: m.search("I love pizza", filters=ada, top_k=1)
    yield "search by metadata", lambda: m.search("I love pizza", filters={**ada, "k": {"gte": 1}}, top_k=1)
    yield "search beside metadata", lambda: m.search("I love pizza", filters={**ada, "k": {"gt": 1}})
    yield (
        "search by NOT",
        lambda: [r["memory"] for r in m.search("Graz", filters={**ada, "NOT": [{"role": "user"}]})["results"]],
    )
    yield (
        "search by OR",
        lambda: [r["memory"] for r in m.search("pizza", filters={**ada, "OR": [{"k": 1}, {"k": 2}]})["results"]],
    )
    yield "search nothing near", lambda: m.search("I love pizza", filters=ada, threshold=1.0, top_k=0)
    yield "search of the expired", lambda: m.search("Long ago", filters={"user_id": "eve"})
    yield "search with the expired", lambda: m.search("Long ago", filters={"user_id": "eve"}, show_expired=True)
    yield "update", lambda: m.update(one("pizza"), "I hate pizza")
    yield "update metadata", lambda: m.update(one("pizza"), metadata={"z": 2, "user_id": "eve"})
    yield "get updated", lambda: m.get(one("pizza"))
    yield "update by data", lambda: m.update(one("pizza"), data="I like pizza")
    yield "update a date", lambda: m.update(one("pizza"), expiration_date="2099-01-01")
    yield "clear a date", lambda: m.update(one("pizza"), expiration_date=None)
    yield "get cleared", lambda: m.get(one("pizza"))
    yield "history", lambda: m.history(one("pizza"))
    yield "delete", lambda: m.delete(one("pizza"))
    yield "delete again", lambda: m.delete(one("pizza"))
    yield "get deleted", lambda: m.get(one("pizza"))
    yield "update deleted", lambda: m.update(one("pizza"), "x")
    yield "history of a deleted one", lambda: m.history(one("pizza"))
    yield "infer", lambda: m.add([{"role": "user", "content": "I like tea and live in Graz"}], user_id="ida")
    yield "infer again", lambda: m.add([{"role": "user", "content": "I like tea and live in Graz"}], user_id="ida")
    yield "get_all inferred", lambda: sorted(r["memory"] for r in m.get_all(filters={"user_id": "ida"})["results"])
    yield "same text of another", lambda: m.add("One message", user_id="bob", infer=False)
    yield "get_all of another", lambda: [r["memory"] for r in m.get_all(filters={"user_id": "bob"})["results"]]
    yield "delete_all", lambda: m.delete_all(user_id="ada")
    yield "get_all deleted", lambda: m.get_all(filters=ada)
    yield "delete_all of nobody", lambda: m.delete_all(user_id="nobody")
    wrong: dict[str, Callable[[], Any]] = {
        "add for nobody": lambda: m.add("x", infer=False),
        "add a number": lambda: m.add(5, user_id="a", infer=False),
        "add for a blank": lambda: m.add("x", user_id=" ", infer=False),
        "add for two words": lambda: m.add("x", user_id="a b", infer=False),
        "add until tomorrow": lambda: m.add("x", user_id="a", infer=False, expiration_date="tomorrow"),
        "add at a time": lambda: m.add("x", user_id="a", timestamp=1),
        "add of a type": lambda: m.add("x", user_id="a", infer=False, memory_type="semantic"),
        "add no messages": lambda: m.add([], user_id="a", infer=False),
        "add a message of nobody": lambda: m.add([{"content": "x"}], user_id="a", infer=False),
        "get no id": lambda: m.get("abc"),
        "get nobody": lambda: m.get(NOBODY),
        "delete no id": lambda: m.delete("abc"),
        "delete nobody": lambda: m.delete(NOBODY),
        "update no id": lambda: m.update("abc", "x"),
        "update nobody": lambda: m.update(NOBODY, "x"),
        "update nothing": lambda: m.update(NOBODY),
        "history of no id": lambda: m.history("abc"),
        "history of nobody": lambda: m.history(NOBODY),
        "search nothing": lambda: m.search(" ", filters=ada),
        "search everybody": lambda: m.search("x"),
        "search by argument": lambda: m.search("x", user_id="a"),
        "search beyond": lambda: m.search("x", filters=ada, threshold=2),
        "search less than none": lambda: m.search("x", filters=ada, top_k=-1),
        "search at a date": lambda: m.search("x", filters=ada, reference_date="2026-01-01"),
        "search by no operator": lambda: m.search("x", filters={**ada, "k": {"foo": 1}}),
        "search by no list": lambda: m.search("x", filters={**ada, "AND": {"k": 1}}),
        "get_all of everybody": lambda: m.get_all(),
        "get_all by argument": lambda: m.get_all(user_id="a"),
        "get_all of x": lambda: m.get_all(filters=ada, top_k="x"),
        "delete_all of everybody": lambda: m.delete_all(),
        "chat": lambda: m.chat("x"),
    }
    yield from wrong.items()
    yield "reset", lambda: m.reset() and None
    yield "get_all after a reset", lambda: m.get_all(filters={"user_id": "bob"})


def outcomes(m: Any) -> dict[str, Any]:
    """What became of each call: its answer, or which kind of error it raised."""
    found: dict[str, Any] = {}
    for name, call in script(m):
        try:
            found[name] = call()
        except NotImplementedError:
            found[name] = {"raises": "NotImplementedError"}
        except ValueError:
            found[name] = {"raises": "ValueError"}
        except Exception as error:
            found[name] = {"raises": type(error).__name__}
    return found


def run_mem0() -> None:
    """Print what mem0 makes of the script."""
    folder = tempfile.mkdtemp()
    os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": folder, "HOME": folder}
    # It would look for a model on the network.
    sys.modules["fastembed"] = None  # pyright: ignore[reportArgumentType]
    logging.disable(logging.CRITICAL)
    from mem0 import Memory

    with served() as model:
        model.answers = [json.dumps({"memory": [{"id": str(n), "text": one} for n, one in enumerate(FACTS)]})]
        openai = {"model": "m", "api_key": "k", "openai_base_url": model.url}
        memory = Memory.from_config(
            {
                "vector_store": {
                    "provider": "qdrant",
                    "config": {
                        "path": f"{folder}/vectors",
                        "embedding_model_dims": DIMENSIONS,
                        "collection_name": "c",
                    },
                },
                "llm": {"provider": "openai", "config": openai},
                "embedder": {"provider": "openai", "config": {**openai, "embedding_dims": DIMENSIONS}},
                "history_db_path": f"{folder}/history.db",
            }
        )
        json.dump(outcomes(memory), sys.stdout)


if __name__ == "__main__":
    run_mem0()
