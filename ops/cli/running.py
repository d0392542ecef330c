"""Runs one command, and turns whatever happens into an exit status and one clear line.

0 is done; 2 is a command, a setting or an id that has to be corrected; 1 is everything else; 130 is Ctrl-C.
"""

import contextlib
import os
import sys
from collections.abc import Sequence

from ...domain.errors import InvalidInput, LethelogError, Misconfigured, NotFound, WrongKind

DONE, FAILED, TO_CORRECT, INTERRUPTED = 0, 1, 2, 130
_TO_CORRECT = (InvalidInput, Misconfigured, NotFound, WrongKind)


def main(argv: Sequence[str] | None = None) -> None:
    """The console script."""
    sys.exit(run(sys.argv[1:] if argv is None else argv))


def run(argv: Sequence[str]) -> int:
    """Run one command; answers the exit status. For programs too: nothing is left behind, nothing exits."""
    arguments = list(argv)
    _prepare_streams()
    try:
        status = _run(arguments)
        _flush()
        return status
    except BrokenPipeError:
        # Whoever read the output has left, which is no mistake of the command's.
        _silence_output()
        return FAILED
    except OSError as error:
        _silence_output()
        return _fail(arguments, "output", f"the output cannot be written: {error.strerror or error}", FAILED)


def _run(arguments: list[str]) -> int:
    from typer.exceptions import Abort, TyperException
    from typer.main import get_command

    from .app import app

    try:
        status = get_command(app).main(args=arguments, prog_name="lethelog", standalone_mode=False)
        if status == INTERRUPTED:
            return _interrupted()
        return status if isinstance(status, int) else DONE
    except LethelogError as error:
        return _report(arguments, error.as_dict(), TO_CORRECT if isinstance(error, _TO_CORRECT) else FAILED)
    except TyperException as error:
        return _misused(arguments, error)
    except (KeyboardInterrupt, Abort):
        return _interrupted()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILED
    except BrokenPipeError:
        raise
    except Exception as error:
        return _unforeseen(arguments, error)


def _misused(arguments: list[str], error: Exception) -> int:
    """A command line that cannot be understood."""
    status: int = getattr(error, "exit_code", TO_CORRECT)
    if type(error).__name__ == "NoArgsIsHelpError":
        from .output import write

        write(getattr(error, "message", ""))
        return status
    message: str = getattr(error, "format_message", error.__str__)()
    message = message.replace("Value error, ", "").rstrip(".")
    if message.startswith("No such option") and "--" not in arguments:
        message += ". Before a text that begins with a dash put --"
    path = getattr(getattr(error, "ctx", None), "command_path", "lethelog")
    return _fail(arguments, "invalid_input", f"{message}. See: {path} --help", status)


def _unforeseen(arguments: list[str], error: Exception) -> int:
    """A fault of the program. Its text may hold content, so only its kind is told."""
    from .session import debugging

    if debugging():
        import traceback

        traceback.print_exc()
    hint = "" if debugging() else "; LETHELOG_DEBUG=1 shows where"
    return _fail(arguments, "internal", f"an unforeseen {type(error).__name__}{hint}", FAILED)


def _interrupted() -> int:
    with contextlib.suppress(OSError, ValueError):
        print("interrupted", file=sys.stderr)
    return INTERRUPTED


def _fail(arguments: list[str], code: str, message: str, status: int) -> int:
    return _report(arguments, {"code": code, "message": message}, status)


def _report(arguments: list[str], error: dict[str, object], status: int) -> int:
    from .output import as_json, one_line

    if wants_json(arguments):
        text = as_json({"error": error})
    else:
        text = f"error: {one_line(error['message'])}"
    with contextlib.suppress(OSError, ValueError, AttributeError):
        print(text, file=sys.stderr, flush=True)
    return status


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether ``--json`` is among the options, also of a command line that was not understood."""
    options = list(arguments[: arguments.index("--")] if "--" in arguments else arguments)
    return "--json" in options


def _prepare_streams() -> None:
    """A character that the terminal's encoding lacks is spelt out; it must not end the command."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _flush() -> None:
    if sys.stdout is not None:  # pyright: ignore[reportUnnecessaryComparison] - None where it was closed
        sys.stdout.flush()


def _silence_output() -> None:
    """Let the interpreter's own flush at exit go nowhere."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
