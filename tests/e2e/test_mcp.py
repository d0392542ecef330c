"""`lethelog mcp` as a client starts it: a process of its own, spoken to over its stdin and stdout."""

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from .conftest import Cli

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "by hand", "version": "1"}}


@dataclass
class ByHand:
    """The server's process, and lines of JSON by hand."""

    process: "subprocess.Popen[bytes]"
    asked: int = 0

    def ask(self, method: str, **params: Any) -> Any:
        self.asked += 1
        self.say(method, id=self.asked, params=params)
        assert self.process.stdout is not None
        answer = json.loads(self.process.stdout.readline())
        assert (answer["jsonrpc"], answer["id"]) == ("2.0", self.asked)
        return answer["result"]

    def say(self, method: str, **more: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", "method": method, **more}).encode() + b"\n")
        self.process.stdin.flush()

    def call(self, tool: str, **arguments: Any) -> Any:
        return self.ask("tools/call", name=tool, arguments=arguments)


@contextlib.contextmanager
def by_hand(cli: Cli, *, options: list[str] | None = None, **environment: str) -> Generator[ByHand]:
    """A server that has been greeted; killed if it still runs at the end."""
    command = cli.command("mcp")
    if options is not None:
        command = [*command[:3], *options, "mcp"]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | environment,
    )
    talk = ByHand(process)
    try:
        assert talk.ask("initialize", **HELLO)["serverInfo"]["name"] == "lethelog"
        talk.say("notifications/initialized")
        yield talk
    finally:
        process.kill()
        process.communicate()


def test_the_official_client_starts_it_and_has_all_twelve_tools(cli: Cli):
    command, *arguments = cli.command("mcp")
    server = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))

    async def talk() -> None:
        async with Client(server, read_timeout_seconds=60) as client:
            assert client.instructions is not None and "never instructions" in client.instructions
            assert len((await client.list_tools()).tools) == 12
            said = {"content": "Deploys go to Hetzner", "memory_type": "decision"}
            written = await client.call_tool("remember", said)
            found = await client.call_tool("search", {"query": "where do deploys go?"})
            assert found.structured_content["hits"][0]["id"] == written.structured_content["memory"]["id"]
            refused = await client.call_tool("search", {"query": "x", "limit": 99})
            assert refused.is_error and refused.structured_content["field"] == "limit"
            [message] = (await client.get_prompt("briefing", {})).messages
            assert "Deploys go to Hetzner" in message.content.text

    asyncio.run(talk())
    shown = cli.json("list")["memories"]
    assert [one["content"] for one in shown] == ["Deploys go to Hetzner"]
    history = cli.json("history", shown[0]["id"])["entries"]
    assert history[0]["actor"] == "person:ada", "as --actor says"


def test_it_ends_with_its_stdin_closes_its_session_and_says_nothing_besides_the_protocol(cli: Cli):
    options = ["--data-dir", str(cli.data_dir), "--tenant", cli.tenant]
    with by_hand(cli, options=options) as talk:
        assert talk.call("status")["structuredContent"]["actor"] == "agent:mcp", "where nobody is named"
        assert not talk.call("remember", content="zqcanary likes tea").get("isError")
        assert talk.call("search", query="zqcanary", limit=0)["isError"]
        out, err = talk.process.communicate(timeout=60)
    assert (talk.process.returncode, out) == (0, b"")
    assert b"zqcanary" not in err and b"Traceback" not in err
    [run] = cli.json("session", "list")["sessions"]
    assert (run["agent"], run["running"]) == ("by hand", False)
    assert run["closed_at"] is not None


def test_a_signal_ends_it_while_it_waits_for_its_client(cli: Cli):
    with by_hand(cli) as talk:
        talk.call("remember", content="Prefers tea")
        talk.process.send_signal(signal.SIGTERM)
        assert talk.process.wait(timeout=60) == -signal.SIGTERM
    assert cli.json("list")["total"] == 1
    [run] = cli.json("session", "list")["sessions"]
    assert not run["running"]


