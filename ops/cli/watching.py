"""``review --watch``: proposals as the broker brings them."""

import asyncio
import contextlib
import json
import signal
from typing import TYPE_CHECKING

from rich.text import Text

from ...domain.errors import NotFound
from .cards import proposal_line, sides
from .output import one_line, safe, write
from .session import Session

if TYPE_CHECKING:
    from ...handlers.operating.views import ProposalDetail
    from ...handlers.operating.workers import Role

_ROLES: "frozenset[Role]" = frozenset(("views", "relay"))


def watch_proposals(session: Session, kind: str | None, action: str | None, since: int | None) -> None:
    """Print this tenant's proposals until SIGINT or SIGTERM. With ``--json`` one document a line."""
    from .background import runs_everything

    roles = frozenset[Role]() if runs_everything(session.settings) else _ROLES
    asyncio.run(_until_stopped(session, roles, kind, action, since))


async def _until_stopped(
    session: Session, roles: "frozenset[Role]", kind: str | None, action: str | None, since: int | None
) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    watching = asyncio.ensure_future(_watch(session, roles, kind, action, since))
    stopping = asyncio.ensure_future(stopped.wait())
    await asyncio.wait({watching, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if watching.done():
        await watching
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching


async def _watch(
    session: Session, roles: "frozenset[Role]", kind: str | None, action: str | None, since: int | None
) -> None:
    from ...domain.events import ProposalStaged, Staged
    from ...streams.follow import follow
    from ..local import open_memory
    from .serving import broker_settings

    async with await open_memory(session.settings, roles) as door:
        broker = await asyncio.to_thread(broker_settings, session.settings)
        # Taken before anybody is told that it watches: what is proposed from then on is not missed.
        start = await door.engine.log.head() if since is None else since - 1
        events = follow(broker, names=("proposal.*",), decode=door.engine.log.decode, start=start)
        session.printer.note("watching for proposals; stop with Ctrl-C")
        async with contextlib.aclosing(events):
            async for recorded in events:
                staged = recorded.event
                caller = await door.caller()
                if recorded.tenant != caller.tenant or not isinstance(staged, ProposalStaged | Staged):
                    continue
                if action is not None and staged.action != action:
                    continue
                of_kind = staged.KIND if isinstance(staged, Staged) else staged.kind
                if kind is not None and of_kind != kind:
                    continue
                door.position = max(door.position, recorded.position)
                with contextlib.suppress(NotFound):
                    _print(session, await door.proposal(recorded.stream))


def _print(session: Session, detail: "ProposalDetail") -> None:
    printer = session.printer
    if printer.json_only:
        write(json.dumps(detail.model_dump(mode="json")))
        return
    printer.line(proposal_line(detail.proposal))
    for name, view in zip(sides(detail.proposal), (detail.memory, detail.related), strict=True):
        if view is not None:
            printer.line(Text(f"  {name}  ", "dim"), safe(one_line(view.topic)))
    if detail.proposal.quote:
        printer.line(Text("  says   ", "dim"), safe(f"“{one_line(detail.proposal.quote)}”"))
    for name, said in detail.proposal.texts.items():
        printer.line(Text(f"  {name}  ", "dim"), safe(one_line(said)))
