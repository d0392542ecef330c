"""Writes ``docs/reference/mcp.md`` from the server itself: ``python -m lethelog.handlers.mcp.reference``.

A test compares the page with what this gives.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .catalogue import TOOLS
from .prompts import PROMPTS
from .resources import TEMPLATES
from .server import INSTRUCTIONS
from .tool import Tool

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "mcp.md"
_HEAD = """\
# The MCP server

<!-- Written by `python -m lethelog.handlers.mcp.reference`; change the server, not this page. -->

What `lethelog mcp` offers a client, over stdio and over streamable HTTP. How to connect one: [Connect an
agent](../how-to/mcp.md). Arguments that are not listed are refused; one that is given as null counts as left
out. Every tool answers structured content and a few lines of text that say the same. An error is an answer with
`isError`, whose structured content holds `code`, `message` and, where an argument is to blame, its `field`; the
codes are those of every other door: `invalid_input`, `not_found`, `wrong_kind`, `conflict`, `stale_proposal`,
`invalid_transition`, `erased`, `access_denied`, `invalid_credential`, `quota_exceeded`, `unavailable`,
`not_caught_up`, `misconfigured`. Hints: *reads* changes nothing, *asks first* takes something out of sight, so
that clients ask their user, *repeatable* does nothing more the second time.

## Instructions

What a client is told when it connects:

```
{instructions}
```

## Tools
"""


def reference() -> str:
    """The whole page."""
    parts = [_HEAD.format(instructions=INSTRUCTIONS)]
    for tool in TOOLS:
        parts += _tool(tool)
    parts.append("## Prompts\n\n| prompt | arguments | |\n|---|---|---|")
    for prompt in PROMPTS:
        named = ", ".join(f"`{one.name}`" for one in prompt.declared.arguments or ())
        parts.append(f"| `{prompt.name}` | {named} | {prompt.says} |")
    parts.append("\n## Resources\n\n| URI | |\n|---|---|")
    parts += [f"| `{one.uri_template}` | {one.description} |" for one in TEMPLATES]
    return "\n".join(parts) + "\n"


def _tool(tool: Tool) -> Iterator[str]:
    hints = {"reads": tool.reads, "asks first": tool.destroys, "repeatable": tool.repeatable or tool.reads}
    said = ", ".join(name for name, holds in hints.items() if holds)
    yield f"### `{tool.name}`\n\n{tool.says}{f' *({said})*' if said else ''}\n"
    schema = tool.declared.input_schema
    if schema["properties"]:
        yield "| argument | takes |\n|---|---|"
        for name, one in schema["properties"].items():
            needed = " (required)" if name in schema.get("required", ()) else ""
            yield f"| `{name}`{needed} | {_kind(one)} |"
        yield ""
    told = ", ".join(f"`{name}`" for name in tool.gives.get("properties", {}))
    if told:
        yield f"Answers at least {told}.\n"


def _kind(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        text = ", ".join(f"`{one}`" for one in schema["enum"])
    elif schema["type"] == "array":
        text = f"list of: {_kind(schema['items'])}"
    elif schema["type"] == "object":
        text = "object with " + ", ".join(f"`{name}`" for name in schema["properties"])
    else:
        text = str(schema["type"])
    bounds = {"at most": schema.get("maximum", schema.get("maxItems")), "default": schema.get("default")}
    return text + "".join(f"; {name} `{value}`" for name, value in bounds.items() if value is not None)


def main() -> None:
    """Write the page."""
    PAGE.write_text(reference(), encoding="utf-8")


if __name__ == "__main__":
    main()
