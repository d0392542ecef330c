"""Writes ``docs/reference/settings.md`` from the settings themselves.

``python -m lethelog.ops.settings_reference [FILE]``. A test compares the file with what this gives.
"""

from pathlib import Path
from typing import Any

from pydantic_core import PydanticUndefined

from .settings import Settings

_HEAD = """# Settings

Every setting of a process: `LETHELOG_NAME` in the environment, or `name` in the TOML file that `LETHELOG_CONFIG`
names; the environment wins. From Python, the same names are arguments of `Memory.local`. A misspelt name in the
file and a wrong value are refused with the name of the setting. Written by
`python -m lethelog.ops.settings_reference`.

What of a tenant may be forgotten (caps, stale window, budget) is no setting of a process: see
`lethelog settings show`.

| setting | default | meaning |
|---|---|---|
"""


def reference() -> str:
    """The page."""
    rows = [
        f"| `LETHELOG_{name.upper()}` | {_default(field)} | {_one_line(field.description)} |"
        for name, field in Settings.model_fields.items()
    ]
    return _HEAD + "\n".join(rows) + "\n"


def _default(field: Any) -> str:
    if field.default is PydanticUndefined:
        return "by the machine"
    return "–" if field.default in (None, "", {}) else f"`{field.default}`"


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split()).replace("``", "`").replace("|", "\\|")


if __name__ == "__main__":
    page = Path(__file__).parents[1] / "docs/reference/settings.md"
    page.write_text(reference(), encoding="utf-8")
