"""The commands that the pages and the examples of ``--help`` name are there, with the options they are shown with."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from lethelog.ops.cli.app import app
from typer.main import get_command

ROOT = Path(__file__).parents[2]
PAGES = sorted(ROOT.glob("docs/**/*.md")) + [ROOT / name for name in ("README.md", "CHANGELOG.md")]
COMMANDS: Any = get_command(app)
_LINE = re.compile(r"^\s*(lethelog [a-z-].*)$", re.MULTILINE)
_IN_TEXT = re.compile(r"`(lethelog [a-z-][^`|]*)`")
"""Without alternatives (``a|b``), of which a sentence may name several at once."""


def fault(command: str) -> str | None:
    """What of it there is not."""
    here: Any = COMMANDS
    options = _options(here)
    words = iter(shlex.split(command, comments=True)[1:])
    for word in words:
        if word in ("|", ">", "<", "--"):
            return None
        if word.startswith("--"):
            name, given, _ = word.partition("=")
            if name not in options:
                return f"{here.name} has no option {name}"
            if not given and not options[name].is_flag:
                next(words, None)
        elif inner := getattr(here, "commands", None):
            if word not in inner:
                return f"{here.name} has no command {word}"
            here = inner[word]
            options |= _options(here)
    return None


def _options(command: Any) -> dict[str, Any]:
    return {
        name: one for one in command.params if hasattr(one, "is_flag") for name in (*one.opts, *one.secondary_opts)
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_commands_and_options_that_there_are(page):
    text = page.read_text(encoding="utf-8")
    named = [*_LINE.findall(text), *_IN_TEXT.findall(text)]
    assert [(command, why) for command in named if (why := fault(command)) is not None] == []


@pytest.mark.parametrize(
    "command", ["lethelog accept ID", "lethelog proposals --kind fact", "lethelog erase bury"]
)
def test_one_that_is_not_there_is_found(command):
    assert fault(command) is not None
