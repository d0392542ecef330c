"""Runs one command, and turns whatever happens into an exit status and one clear line.

0 is done; 2 is a command, a setting or an id that has to be corrected; 1 is everything else; 130 is Ctrl-C.
"""

import contextlib
import logging
import os
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

from ...domain.errors import InvalidInput, LethelogError, Misconfigured, NotFound, WrongKind

_BEFORE_THE_VERB = {"--tenant": "NAME", "--data-dir": "PATH", "--actor": "KIND:NAME"}
DONE, FAILED, TO_CORRECT, INTERRUPTED = 0, 1, 2, 130
_TO_CORRECT = (InvalidInput, Misconfigured, NotFound, WrongKind)


def main(argv: Sequence[str] | None = None) -> None:
    """The console script."""
    sys.exit(run(sys.argv[1:] if argv is None else argv))


def run(argv: Sequence[str]) -> int:
    """Run one command; answers the exit status. For programs too: nothing exits, nothing is left running."""
    running = _Running(list(argv))
    _prepare_streams()
    _silence_libraries()
    try:
        status = running.run()
        _flush()
        return status
    except BrokenPipeError:
        # Whoever read the output has left, which is no mistake of the command's.
        _silence_output()
        return FAILED
    except OSError as error:
        _silence_output()
        return running.fail("output", f"the output cannot be written: {error.strerror or error}", FAILED)


class _Running:
    """One command line."""

    def __init__(self, arguments: list[str]) -> None:
        from .session import Session

        self._arguments = arguments
        self._session = Session()

    def run(self) -> int:
        """The exit status. Only trouble with the output comes through as an exception."""
        from typer import Abort

        try:
            status = _whole_command().main(
                args=self._arguments, prog_name="lethelog", standalone_mode=False, obj=self._session
            )
            if status == INTERRUPTED:
                return _interrupted()
            return status if isinstance(status, int) else DONE
        except LethelogError as error:
            return self._report(self._as_typed(error), TO_CORRECT if isinstance(error, _TO_CORRECT) else FAILED)
        except (KeyboardInterrupt, Abort):
            return _interrupted()
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else FAILED
        except BrokenPipeError:
            raise
        except Exception as error:
            # Usage errors are Click's, which some versions of Typer bring along under a private name.
            return self._misused(error) if hasattr(error, "format_message") else self._unforeseen(error)

    def fail(self, code: str, message: str, status: int) -> int:
        """Report an error that is none of the project's own."""
        return self._report({"code": code, "message": message}, status)

    def _as_typed(self, error: LethelogError) -> dict[str, object]:
        """The error by the option that was typed, where the field it is about was given by one."""
        said = error.as_dict()
        if not isinstance(error, InvalidInput):
            return said
        name, _, inside = error.field.partition(".")
        option = self._session.options.get(name)
        if option is None:
            return said
        where = option if not inside or inside.isdigit() else f"{option}: {inside}"
        return {**said, "message": where + error.message.removeprefix(error.field), "option": option}

    def _misused(self, error: Exception) -> int:
        """A command line that cannot be understood."""
        status: int = getattr(error, "exit_code", TO_CORRECT)
        message: str = getattr(error, "format_message", error.__str__)()
        if type(error).__name__ == "NoArgsIsHelpError":
            from .output import write

            write(message)
            return status
        message = message.replace("Value error, ", "").rstrip(".")
        if message.startswith("No such option") and "--" not in self._arguments:
            message += _where_it_goes(message)
        path = getattr(getattr(error, "ctx", None), "command_path", "lethelog")
        return self.fail("invalid_input", f"{message}. See: {path} --help", status)

    def _unforeseen(self, error: Exception) -> int:
        """A fault of the program. Its text may hold content, so only its kind is told."""
        from .session import debugging

        if debugging():
            import traceback

            traceback.print_exc()
        hint = "" if debugging() else "; LETHELOG_DEBUG=1 shows where"
        return self.fail("internal", f"an unforeseen {type(error).__name__}{hint}", FAILED)

    def _report(self, error: dict[str, object], status: int) -> int:
        from .output import as_json, one_line

        text = as_json({"error": error}) if self._wants_json() else f"error: {one_line(error['message'])}"
        with contextlib.suppress(OSError, ValueError, AttributeError):
            print(text, file=sys.stderr, flush=True)
        return status

    def _wants_json(self) -> bool:
        """What the command was told; of a command line that was not understood, whether it says ``--json``."""
        if self._session.started:
            return self._session.json_only
        given = self._arguments
        return "--json" in (given[: given.index("--")] if "--" in given else given)


@cache
def _whole_command() -> Any:
    """All verbs, put together once: for a program that runs many commands this is a third of each."""
    from typer.main import get_command

    from .app import app

    return get_command(app)


def _where_it_goes(message: str) -> str:
    """What helps with an option that a command does not have."""
    for option, value in _BEFORE_THE_VERB.items():
        if message.startswith(f"No such option: {option}"):
            return f". It stands before the verb: lethelog {option} {value} VERB …"
    return ". Before a text that begins with a dash put --"


def _interrupted() -> int:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        print("interrupted", file=sys.stderr, flush=True)
    return INTERRUPTED


def _prepare_streams() -> None:
    """A character that the terminal's encoding lacks is spelt out; it must not end the command."""
    # Input that is no text comes through, for the engine to refuse it by name.
    for stream, errors in (
        (sys.stdout, "backslashreplace"),
        (sys.stderr, "backslashreplace"),
        (sys.stdin, "surrogateescape"),
    ):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors=errors)


def _silence_libraries() -> None:
    """The database client logs each trouble as it meets it; what matters of it comes as an error of ours."""
    for name in ("psycopg", "psycopg.pool"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _flush() -> None:
    if sys.stdout is not None:  # pyright: ignore[reportUnnecessaryComparison] - None where it was closed
        sys.stdout.flush()


def _silence_output() -> None:
    """Let the interpreter's own flush at exit go nowhere."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
