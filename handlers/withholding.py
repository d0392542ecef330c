"""What a write answers to a credential that may not read: what it did, and of the text nothing."""

from .operating.views import MemoryView, ProposalView


def without_text(view: MemoryView) -> MemoryView:
    """A memory without what anybody said or is called; its id, kind, status, scope, times and version stay."""
    nobody = dict.fromkeys(("project", "metadata", "user_id", "agent_id", "run_id", "session_id", "subject"))
    return view.model_copy(update={**nobody, "topic": "", "content": "", "tags": ()})


def without_words(view: ProposalView) -> ProposalView:
    """A proposal without quotes, texts, comment and names."""
    unsaid = dict.fromkeys(("quote", "comment", "decided_by", "undone_by"))
    return view.model_copy(update={**unsaid, "details": {}, "texts": {}})
