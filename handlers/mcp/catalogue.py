"""The twelve tools (design.md 8). There are never more: each costs every request of every client."""

from . import arguments as a
from .reading import briefing, get_facts, get_memories, history, search, status
from .reviewing import review_proposals
from .schemas import gives
from .tool import Tool
from .writing import forget, remember, resolve, restore, revise

_WRITTEN = gives(memory="object", changed="boolean")

TOOLS: tuple[Tool, ...] = (
    Tool(
        "remember",
        "Save one self-contained statement. Text that is known returns the existing memory. owner and due_at are "
        "for commitments. Times are ISO 8601 with zone.",
        a.RememberArguments,
        _WRITTEN,
        remember,
        repeatable=True,
    ),
    Tool(
        "revise",
        "Change a memory: successor writes content in its place and keeps the old one as history; move refiles it "
        "(scope, project, tags); reaffirm says it still holds.",
        a.ReviseArguments,
        _WRITTEN,
        revise,
    ),
    Tool(
        "resolve",
        "Set a commitment's status. A blocker is archived.",
        a.ResolveArguments,
        gives(memory_id="string", status="string", changed="boolean"),
        resolve,
        repeatable=True,
    ),
    Tool(
        "search",
        "Find memories by meaning and words; without query list them, newest first. Superseded ones come last; "
        "current leaves them out. known_at: what was on record then; valid_at: what held then.",
        a.SearchArguments,
        gives(hits="array", count="integer"),
        search,
        reads=True,
    ),
    Tool(
        "get_memories",
        "Read memories in full by id.",
        a.GetMemoriesArguments,
        gives(memories="array", count="integer"),
        get_memories,
        reads=True,
    ),
    Tool(
        "get_facts",
        "Read facts (subject, predicate, value), as of now or of a time.",
        a.GetFactsArguments,
        gives(facts="array", total="integer"),
        get_facts,
        reads=True,
    ),
    Tool(
        "briefing",
        "What to know when starting or handing over: commitments, blockers, decisions, preferences, stale "
        "memories. selector says about what.",
        a.BriefingArguments,
        gives(sections="object"),
        briefing,
        reads=True,
    ),
    Tool(
        "review_proposals",
        "Review proposed changes: list, read the memories with get_memories, ask the user, then accept or reject "
        "by proposal_id. holds: the memory that wins a contradiction.",
        a.ReviewArguments,
        {"type": "object"},
        review_proposals,
        destroys=True,
        repeatable=True,
    ),
    Tool(
        "history",
        "Who did what to a memory, when; explain adds why.",
        a.HistoryArguments,
        gives(entries="array", total="integer"),
        history,
        reads=True,
    ),
    Tool(
        "forget",
        "Archive a memory by memory_id; restore undoes it. With query it only previews candidates. Never erases.",
        a.ForgetArguments,
        gives(archived="boolean"),
        forget,
        destroys=True,
        repeatable=True,
    ),
    Tool(
        "restore",
        "Bring back an archived or suppressed memory.",
        a.RestoreArguments,
        _WRITTEN,
        restore,
        repeatable=True,
    ),
    Tool(
        "status",
        "Who you are here, what you may do, scopes, and what awaits review.",
        a.StatusArguments,
        gives(actor="string", permissions="array"),
        status,
        reads=True,
    ),
)
BY_NAME = {tool.name: tool for tool in TOOLS}
