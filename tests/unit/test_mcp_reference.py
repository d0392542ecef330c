"""The pages about the MCP server say what the server says, and what is to be pasted is right."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

from lethelog.handlers.mcp.reference import PAGE, reference
from lethelog.ops.cli.app import app
from typer.main import get_command

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "mcp.md"


def test_the_page_is_as_the_server_writes_it():
    assert PAGE.read_text(encoding="utf-8") == reference()


def test_every_configuration_to_paste_is_json_and_starts_the_server():
    text = HOW_TO.read_text(encoding="utf-8")
    blocks = [json.loads(block) for block in re.findall(r"^```json\n(.*?)^```", text, re.DOTALL | re.MULTILINE)]
    entries = [block.get("mcpServers", block.get("servers"))["lethelog"] for block in blocks]
    started = [entry for entry in entries if "command" in entry]
    assert len(entries) >= 6 and len(started) >= 4
    for entry in started:
        assert (entry["command"], verb(entry["args"])) == ("lethelog", "mcp")
        assert all(name.startswith("LETHELOG_") for name in entry.get("env", {}))
    for entry in entries:
        if "url" in entry:
            assert entry["url"].endswith("/mcp") and entry["headers"]["Authorization"].startswith("Bearer ")
    lines = re.findall(r"^claude mcp add lethelog -- lethelog (.*)$", text, re.MULTILINE)
    assert [verb(shlex.split(line)) for line in lines] == ["mcp"]


def verb(arguments: list[str]) -> str:
    """The command that these arguments run; options before it must be there."""
    root: Any = get_command(app)
    context = root.make_context("lethelog", list(arguments), resilient_parsing=True)
    name, _, rest = root.resolve_command(context, [*context._protected_args, *context.args])
    assert rest == []
    return name
