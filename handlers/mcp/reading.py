"""The tools that read."""

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from ...domain.display import one_line
from ...domain.errors import Erased, InvalidInput, LethelogError, NotFound, WrongKind
from .answers import Answer, briefing_text, lean, line, lines, marked, present, quoted, shortened
from .arguments import CONTENT_SHOWN_IN_ALL
from .tool import Call

if TYPE_CHECKING:
    from ..operating.views import HistoryEntry, MemoryView

_SCOPES_SHOWN = 25


async def search(call: Call) -> Answer:
    """The best matches, or without a query a page of memories, newest first."""
    query = call.given.pop("query", None)
    if query is None:
        page = await call.memory.list(**call.given)
        data = present(
            hits=[shortened(one) for one in page.memories],
            count=len(page.memories),
            total=page.total,
            next_cursor=page.next_cursor,
            applied_scope=page.applied_scope,
        )
        more = "" if page.next_cursor is None else f"; the next page begins at cursor {page.next_cursor}"
        return Answer(
            data, lines(f"{len(page.memories)} of {page.total} memories{more}", map(line, page.memories))
        )
    if "cursor" in call.given:
        raise InvalidInput("cursor", "goes with a list, which has no query", "Ask for more with limit, at most 25")
    result = await call.memory.search(query, **call.given)
    hits: list[dict[str, Any]] = []
    said: list[str] = []
    for hit in result.hits:
        superseded = {"superseded": True} if hit.superseded else {}
        hits.append({**shortened(hit.memory), "score": round(hit.score, 4), **superseded})
        said.append(f"{line(hit.memory)} ({hit.score:.2f}{', superseded' if hit.superseded else ''})")
    data = present(hits=hits, count=result.count, applied_scope=result.applied_scope)
    return Answer(data, lines(f"{result.count} found", said))


async def get_memories(call: Call) -> Answer:
    """Memories in full, in the order asked; those that there are not are told apart, with the reason of each."""
    ids, characters = call.given.pop("ids"), call.given.pop("max_content_chars")
    if len(ids) * characters > CONTENT_SHOWN_IN_ALL:
        most = CONTENT_SHOWN_IN_ALL // len(ids)
        raise InvalidInput("max_content_chars", f"must be at most {most} for {len(ids)} ids")
    found: list[MemoryView] = []
    refused: list[tuple[str, LethelogError]] = []
    try:
        found = list(await call.memory.get_many(ids, **call.given))
    except (NotFound, WrongKind, Erased):
        for one in ids:
            try:
                found.append(await call.memory.get(one, **call.given))
            except (NotFound, WrongKind, Erased) as error:
                refused.append((one, error))
    if not found:
        raise refused[0][1]
    missing = [{"id": one, "code": error.code, "message": error.message} for one, error in refused]
    memories = [shortened(one, characters) for one in found]
    data = {"memories": memories, "count": len(found), **({"missing": missing} if missing else {})}
    texts = [
        f"{marked(one)} {one_line(one.topic)}\n{quoted(told['content'])}"
        for one, told in zip(found, memories, strict=True)
    ]
    return Answer(data, "\n\n".join([*texts, *(one_line(f"{one}: {error.message}") for one, error in refused)]))


async def get_facts(call: Call) -> Answer:
    """A page of facts, the latest recorded first."""
    page = await call.memory.get_facts(**call.given)
    data = present(facts=[lean(one) for one in page.facts], total=page.total, next_cursor=page.next_cursor)
    said = [f"{one_line(one.subject)} {one_line(one.predicate)} {one_line(one.value)}" for one in page.facts]
    return Answer(data, lines(f"{len(page.facts)} of {page.total} facts", said))


async def briefing(call: Call) -> Answer:
    """What somebody who starts, or takes over, should know."""
    view = await call.memory.briefing(call.given.pop("selector"), **call.given)
    sections = {
        name: {"count": one.count, "has_more": one.has_more, "items": [lean(item) for item in one.items]}
        for name, one in view.sections.items()
    }
    data = present(
        selector=lean(view.selector),
        mode=view.mode,
        generated_at=view.generated_at.isoformat(),
        sections=sections,
        applied_scope=view.applied_scope,
    )
    return Answer(data, briefing_text(view))


async def history(call: Call) -> Answer:
    """The newest events that concern a memory, in order, and on request how it came to be as it is."""
    memory_id, limit, explain = call.given["memory_id"], call.given["limit"], call.given.get("explain", False)
    view = await call.memory.history(memory_id, **present(known_at=call.given.get("known_at")))
    shown = view.entries[-limit:]
    omitted = len(view.entries) - len(shown)
    data = present(
        memory_id=str(view.memory_id),
        entries=[lean(one) for one in shown],
        total=len(view.entries),
        earlier_known_at=str(shown[0].position - 1) if omitted else None,
    )
    said = lines(f"{len(shown)} of {len(view.entries)} events", map(_happened, shown))
    if explain:
        chain = await call.memory.explain(memory_id)
        data["chain"] = [lean(one) for one in chain.links]
        said = lines(said, (f"{one.recorded_at:%Y-%m-%d %H:%M} {one_line(one.says)}" for one in chain.links))
    return Answer(data, said)


async def status(call: Call) -> Answer:
    """Whose memory this is and how it stands."""
    memory = call.memory
    who = await memory.whoami()
    data: dict[str, Any] = {"version": version("lethelog"), "actor": who.actor, "permissions": [*who.permissions]}
    may = ", ".join(who.permissions) or "nothing"
    said = [f"Lethelog {data['version']}, as {one_line(who.actor)}", f"may: {may}"]
    if "memory:read" in who.permissions:
        scopes, waiting = await memory.scopes(limit=_SCOPES_SHOWN), await memory.review_digest()
        report, settings = await memory.policy_report(), await memory.settings()
        data |= present(
            live_memories=report.live_memories,
            judgment=settings.judgment,
            scopes=[lean(one) for one in scopes.scopes],
            more_scopes=True if scopes.next_cursor else None,
            retrieval={"mode": scopes.retrieval.mode, **lean(scopes.retrieval)},
            waiting={"total": waiting.total, "stale": waiting.stale, "kinds": _by_kind(waiting.waiting)},
        )
        said.append(f"{report.live_memories} live memories; {waiting.total} proposals wait for review")
    return Answer(data, "\n".join(said))


def _by_kind(waiting: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in waiting:
        found[one.kind] = found.get(one.kind, 0) + one.count
    return found


def _happened(entry: "HistoryEntry") -> str:
    judged = "" if entry.judge is None else f", judged by {one_line(entry.judge)}"
    return f"{entry.recorded_at:%Y-%m-%d %H:%M} {entry.event} by {one_line(entry.actor)}{judged}"
