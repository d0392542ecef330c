"""`lethelog serve` as it is started: a process on embedded servers, called by every door it has."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx2
import pytest
from lethelog import Client as RestClient
from lethelog.ops import embedded
from lethelog.ops.local import Memory, open_memory
from lethelog.ops.settings import Settings
from mcp import Client as McpClient
from mcp.client.streamable_http import streamable_http_client

from .conftest import Cli


def started(data_dir: Path, *options: str) -> tuple[subprocess.Popen[str], str]:
    """The process, and where it listens."""
    command = [sys.executable, "-m", "lethelog", "--data-dir", str(data_dir), "serve", "--port", "0", "--json"]
    process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if line.startswith("}"):
            return process, json.loads(said)["url"]
    raise AssertionError((process.wait(), said, process.stderr.read() if process.stderr else ""))


async def tools_over_mcp(url: str, token: str) -> tuple[set[str], dict[str, object]]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        McpClient(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
    ):
        tools = {tool.name for tool in (await client.list_tools()).tools}
        found = await client.call_tool("search", {"query": "where do deploys go"})
        return tools, found.structured_content or {}


def test_one_process_answers_rest_and_mcp_and_ends_well_when_it_is_told_to(tmp_path: Path):
    data_dir = tmp_path / "data"
    try:
        with Memory.local(data_dir, actor="person:ada") as memory:
            token = memory.tokens.issue("agent:planner", permissions=["memory:read", "memory:write"]).text
        process, url = started(data_dir)
        with RestClient(url, token) as client:
            written = client.remember("Deploys go to Hetzner", memory_type="decision")
            assert client.search("where do deploys go").hits[0].memory.id == written.memory.id
        tools, found = asyncio.run(tools_over_mcp(url, token))
        assert len(tools) == 12 and str(written.memory.id) in json.dumps(found)
        [cookie] = httpx2.get(f"{url}/login").headers.get_list("set-cookie")
        assert cookie.startswith("lethelog-login=") and "secure" not in cookie.lower()
        refused = httpx2.post(f"{url}/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        assert refused.status_code == 401
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, (out, err)
        assert "Hetzner" not in err and token not in err
    finally:
        embedded.discard(data_dir)


def test_behind_tls_the_cookie_is_for_tls_only_though_the_server_listens_on_this_machine(cli_folder: Path):
    process, url = started(cli_folder, "--roles", "none", "--behind-tls")
    try:
        [cookie] = httpx2.get(f"{url}/login").headers.get_list("set-cookie")
    finally:
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert url.startswith("http://127.0.0.1:") and process.returncode == 0, (out, err)
    assert cookie.startswith("__Host-lethelog-login=") and "; secure" in cookie.lower()


def test_a_port_that_is_taken_is_told_before_anything_starts(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "lethelog", "--data-dir", str(tmp_path / "data"), "serve", "--port", port]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ)
    assert ran.returncode == 2 and f"port {port}" in ran.stderr, ran.stderr
    assert not (tmp_path / "data" / "pg").exists()


@pytest.mark.parametrize(
    ("command", "number"),
    [
        (("serve", "--port", "0"), signal.SIGTERM),
        (("mcp", "--http", "127.0.0.1:0"), signal.SIGINT),
    ],
)
def test_a_signal_while_it_still_opens_ends_it_and_leaves_nothing_running(
    tmp_path: Path, command: tuple[str, ...], number: signal.Signals
):
    data_dir, held = tmp_path / "data", tmp_path / "held"
    os.mkfifo(held)
    # Opening waits for the master key, when the servers run already; the key comes from this pipe.
    env = {**os.environ, "LETHELOG_MASTER_KEY_COMMAND": f"cat {held}"}
    whole = [sys.executable, "-m", "lethelog", "--data-dir", str(data_dir), *command, "--json"]
    process = subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    try:
        with held.open("w") as key:
            assert embedded.status(data_dir).running, "the control: there is something to be left"
            process.send_signal(number)
            deadline = time.monotonic() + 60
            while embedded.are_up(data_dir):
                assert time.monotonic() < deadline, "they outlive their last client for moments only"
                time.sleep(0.05)
            key.write("no key")
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (0, ""), err
    finally:
        process.kill()
        embedded.discard(data_dir)


def test_a_signal_while_the_servers_start_is_waited_for_and_the_process_does_not_stay_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """What joins them works in a thread, which no cancelling reaches."""
    left, joined, go_on = list[str](), threading.Event(), threading.Event()

    class Servers:
        def leave(self) -> None:
            left.append("left")

    def join(_data_dir: Path) -> Servers:
        joined.set()
        assert go_on.wait(20)
        return Servers()

    monkeypatch.setattr(embedded, "join", join)

    async def given_up() -> None:
        opening = asyncio.ensure_future(open_memory(Settings.load(data_dir=tmp_path)))
        await asyncio.to_thread(joined.wait, 20)
        opening.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await opening

    asyncio.run(given_up())
    assert left == ["left"]


def test_other_machines_are_let_in_without_tls_only_by_who_says_so(cli_folder: Path):
    for verb in (["serve", "--host", "0.0.0.0", "--port", "0"], ["mcp", "--http", "0.0.0.0:0"]):
        command = [sys.executable, "-m", "lethelog", "--data-dir", str(cli_folder), *verb, "--json"]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ)
        said = json.loads(ran.stderr)["error"]
        assert (ran.returncode, said["code"], ran.stdout) == (2, "misconfigured", ""), said
        for way_out in ("certificate", "--behind-tls", "--insecure"):
            assert way_out in said["message"], verb
    process, url = started(cli_folder, "--roles", "none", "--host", "0.0.0.0", "--insecure")
    try:
        answer = httpx2.get(f"{url.replace('0.0.0.0', '127.0.0.1')}/login")
    finally:
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    # A cookie for TLS only would be of no use here.
    assert "secure" not in answer.headers["set-cookie"].lower() and process.returncode == 0, (out, err)


@pytest.mark.parametrize("what", ["missing", "empty"])
def test_a_certificate_that_cannot_be_used_is_told_before_anything_is_opened(cli: Cli, tmp_path: Path, what: str):
    if what == "empty":
        (tmp_path / "chain.pem").touch()
        (tmp_path / "key.pem").touch()
    files = ("--certificate", str(tmp_path / "chain.pem"), "--certificate-key", str(tmp_path / "key.pem"))
    refused = cli("serve", "--port", "0", *files, "--json")
    assert refused.status != 0 and refused.error["code"] == "misconfigured"
    assert "certificate or its key cannot be used" in refused.error["message"]
