"""The memory file of MCP's reference server: JSON lines of entities with observations, and relations.

Each observation becomes a memory of its own, with the entity's name in front, since it says nothing without it.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ...domain.errors import InvalidInput
from .said_elsewhere import Found, LeftOut, Remark, SaidElsewhere, as_list, as_object, parsed, read_text

_TAGS = 64


def read_mcp_memory(path: Path) -> list[Found]:
    """The memories of a file. Raises `InvalidInput` for one that is not of this kind."""
    found: list[Found] = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip():
            continue
        said = as_object(parsed(line, f"line {number}"))
        if said is None or "type" not in said:
            raise InvalidInput("file", f"line {number} is neither an entity nor a relation")
        found += _taken(said, f"line {number}")
    return found


def _taken(said: dict[str, Any], source: str) -> Iterable[Found]:
    if said["type"] == "entity" and _is_text(said.get("name")):
        yield from _entity(said, source)
    elif said["type"] == "relation" and all(_is_text(said.get(part)) for part in ("from", "to", "relationType")):
        yield _relation(said, source)
    else:
        yield LeftOut(source, "is neither an entity with a name nor a whole relation")
        return
    known = {"type", "name", "entityType", "observations", "from", "to", "relationType"}
    for field in said.keys() - known:
        yield Remark(source, f"its field {field[:64]} has no place here")


def _entity(said: dict[str, Any], source: str) -> Iterable[Found]:
    name, kind = said["name"].strip(), said.get("entityType")
    tags = [str(kind).strip()[:_TAGS]] if _is_text(kind) else []
    fields = {"topic": name[:256], "tags": tags, "metadata": {"mcp_entity": name[:1_000]}}
    observations = as_list(said.get("observations") or [])
    if observations is None:
        yield LeftOut(source, "its observations are no list")
        return
    for number, observation in enumerate(observations, 1):
        where = f"{source}, observation {number}"
        if not _is_text(observation):
            yield LeftOut(where, "is no text")
            continue
        content = f"{name}: {observation.strip()}"
        yield SaidElsewhere(where, _key("observation", name, observation), ({**fields, "content": content},))
    if not observations:
        content = f"{name} ({tags[0]})" if tags else name
        yield SaidElsewhere(source, _key("entity", name, content), ({**fields, "content": content},))


def _relation(said: dict[str, Any], source: str) -> SaidElsewhere:
    subject, relation, target = (said[part].strip() for part in ("from", "relationType", "to"))
    fields = {
        "memory_type": "fact",
        "topic": subject[:256],
        "tags": ["relation"],
        "metadata": {"mcp_from": subject[:1_000], "mcp_relation": relation[:1_000], "mcp_to": target[:1_000]},
        "content": f"{subject} {relation} {target}",
    }
    return SaidElsewhere(source, _key("relation", subject, relation, target), (fields,))


def _key(*parts: str) -> str:
    return "mcp-memory:" + hashlib.sha256(json.dumps(parts).encode(errors="replace")).hexdigest()


def _is_text(said: Any) -> bool:
    return isinstance(said, str) and bool(said.strip())
