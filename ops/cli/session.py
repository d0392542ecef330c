"""One run of the command line: what the global options say, and the way to an open memory."""

import asyncio
import contextlib
import dataclasses
import os
import threading
from collections.abc import Callable, Collection, Coroutine, Generator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from .output import Printer

if TYPE_CHECKING:
    from ...handlers.operating.workers import Role
    from ..local import Memory
    from ..settings import Settings

T = TypeVar("T")
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, and errors as JSON on stderr.")]
"""The option every command has."""
VIEWS = (
    "live_memory",
    "review_queue",
    "memory_history",
    "facts",
    "commitments",
    "contradictions",
    "effects",
    "sessions",
)
_CLEANUP_SECONDS = 15.0
_PATIENCE_SECONDS = 20.0
"""How long a read model may stand still before a read gives up waiting for it."""


@dataclass
class Session:
    """What stands before the verb, and ``--json`` behind it."""

    data_dir: Path | None = None
    tenant: str | None = None
    actor: str | None = None
    token_file: Path | None = None
    json_only: bool = False
    options: Mapping[str, str] = dataclasses.field(default_factory=dict[str, str])
    """What to type for each parameter of the command that took over: ``memory_types`` is ``--type``."""
    started: bool = False
    """Whether a command took over, so that ``json_only`` is what it was told."""

    @classmethod
    def of(cls, context: typer.Context, json_only: bool) -> "Session":
        """The session of a command."""
        session = context.ensure_object(cls)
        session.json_only, session.started = json_only, True
        session.options = {
            one.name: one.opts[0] for one in context.command.params if one.name and one.param_type_name == "option"
        }
        return session

    @cached_property
    def printer(self) -> Printer:
        """Where this command prints."""
        return Printer(json_only=self.json_only)

    @cached_property
    def settings(self) -> "Settings":
        """Options over environment over file. Raises `Misconfigured`."""
        from ..settings import Settings

        loaded = Settings.load(
            data_dir=self.data_dir, tenant=self.tenant, actor=self.actor, token_file=self.token_file
        )
        # A worker outlives the working directory that a relative path was meant for.
        return loaded.model_copy(update={"data_dir": _absolute(loaded.data_dir)})

    @contextlib.contextmanager
    def open(self, roles: "Collection[Role]" = (), *, ensure: bool = True) -> "Generator[Memory]":
        """The memory, with these background roles running in this process."""
        from ..local import Memory

        with Memory.open(self.settings, roles, ensure=ensure) as memory:
            yield memory

    @contextlib.contextmanager
    def installation(self) -> "Generator[Memory]":
        """The memory, for a verb about what all tenants share."""
        from ..local import Memory

        with Memory.open(self.settings.of_installation(), ()) as memory:
            memory.run(memory.asyncio.caller()).require("installation:admin")
            yield memory

    @contextlib.contextmanager
    def reading(self, *views: str) -> "Generator[Memory]":
        """The memory, once these read models hold all that is on record: also what another process just wrote."""
        from .background import runs_everything

        # A background worker keeps them up to date already; a second process would only stand by.
        with self.open(() if runs_everything(self.settings) else ("views",)) as memory:
            self.catch_up(memory, views or VIEWS)
            yield memory

    def catch_up(self, memory: "Memory", views: Collection[str]) -> None:
        """Wait for read models, for as long as they move. Raises `NotCaughtUp`."""
        with contextlib.ExitStack() as stack:
            show: Callable[[str], None] | None = None
            if self.printer.watched:
                status = self.printer.err.status("")

                def started(text: str) -> None:
                    status.update(text)
                    status.start()

                stack.callback(status.stop)
                show = started
            memory.run(_caught_up(memory, views, show))


def _absolute(path: Path) -> Path:
    from ...domain.errors import Misconfigured

    try:
        return path.expanduser().resolve()
    except (OSError, RuntimeError, ValueError) as error:  # no home, a loop of links, a NUL
        raise Misconfigured(f"The data directory cannot be found: {error}", setting="LETHELOG_DATA_DIR") from None


async def _caught_up(memory: "Memory", views: Collection[str], show: Callable[[str], None] | None) -> None:
    from ...domain.errors import NotCaughtUp
    from ...projections.progress import read_progress

    database, head = memory.asyncio.engine.database, await memory.asyncio.engine.log.head()
    for name in views:
        reached, deadline = -1, 0.0
        while True:
            async with database.connection() as connection:
                progress = await read_progress(connection, name)
            now = asyncio.get_running_loop().time()
            if progress.position >= head:
                break
            if progress.position > reached:
                reached, deadline = progress.position, now + _PATIENCE_SECONDS
            elif now > deadline:
                raise NotCaughtUp(
                    f"the read model {name} stands still at position {progress.position} of {head}; "
                    "see what is wrong with: lethelog doctor",
                    read_model=name,
                    position=head,
                )
            elif show is not None and now > deadline - _PATIENCE_SECONDS + 0.5:
                show(f"{name} reads the log: {progress.position} of {head}")
            await asyncio.sleep(0.02)
    memory.asyncio.position = max(memory.asyncio.position, head)


def finishing(memory: "Memory", work: Coroutine[Any, Any, T]) -> T:
    """Run it; on Ctrl-C wait until it has cleared away what it had begun."""
    ended = threading.Event()

    async def whole() -> T:
        try:
            return await work
        finally:
            ended.set()

    try:
        return memory.run(whole())
    except KeyboardInterrupt:
        ended.wait(_CLEANUP_SECONDS)
        raise


def fields(**values: Any) -> dict[str, Any]:
    """Those arguments that were given."""
    return {name: value for name, value in values.items() if value not in (None, [], ())}


def debugging() -> bool:
    """Whether the reader wants to see how an error came about."""
    return bool(os.environ.get("LETHELOG_DEBUG"))
