"""Words that several doors let their callers choose from.

Light to import: a door that is not open yet can say what it takes.
"""

from typing import Literal

StatusChoice = Literal[
    "retrievable", "active", "superseded", "archived", "suppressed", "refuted", "quarantined", "expired", "all"
]
"""Which memories a search or a list tells; without one those that may be retrieved."""
Selector = Literal["all", "scope", "project", "scope_project"]
"""What a briefing is about."""
Mode = Literal["brief", "full", "handoff"]
"""How much a briefing tells."""
SectionName = Literal["commitments", "overdue", "blockers", "stale_candidates", "recent_decisions", "preferences"]
"""Its sections."""
