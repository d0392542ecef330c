"""How a memory, a proposal, a pass and what happened look on a terminal."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ...handlers.reviewing.wording import ACTION_SAYS, action_of, made_by, sides
from .output import counted, moment, one_line, safe, shown

if TYPE_CHECKING:
    from ...handlers.operating.views import (
        AsOfView,
        Chain,
        EventView,
        History,
        MemoryView,
        PassView,
        ProposalDetail,
        ProposalView,
        RefusedPair,
    )

SIDE_BY_SIDE = 100
"""Columns from which two memories stand beside each other."""
_LINES = 12
_BAR = 24
_ACTION_STYLE = {"archive": "yellow", "supersede": "cyan", "conflict": "red", "keep": "green"}
_TELLING = (
    *("action", "probability", "threshold", "unselected", "quote", "reason", "comment", "because", "memory_type"),
    *(
        "scope",
        "project",
        "project_before",
        "user",
        "agent",
        "subject",
        "tags",
        "trust",
        "core",
        "pinned",
        "edge",
        "predecessor",
        "successor",
        "held_until",
        "related_id",
        "proposal",
    ),
    *("effects", "lifted", "refuted_memory", "plan_id"),
    *("status_before", "status", "owner", "due_at", "next_surfacing_at", "recurrence", "cause", "epoch"),
)


def memory_card(view: "MemoryView") -> RenderableType:
    """Everything about one memory."""
    table = _facts()
    for name in type(view).model_fields:
        value = getattr(view, name)
        if name in ("content", "topic", "as_of") or value is None or value is False or value in ((), {}):
            continue
        table.add_row(name.replace("_", " "), safe(_said(value)))
    return Group(*_heading(view), table, Text(), safe(view.content))


def time_lines(as_of: "AsOfView | None") -> Iterator[Text]:
    """Of which times an answer is; nothing for the present."""
    if as_of is None:
        return
    said: list[str] = []
    if as_of.known_at is not None:
        said.append(f"as on record at {moment(as_of.known_at)}, position {as_of.position}")
    if as_of.valid_at is not None:
        said.append(f"what held at {moment(as_of.valid_at)}")
    yield Text("; ".join(said), "bold")


def refused_lines(pairs: "Sequence[RefusedPair]") -> Iterator[str]:
    """What an answer leaves out since nobody decided it yet."""
    for one in pairs:
        owner = "" if one.owner is None else f", which {one_line(one.owner)} decides"
        due = "" if one.due_at is None else f" by {moment(one.due_at)}"
        both = " and ".join(map(str, one.memories))
        yield f"not told: {both} contradict each other{owner}{due}; see: lethelog contradictions"


def pass_table(view: "PassView") -> RenderableType:
    """One forgetting pass."""
    table = _facts()
    style = {"completed": "green", "failed": "red"}.get(view.phase, "yellow")
    table.add_row("pass", str(view.id))
    table.add_row("phase", Text(view.phase, style))
    if view.failed_because:
        table.add_row("because", safe(view.failed_because.replace("_", " ")))
    table.add_row("requested", f"{moment(view.requested_at)} by {view.trigger}")
    if view.judge is not None:
        table.add_row("judge", safe(view.judge))
    if view.embedding_model is not None:
        table.add_row("embedding", safe(f"{view.embedding_model}; pairs from a cosine of {view.floor or 0:g} on"))
    table.add_row(
        "questions", f"{view.items} (qualified: {view.stale_singles} stale, {counted(view.pairs, 'pair')})"
    )
    if view.phase == "completed":
        table.add_row("judged", str(view.judged))
        if view.refused:
            because = ", ".join(f"{reason.replace('_', ' ')}: {n}" for reason, n in view.refused_because.items())
            table.add_row(
                "left unjudged", Text(f"{view.refused} ({because})" if because else str(view.refused), "yellow")
            )
        table.add_row("proposed", _counts(view.proposed))
        table.add_row("dismissed", _counts(view.dismissed))
    return table


def proposal_line(view: "ProposalView") -> Text:
    """A proposal on one line, its id whole."""
    line = Text.assemble(str(view.id), "  ", (f"{view.action:<9}", _ACTION_STYLE.get(view.action, "")))
    line.append("         " if view.probability is None else f"  {view.probability:5.1%}  ", "bold")
    line.append(f"{moment(view.created_at)}  ", "dim")
    line.append(view.status, "yellow" if view.status == "proposed" else "dim")
    marks = (("stale", view.stale), ("unselected thresholds", view.unselected), ("taken back", view.undone_at))
    for mark, on in marks:
        if on:
            line.append(f"  {mark}", "red")
    return line


def proposal_card(detail: "ProposalDetail", console: Console, *, full: bool = False) -> Iterator[RenderableType]:
    """A proposal as a reviewer needs it: what is proposed, both memories, why, how sure."""
    view = detail.proposal
    yield proposal_line(view)
    yield Text.assemble("proposes to ", (ACTION_SAYS.get(view.action, view.action), "bold"))
    quote = view.quote
    name, other = sides(view)
    shown = [_side(name, view.memory_id, detail.memory, quote, full)]
    if view.related_id is not None:
        shown.append(_side(other, view.related_id, detail.related, quote, full))
    if len(shown) == 2 and console.width >= SIDE_BY_SIDE:
        grid = Table.grid(expand=True, padding=(0, 1))
        grid.add_column(ratio=1)
        grid.add_column(ratio=1)
        grid.add_row(*shown)
        yield grid
    else:
        yield from shown
    if quote:
        yield Text.assemble(("evidence  ", "dim"), "“", safe(one_line(quote), "italic"), "”")
    for name, said in view.texts.items():
        yield Text.assemble((f"{name}  ", "dim"), safe(one_line(said)))
    yield bars(view, console)
    yield safe(made_by(view), "dim")
    if view.stale:
        yield Text("stale: a memory moved on since, so accepting would be refused", "red")
    if view.unselected:
        yield Text("its thresholds were not selected for this judge; look twice", "red")
    if view.decided_at is not None:
        by = f" by {one_line(view.decided_by)}" if view.decided_by else ""
        comment = f": {one_line(view.comment)}" if view.comment else ""
        yield safe(f"{view.status} {moment(view.decided_at)}{by}{comment}", "bold")
        if view.undone_at is not None:
            yield safe(f"taken back {moment(view.undone_at)} by {one_line(view.undone_by or '')}", "bold")
            yield Text(f"let it hold again with: lethelog undo perform --undo {view.undo_id}", "dim")
    elif view.withdrawn_because:
        yield Text(f"withdrawn: {view.withdrawn_because.replace('_', ' ')}", "bold")


def bars(view: "ProposalView", console: Console) -> RenderableType:
    """The probability map as bars; the mark is the threshold of the proposed action."""
    full, empty = ("█", "░") if "utf" in console.encoding.lower() else ("#", ".")
    table = Table.grid(padding=(0, 1))
    for key, probability in sorted(view.probabilities.items(), key=lambda item: -item[1]):
        filled = round(probability * _BAR)
        bar = Text(full * filled + empty * (_BAR - filled), _ACTION_STYLE.get(action_of(key), ""))
        note = ""
        if action_of(key) == view.action and view.threshold is not None:
            note = f"threshold {view.threshold:.2f}"
        table.add_row(safe(one_line(key)), bar, f"{probability:6.1%}", Text(note, "dim"))
    return table


def history_lines(found: "History") -> Iterator[RenderableType]:
    """What happened to a memory, in order."""
    for entry in found.entries:
        head = Text.assemble((f"{entry.position:>7}  ", "dim"), (f"{moment(entry.recorded_at)}  ", "dim"))
        head.append(entry.event, "bold").append(f"  {one_line(entry.actor)}", "cyan")
        if entry.judge:
            head.append(f"  judge {one_line(entry.judge)}", "dim")
        yield head
        if entry.new is not None and entry.new != entry.old:
            yield Text("         ").append_text(safe(one_line(entry.new)))
        details = _details(_by_name(entry.detail, entry.names))
        if details:
            yield Text("         ").append_text(safe(details, "dim"))


def _by_name(fields: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Fields of an event with outside names in the place of opaque ids, as far as they are known."""
    return {field: names.get(str(said), said) for field, said in fields.items()}