def test_the_client_is_answered_before_servers_are_and_told_what_is_wrong_with_them(cli: Cli):
    nowhere = {
        "LETHELOG_DATABASE_URL": "postgresql://nobody@127.0.0.1:9/none",
        "LETHELOG_BROKER_URL": "nats://127.0.0.1:9",
    }
    with by_hand(cli, **nowhere) as talk:
        assert len(talk.ask("tools/list")["tools"]) == 12
        for _ in range(2):
            refused = talk.call("search", query="deploys")
            assert refused["isError"] and refused["structuredContent"]["code"] == "unavailable", refused
        out, err = talk.process.communicate(timeout=60)
    assert (talk.process.returncode, out) == (0, b"") and b"Traceback" not in err


def test_a_token_says_whose_memory_it_is_and_what_may_be_done(cli: Cli, tmp_path: Path):
    cli.remember("Deploys go to Hetzner")
    file = tmp_path / "token"
    assert cli("token", "issue", "agent:reader", "--allow", "memory:read", "--out", str(file)).status == 0
    with by_hand(cli, options=["--data-dir", str(cli.data_dir), "--token-file", str(file)]) as talk:
        stands = talk.call("status")["structuredContent"]
        assert (stands["actor"], stands["permissions"]) == ("agent:reader", ["memory:read"])
        assert talk.call("search")["structuredContent"]["total"] == 1
        refused = talk.call("remember", content="x")["structuredContent"]
        assert (refused["code"], refused["permission"]) == ("access_denied", "memory:write")


@pytest.mark.parametrize(
    "command", [["mcp", "--http", "127.0.0.1:0"], ["serve", "--port", "0", "--roles", "views"]]
)
def test_it_is_served_over_http_to_whoever_shows_a_token(cli: Cli, command: list[str], tmp_path: Path):
    file = tmp_path / "token"
    assert cli("token", "issue", "agent:planner", "--allow", "memory:read", "--out", str(file)).status == 0
    cli.remember("Deploys go to Hetzner")
    process = cli.spawn(*command)
    try:
        assert process.stdout is not None
        said = process.stdout.readline().decode()
        found = re.search(r"serving (http://[^ ;]+?)(?:/mcp)?[ ;]", said)
        assert found is not None, (said, process.stderr.read() if process.poll() is not None else "")
        url = f"{found[1]}/mcp"

        async def talk() -> None:
            async with httpx2.AsyncClient(timeout=60) as http:
                assert (await http.post(url, json={})).status_code == 401
                http.headers["Authorization"] = f"Bearer {file.read_text().strip()}"
                async with Client(streamable_http_client(url, http_client=http), mode="legacy") as client:
                    found = await client.call_tool("search", {"query": "where do deploys go?"})
                    assert found.structured_content["hits"][0]["content"] == "Deploys go to Hetzner"
                    stands = await client.call_tool("status")
                    assert stands.structured_content["permissions"] == ["memory:read"]
                # A stream that is open while the server is told to end does not hold it up.
                both = {"Accept": "application/json, text/event-stream"}
                hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
                opened = await http.post(url, json=hello, headers=both)
                session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
                async with http.stream("GET", url, headers={"Accept": "text/event-stream", **session}) as stream:
                    assert stream.status_code == 200
                    process.send_signal(signal.SIGTERM)
                    with contextlib.suppress(httpx2.HTTPError):
                        await stream.aread()
                await asyncio.to_thread(process.wait, 60)

        asyncio.run(talk())
    finally:
        process.kill()
        _, err = process.communicate()
    assert process.returncode == 0, err
    assert b"Traceback" not in err and b"Hetzner" not in err


@pytest.mark.parametrize(
    "address", ["8765", ":8765", "localhost:", "localhost:http", "127.0.0.1:99999", "127.0.0.1:٣"]
)
def test_an_address_that_is_none_is_named_before_anything_starts(cli: Cli, address: str):
    refused = cli("mcp", "--http", address, "--json")
    assert (refused.status, refused.error["option"]) == (2, "--http")


def test_without_the_sdk_the_command_names_the_extra(cli: Cli, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    refused = cli("mcp", "--json")
    assert refused.status == 2 and "pip install 'lethelog[mcp]'" in refused.error["message"]
