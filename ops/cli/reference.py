"""Writes ``docs/reference/cli.md`` from the command line itself: ``python -m lethelog.ops.cli.reference [FILE]``.

A test compares the file with what this gives, so that the page never says anything else than ``--help``.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from rich.text import Text
from typer.main import get_command

from .app import app

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
_INTRODUCTION = """\
# The command line

<!-- Written by `python -m lethelog.ops.cli.reference`; change the commands, not this page. -->

Options before the verb say where and as whom; each has a variable in the environment that gives its default
(`LETHELOG_DATA_DIR`, `LETHELOG_TENANT`, `LETHELOG_ACTOR`). Every command takes `--json`: it then prints one JSON
document on stdout, and an error as `{"error": {"code": …, "message": …}}` on stderr.

| exit status | says |
|---|---|
| 0 | done |
| 1 | it could not be done: a conflict, a server that does not answer, a difference that `compare` found |
| 2 | something has to be corrected: the command line, a setting, an id |
| 3 | `review digest`: something waits for review |
| 130 | Ctrl-C |

Text that begins with a dash stands behind `--`; `-` in place of a text reads it from stdin. Colour is used on
terminals only, and never with `NO_COLOR`. `LETHELOG_DEBUG=1` shows where an unforeseen error came from.
"""


def reference() -> str:
    """The whole page."""
    root: Any = get_command(app)
    parts = [_INTRODUCTION, *_command(root, "lethelog", 2)]
    return "\n".join(parts).rstrip() + "\n"


def main() -> None:
    """Write the page."""
    PAGE.write_text(reference(), encoding="utf-8")


def _command(command: Any, path: str, level: int) -> Iterator[str]:
    members: dict[str, Any] = getattr(command, "commands", {})
    yield f"{'#' * level} `{path}`\n"
    if command.help:
        yield _plain(command.help) + "\n"
    if not members:
        arguments = " ".join(_argument(one) for one in command.params if one.param_type_name == "argument")
        yield f"```\n{path} [OPTIONS] {arguments}".rstrip() + "\n```\n"
    rows = [_row(one) for one in command.params if not one.hidden and one.name != "help"]
    if rows:
        yield "| | |\n|---|---|"
        yield from rows
        yield ""
    if command.epilog:
        examples = _plain(command.epilog).splitlines()[1:]
        yield "```sh\n" + "\n".join(line.strip() for line in examples) + "\n```\n"
    for name in members:
        yield from _command(members[name], f"{path} {name}", level if path == "lethelog" else level + 1)


def _argument(parameter: Any) -> str:
    name = parameter.metavar or str(parameter.name).upper()
    return name if parameter.required else f"[{name}]"


def _row(parameter: Any) -> str:
    choices = _choices(parameter)
    if parameter.param_type_name == "argument":
        names = f"`{_argument(parameter)}`"
    elif _is_flag(parameter):
        names = ", ".join(f"`{option}`" for option in parameter.opts)
    else:
        names = ", ".join(f"`{option} {parameter.metavar or 'VALUE'}`" for option in parameter.opts)
    says = _plain(getattr(parameter, "help", None) or "")
    if choices:
        says += " One of " + ", ".join(f"`{one}`" for one in choices) + "."
    default = parameter.default
    if isinstance(default, str | int | float) and not isinstance(default, bool):
        says += f" Default: `{default}`."
    cells = (names.replace("|", "\\|"), says.replace("|", "\\|"))
    return f"| {cells[0]} | {cells[1]} |"


def _is_flag(parameter: Any) -> bool:
    return parameter.type_descriptor.annotation is bool


def _choices(parameter: Any) -> tuple[str, ...]:
    annotation = parameter.type_descriptor.annotation
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def _plain(text: str) -> str:
    """Help without Rich's markup."""
    return Text.from_markup(text).plain


if __name__ == "__main__":
    main()