def event_lines(event: "EventView") -> Iterator[RenderableType]:
    """One event of the log."""
    head = Text.assemble((f"{event.position:>7}  ", "dim"), (f"{moment(event.recorded_at)}  ", "dim"))
    head.append(event.event, "bold").append(f"  {event.stream} v{event.version}", "dim")
    head.append(f"  {one_line(event.actor)}", "cyan")
    if event.judge:
        head.append(f"  judge {one_line(event.judge)}", "dim")
    yield head
    if event.broken is not None:
        yield Text(f"         cannot be read: {event.broken}", "red")
    elif event.data is None:
        yield Text("         an event of a newer version", "yellow")
    else:
        if event.data.get("content"):
            yield Text("         ").append_text(safe(one_line(event.data["content"])))
        details = _details(_by_name(event.data, event.names))
        if details:
            yield Text("         ").append_text(safe(details, "dim"))


def chain_lines(chain: "Chain") -> Iterator[RenderableType]:
    """How a proposal came to be, step by step."""
    for link in chain.links:
        head = Text.assemble((f"{link.position:>7}  ", "dim"), (f"{moment(link.recorded_at)}  ", "dim"))
        yield head.append(one_line(link.says)).append(f"  {one_line(link.actor)}", "cyan")
        yield Text(f"         {link.event} {link.event_id}, cause {link.cause}", "dim")
    if chain.more:
        yield Text(f"left out: {counted(chain.more, 'older proposal')}; to be explained by their ids", "dim")


