"""Memories and their histories as resources."""

import re
from typing import TYPE_CHECKING

import mcp_types as wire

from ...domain.display import one_line
from ...domain.errors import InvalidInput

if TYPE_CHECKING:
    from ..memory import AsyncMemory

_JSON = "application/json"
_URI = re.compile(r"lethelog://memory/([^/?#]+)(/history)?")
_LISTED = 50
TEMPLATES = (
    wire.ResourceTemplate(
        name="memory",
        uri_template="lethelog://memory/{id}",
        description="One memory, of any status.",
        mime_type=_JSON,
    ),
    wire.ResourceTemplate(
        name="history",
        uri_template="lethelog://memory/{id}/history",
        description="Everything that happened to a memory.",
        mime_type=_JSON,
    ),
)


async def listed(memory: "AsyncMemory", cursor: str | None) -> wire.ListResourcesResult:
    """A page of the memories that a search may find, newest first."""
    page = await memory.list(limit=_LISTED, cursor=cursor)
    resources = [
        wire.Resource(
            name=str(one.id),
            title=one_line(one.topic),
            uri=f"lethelog://memory/{one.id}",
            description=one.memory_type,
            mime_type=_JSON,
        )
        for one in page.memories
    ]
    return wire.ListResourcesResult(resources=resources, next_cursor=page.next_cursor)


async def read(memory: "AsyncMemory", uri: str) -> wire.ReadResourceResult:
    """What a URI stands for. Raises `InvalidInput` for one of no resource, and what reading a memory does."""
    named = _URI.fullmatch(uri)
    if named is None:
        raise InvalidInput(
            "uri", "is of no resource", "There are lethelog://memory/ID and lethelog://memory/ID/history"
        )
    view = await (memory.history(named[1]) if named[2] else memory.get(named[1]))
    contents = wire.TextResourceContents(uri=uri, mime_type=_JSON, text=view.model_dump_json(exclude_none=True))
    return wire.ReadResourceResult(contents=[contents])
