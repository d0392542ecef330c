"""The verbs that write a memory or change one."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from ...domain.fields import Edge
from . import options as o
from .output import one_line, safe
from .session import Json, Session, fields

if TYPE_CHECKING:
    from ...handlers.operating.views import Written
    from ..local import Memory

_PANEL = "Write"


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    o.add(
        app,
        remember,
        'lethelog remember "Deploys go to Hetzner" --type decision --project site',
        "lethelog remember --imported --occurred-at 2024-05-01 - < minutes.md",
        "lethelog remember --tag ops --tag on-call --occurred-at 2026-03-01T09:00:00Z - < note.txt",
        'lethelog remember "Send the report" --type commitment --owner ada --due-at 2026-03-06T17:00:00Z',
        'lethelog remember "Prefers tea" --type preference --user ada --metadata source=chat --json',
        """lethelog remember "Ada uses vim" --fact '{"subject": "Ada", "predicate": "uses", "value": "vim"}'""",
        'lethelog remember -- "-v means verbose here"   # -- before a text that begins with a dash',
        panel=_PANEL,
    )
    o.add(
        app,
        revise,
        f'lethelog revise {o.ID} "Deploys go to our own machines since May"',
        f"lethelog revise {o.ID} - --expected-version 2 < new.txt",
        panel=_PANEL,
    )
    o.add(
        app,
        move,
        f"lethelog move {o.ID} --project site --tag ops",
        f"lethelog move {o.ID} --no-project --no-tags",
        panel=_PANEL,
    )
    o.add(app, reaffirm, f"lethelog reaffirm {o.ID}", panel=_PANEL)
    o.add(app, archive, f'lethelog archive {o.ID} --reason "no longer used"', panel=_PANEL)
    o.add(app, restore, f"lethelog restore {o.ID}", panel=_PANEL)
    o.add(app, refute, f'lethelog refute {o.ID} --reason "was never so"', panel=_PANEL)
    o.add(app, release, f'lethelog release {o.ID} --reason "checked, it is true"', panel=_PANEL)
    o.add(app, pin, f"lethelog pin {o.ID}", f"lethelog pin {o.ID} --off", panel=_PANEL)
    o.add(app, verify, f"lethelog verify {o.ID}", panel=_PANEL)


def remember(
    context: typer.Context,
    text: o.Content,
    topic: o.Topic = None,
    memory_type: o.Type = None,
    tags: o.TagList = None,
    project: o.Project = None,
    scope: o.Scope = None,
    metadata: o.Metadata = None,
    facts: o.Facts = None,
    producer: o.AsProducer = None,
    trust: o.AsTrust = None,
    imported: o.Imported = False,
    core: o.Core = False,
    pinned: o.Pinned = False,
    derived_from: o.DerivedFrom = None,
    user_id: o.User = None,
    agent_id: o.Agent = None,
    run_id: o.Run = None,
    session_id: o.InSession = None,
    subject: o.Subject = None,
    occurred_at: o.OccurredAt = None,
    valid_from: o.ValidFrom = None,
    valid_to: o.ValidTo = None,
    expires_at: o.ExpiresAt = None,
    owner: o.Owner = None,
    due_at: o.DueAt = None,
    next_surfacing_at: o.SurfacingAt = None,
    recurrence: o.Recurrence = None,
    session_run_id: o.SessionRun = None,
    key: o.Key = None,
    json_only: Json = False,
) -> None:
    """Remember a text.

    What is remembered already is found instead of written again, and the facts given are not written then.
    """
    given = fields(
        topic=topic,
        memory_type=memory_type,
        tags=tags,
        project=project,
        scope=scope,
        metadata=o.metadata_of(metadata),
        facts=o.facts_of(facts),
        producer=producer,
        trust=trust,
        core=core or None,
        pinned=pinned or None,
        derived_from=derived_from,
        user_id=user_id,
        agent_id=agent_id,
        run_id=run_id,
        session_id=session_id,
        subject=subject,
        occurred_at=occurred_at,
        valid_from=valid_from,
        valid_to=valid_to,
        expires_at=expires_at,
        owner=owner,
        due_at=due_at,
        next_surfacing_at=next_surfacing_at,
        recurrence=recurrence,
        session_run_id=session_run_id,
    )
    content = o.content_of(text)

    def write(memory: "Memory") -> "Written":
        door = memory.import_memory if imported else memory.remember
        return door(content, key=key, **given)

    _write(context, json_only, "remembered", write)


def revise(
    context: typer.Context,
    memory_id: o.MemoryId,
    text: o.Content,
    topic: o.Topic = None,
    memory_type: o.Type = None,
    tags: o.TagList = None,
    project: o.Project = None,
    scope: o.Scope = None,
    metadata: o.Metadata = None,
    producer: o.AsProducer = None,
    trust: o.AsTrust = None,
    core: o.Core = False,
    pinned: o.Pinned = False,
    derived_from: o.DerivedFrom = None,
    edge: Annotated[
        Edge | None, typer.Option("--edge", help="Whether it replaces the older one or only adds to it.")
    ] = None,
    user_id: o.User = None,
    agent_id: o.Agent = None,
    run_id: o.Run = None,
    session_id: o.InSession = None,
    subject: o.Subject = None,
    occurred_at: o.OccurredAt = None,
    valid_from: o.ValidFrom = None,
    valid_to: o.ValidTo = None,
    expires_at: o.ExpiresAt = None,
    owner: o.Owner = None,
    due_at: o.DueAt = None,
    next_surfacing_at: o.SurfacingAt = None,
    recurrence: o.Recurrence = None,
    expected_version: o.ExpectedVersion = None,
    session_run_id: o.SessionRun = None,
    key: o.Key = None,
    json_only: Json = False,
) -> None:
    """Write the successor of a memory; what is left out is taken from the older one."""
    given = fields(
        topic=topic,
        memory_type=memory_type,
        tags=tags,
        project=project,
        scope=scope,
        metadata=o.metadata_of(metadata),
        producer=producer,
        trust=trust,
        core=core or None,
        pinned=pinned or None,
        derived_from=derived_from,
        edge=edge,
        user_id=user_id,
        agent_id=agent_id,
        run_id=run_id,
        session_id=session_id,
        subject=subject,
        occurred_at=occurred_at,
        valid_from=valid_from,
        valid_to=valid_to,
        expires_at=expires_at,
        owner=owner,
        due_at=due_at,
        next_surfacing_at=next_surfacing_at,
        recurrence=recurrence,
        session_run_id=session_run_id,
        expected_version=expected_version,
    )
    content = o.content_of(text)
    _write(context, json_only, "revised", lambda memory: memory.revise(memory_id, content, key=key, **given))


def move(
    context: typer.Context,
    memory_id: o.MemoryId,
    scope: o.Scope = None,
    project: o.Project = None,
    no_project: Annotated[
        bool, typer.Option("--no-project", help="Take it out of its project.", rich_help_panel="Fields")
    ] = False,
    tags: o.TagList = None,
    no_tags: Annotated[
        bool, typer.Option("--no-tags", help="Take all its tags away.", rich_help_panel="Fields")
    ] = False,
    expected_version: o.ExpectedVersion = None,
    session_run_id: o.SessionRun = None,
    key: o.Key = None,
    json_only: Json = False,
) -> None:
    """File a memory elsewhere: scope, project, tags. Its text stays.

    The tags given replace those it has.
    """
    if tags and no_tags:
        raise typer.BadParameter("cannot be given together with --tag", param_hint="--no-tags")
    filing = fields(
        scope=scope,
        project=project,
        no_project=no_project or None,
        expected_version=expected_version,
        session_run_id=session_run_id,
    )
    if tags or no_tags:
        filing["tags"] = tags or []
    _write(context, json_only, "moved", lambda memory: memory.move(memory_id, key=key, **filing))


def reaffirm(
    context: typer.Context,
    memory_id: o.MemoryId,
    session_run_id: o.SessionRun = None,
    key: o.Key = None,
    json_only: Json = False,
) -> None:
    """Say that a memory still holds: it counts as fresh from now on."""
    _write(
        context,
        json_only,
        "reaffirmed",
        lambda memory: memory.reaffirm(memory_id, key=key, **fields(session_run_id=session_run_id)),
    )


def archive(
    context: typer.Context,
    memory_id: o.MemoryId,
    reason: o.Reason = None,
    expected_version: o.ExpectedVersion = None,
    session_run_id: o.SessionRun = None,
    key: o.Key = None,
    json_only: Json = False,
) -> None:
    """Put a memory away. It stays readable, and `restore` brings it back."""
    given: dict[str, Any] = {
        "reason": reason,
        **fields(expected_version=expected_version, session_run_id=session_run_id),
    }
    _write(context, json_only, "archived", lambda memory: memory.archive(memory_id, key=key, **given))


def restore(
    context: typer.Context,
    memory_id: o.MemoryId,
    reason: o.Reason = None,
    session_run_id: o.SessionRun = None,
    key: o.Key = None,
    json_only: Json = False,
) -> None:
    """Bring back what was archived or suppressed."""
    _write(
        context,
        json_only,
        "restored",
        lambda memory: memory.restore(memory_id, reason=reason, key=key, **fields(session_run_id=session_run_id)),
    )


def refute(
    context: typer.Context,
    memory_id: o.MemoryId,
    reason: o.Reason = None,
    session_run_id: o.SessionRun = None,
    key: o.Key = None,
    json_only: Json = False,
) -> None:
    """Say that a memory was never true. Its text comes back only into quarantine."""
    _write(
        context,
        json_only,
        "refuted",
        lambda memory: memory.refute(memory_id, reason=reason, key=key, **fields(session_run_id=session_run_id)),
    )


def release(
    context: typer.Context,
    memory_id: o.MemoryId,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why it is let in after all.")],
    session_run_id: o.SessionRun = None,
    key: o.Key = None,
    json_only: Json = False,
) -> None:
    """Let a quarantined memory in after all."""
    _write(
        context,
        json_only,
        "released",
        lambda memory: memory.release(memory_id, reason=reason, key=key, **fields(session_run_id=session_run_id)),
    )


def pin(
    context: typer.Context,
    memory_id: o.MemoryId,
    off: Annotated[bool, typer.Option("--off", help="No longer protect it.")] = False,
    session_run_id: o.SessionRun = None,
    key: o.Key = None,
    json_only: Json = False,
) -> None:
    """Protect a memory from every proposal but conflict."""
    done = "unpinned" if off else "pinned"
    _write(
        context,
        json_only,
        done,
        lambda memory: memory.pin(memory_id, pinned=not off, key=key, **fields(session_run_id=session_run_id)),
    )


def verify(
    context: typer.Context,
    memory_id: o.MemoryId,
    session_run_id: o.SessionRun = None,
    key: o.Key = None,
    json_only: Json = False,
) -> None:
    """Record that a memory was confirmed."""
    _write(
        context,
        json_only,
        "verified",
        lambda memory: memory.verify(memory_id, key=key, **fields(session_run_id=session_run_id)),
    )


def _write(context: typer.Context, json_only: bool, done: str, command: "Callable[[Memory], Written]") -> None:
    session = Session.of(context, json_only)
    with session.open() as memory:
        written = command(memory)
    printer = session.printer
    if printer.json_only:
        printer.document(written)
        return
    view = written.memory
    if written.deduplicated:
        done = "already remembered"
    elif not written.changed:
        done = f"already {done}"
    style = "green" if written.changed and not written.deduplicated else "yellow"
    printer.line(Text(done, style=style), " ", str(view.id), Text(f"  {view.memory_type}, {view.status}", "dim"))
    printer.line("  ", safe(one_line(view.topic)))
    for fact_id in written.fact_ids:
        printer.line(Text(f"  fact {fact_id}", "dim"))
