"""Walking the review queue with single keys."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer
from rich.rule import Rule
from rich.text import Text

from ...domain.errors import Conflict, InvalidInput, LethelogError, NotFound
from . import options as o
from .cards import chain_lines, proposal_card
from .digest import digest_lines
from .keys import Keys, reading_keys
from .output import Printer, counted, one_line, safe, write
from .review_stats import stats
from .session import Json, Session, fields

if TYPE_CHECKING:
    from ...handlers.operating.views import ProposalDetail
    from ..local import Memory

WAITING = 3
"""Exit status of a digest while something waits."""
_PAGE = 100
_MENU = "a accept  r reject  s skip  c comment  o open  e explain  q quit"


def register(app: typer.Typer) -> None:
    """Add the group to the command line; without a verb of its own it walks the queue."""
    group = typer.Typer()
    o.add_callback(
        group,
        review,
        "lethelog review",
        "lethelog review --action supersede",
        "printf 'a\\ns\\nq\\n' | lethelog review   # the same keys, one a line",
        "lethelog review --watch   # print proposals as they come",
        "lethelog review --watch --from 1200 --json",
    )
    o.add(
        group,
        digest,
        "lethelog review digest",
        "lethelog review digest --since 2026-03-01T09:00:00Z --json",
        "lethelog review digest > digest.txt || mail -s 'to review' team@example.org < digest.txt",
    )
    o.add(
        group,
        stats,
        "lethelog review stats",
        "lethelog review stats --since 2026-03-01T00:00:00Z --json",
        "lethelog review stats --prometheus > /var/lib/node_exporter/lethelog.prom",
    )
    app.add_typer(group, name="review", rich_help_panel="Forget")


def review(
    context: typer.Context,
    kind: Annotated[o.ProposalKind | None, typer.Option("--kind", help="Only this kind.")] = None,
    action: Annotated[o.ProposalAction | None, typer.Option("--action", help="Only this action.")] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Print proposals as the broker brings them, until Ctrl-C.")
    ] = False,
    since: Annotated[
        int | None,
        typer.Option("--from", min=1, metavar="POSITION", help="With --watch: also those recorded from here on."),
    ] = None,
    json_only: Json = False,
) -> None:
    """Walk through what is proposed, and decide.

    Keys: a accept, r reject, s skip, c comment and then decide, o open the full text, e explain, q quit. What is
    skipped stays in the queue.
    """
    if context.invoked_subcommand is not None:
        return
    session = Session.of(context, json_only)
    if watch:
        from .watching import watch_proposals

        watch_proposals(session, kind, action, since)
        return
    if since is not None:
        raise InvalidInput("from", "goes with --watch")
    # Proposals show their memories, and an explanation walks the log.
    with session.reading("review_queue", "live_memory") as memory:
        walk = Walk(session.printer, memory)
        try:
            with reading_keys(walk.ask_line) as keys:
                walk.go(_open_proposals(memory, **fields(kind=kind, action=action)), keys)
            session.catch_up(memory, ("review_queue",))
        except BaseException:
            # Whatever ends the walk, what was decided stays decided.
            session.printer.note(str(walk.done))
            raise
    session.printer.answer(walk.done.as_dict(), Text(str(walk.done), "bold"))


def digest(
    context: typer.Context,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="INSTANT", help="Count what came and was decided since; a day by default."
        ),
    ] = None,
    kind: Annotated[o.ProposalKind | None, typer.Option("--kind", help="Only this kind.")] = None,
    json_only: Json = False,
) -> None:
    """Count what waits for review and what was decided, as plain text for a mail. Exit 3 while something waits.

    Exit 0 says that nothing waits. No memory's text is in it.
    """
    session = Session.of(context, json_only)
    with session.reading("review_queue", "live_memory") as memory:
        found = memory.review_digest(**fields(since=since, kind=kind))
    if json_only:
        session.printer.document(found)
    else:
        write("\n".join(digest_lines(found)))
    if found.total:
        raise typer.Exit(WAITING)


@dataclass
class Done:
    """What came of a walk."""

    accepted: list[UUID] = field(default_factory=list[UUID])
    rejected: list[UUID] = field(default_factory=list[UUID])
    skipped: list[UUID] = field(default_factory=list[UUID])
    left: int = 0
    """Proposals that were not reached."""

    def __str__(self) -> str:
        return f"{len(self.accepted)} accepted, {len(self.rejected)} rejected, {len(self.skipped)} skipped"

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "accepted": [str(one) for one in self.accepted],
            "rejected": [str(one) for one in self.rejected],
            "skipped": [str(one) for one in self.skipped],
            "left": self.left,
        }


class Walk:
    """One walk through the queue. With ``--json`` the questions go to the error stream."""

    def __init__(self, printer: Printer, memory: "Memory") -> None:
        self.done = Done()
        self._memory = memory
        self._console = printer.err if printer.json_only else printer.out

    def go(self, ids: list[UUID], keys: Keys) -> None:
        """Ask about each of them, until there are no more or somebody quits."""
        if not ids:
            self._say("nothing to review")
        for number, one in enumerate(ids):
            try:
                detail = self._memory.proposal(one)
            except NotFound:
                continue
            if detail.proposal.status != "proposed":
                self._say(f"{one} is {detail.proposal.status} by now")
                continue
            self._console.print(Rule(f"{number + 1} of {len(ids)}"))
            self._show(detail)
            if not self._decide(detail, keys):
                self.done.left = len(ids) - number
                break

    def ask_line(self, prompt: str) -> None:
        """Show the question that a line of text answers."""
        self._console.print(safe(prompt, "bold"), end="")

    def _decide(self, detail: "ProposalDetail", keys: Keys) -> bool:
        """Ask until this proposal is done with; False to quit."""
        proposal = detail.proposal.id
        comment: str | None = None
        while True:
            self._console.print(Text(_MENU, "bold cyan"))
            key = keys.key()
            if key is None or key == "q":
                return False
            if key == "s":
                self.done.skipped.append(proposal)
                return True
            if key in ("a", "r"):
                if self._settle(proposal, accepted=key == "a", comment=comment):
                    (self.done.accepted if key == "a" else self.done.rejected).append(proposal)
                    return True
            elif key == "c":
                comment = self._comment(keys, comment)
            elif key == "o":
                self._show(detail, full=True)
            elif key == "e":
                self._try(self._explain, proposal)
            elif key:
                self._say(f"{one_line(key)} is no key here")

    def _settle(self, proposal: UUID, *, accepted: bool, comment: str | None) -> bool:
        """Decide; False where it could not be, and the reviewer may choose again."""
        decide = self._memory.accept if accepted else self._memory.reject
        try:
            decided = decide(proposal, comment=comment)
        except (Conflict, InvalidInput) as error:
            self._say(f"error: {error.message}", "red")
            return False
        said = Text("accepted" if accepted else "rejected", "green")
        if decided.withdrawn:
            said.append(f", {counted(len(decided.withdrawn), 'sibling proposal')} withdrawn", "dim")
        self._console.print(said)
        return True

    def _comment(self, keys: Keys, present: str | None) -> str | None:
        given = keys.line("comment: ")
        if given is None or not given.strip():
            return present
        self._say("the comment goes with your decision; a or r")
        return given

    def _explain(self, proposal: UUID) -> None:
        for line in chain_lines(self._memory.explain(proposal)):
            self._console.print(line, soft_wrap=True)

    def _try(self, work: Callable[[UUID], None], proposal: UUID) -> None:
        try:
            work(proposal)
        except LethelogError as error:
            self._say(f"error: {error.message}", "red")

    def _show(self, detail: "ProposalDetail", *, full: bool = False) -> None:
        for one in proposal_card(detail, self._console, full=full):
            self._console.print(one)

    def _say(self, text: str, style: str = "dim") -> None:
        self._console.print(safe(text, style), soft_wrap=True)


def _open_proposals(memory: "Memory", **narrowed: Any) -> list[UUID]:
    """Ids of what is open now; what comes during the walk waits for the next one."""
    query: dict[str, Any] = {"status": "proposed", "limit": _PAGE, **narrowed}
    found: list[UUID] = []
    while True:
        page = memory.proposals(**query)
        found += [one.id for one in page.proposals]
        if page.next_cursor is None:
            return found
        query["cursor"] = page.next_cursor