def _side(
    name: str, memory_id: object, view: "MemoryView | None", quote: str | None, full: bool
) -> RenderableType:
    if view is None:
        return Panel(Text(f"{memory_id}\nno longer there"), title=name, title_align="left")
    body = safe(view.content)
    _mark_quote(body, quote)
    lines = body.split("\n", allow_blank=True)
    cut = not full and (len(lines) > _LINES or len(body) > 80 * _LINES)
    if cut:
        body = Text("\n").join(lines[:_LINES])
        body.truncate(80 * _LINES)
        body.append("\n… o shows all of it", "dim")
    facts = f"{view.memory_type}, {view.status}, {moment(view.occurred_at)}, {view.trust}"
    if view.project:
        facts += f", {one_line(view.project)}"
    if view.pinned or view.verified:
        facts += ", pinned" * view.pinned + ", verified" * view.verified
    return Panel(
        Group(Text(str(view.id), "dim"), Text(facts, "dim"), *_heading(view), body),
        title=name,
        title_align="left",
    )


def _heading(view: "MemoryView") -> list[Text]:
    """The topic, where it is more than the beginning of the text."""
    topic = one_line(view.topic)
    repeated = one_line(view.content).startswith(topic.removesuffix("…"))
    return [] if repeated else [safe(topic, "bold")]


def _mark_quote(body: Text, quote: str | None) -> None:
    words = shown(quote).strip() if quote else ""
    at = body.plain.find(words) if words else -1
    if at >= 0:
        body.stylize("black on yellow", at, at + len(words))


def _facts() -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _counts(counts: Mapping[str, int]) -> Text:
    if not counts:
        return Text("0")
    return Text(", ").join(
        Text.assemble((f"{count} ", "bold"), (action, _ACTION_STYLE.get(action, "")))
        for action, count in sorted(counts.items())
    )


def _details(detail: Mapping[str, Any]) -> str:
    """What tells something about an event; all of it is in ``--json``."""
    return ", ".join(
        f"{name.replace('_', ' ')} {one_line(_said(detail[name]))}"
        for name in _TELLING
        if detail.get(name) not in (None, False, "", [], {})
    )


def _said(value: object) -> str:
    if isinstance(value, datetime):
        return moment(value)
    if isinstance(value, tuple | list):
        return ", ".join(_said(one) for one in cast(Sequence[object], value))
    if isinstance(value, float):
        return f"{value:.3g}"
    return "yes" if value is True else str(value)
