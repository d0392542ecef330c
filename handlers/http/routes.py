"""Where every verb of the Python door stands in REST: the one table that server, client and document are made of.

A route says what it takes as one model: what the path names comes from there, and the rest from the query of a GET
and DELETE or the JSON body of the others. A client's own key of a command comes in the header ``Idempotency-Key``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from re import findall
from typing import Any, Literal

from pydantic import BaseModel

from ...domain import commands as c
from ...domain.fields import Input
from ..access.tokens import IssueToken, RotateToken, TokenQuery, TokensQuery
from ..analytics.review_stats import StatsQuery
from ..analytics.views import ReviewStats
from ..briefing import BriefingQuery
from ..bulk_writing import ManyWritten
from ..commitments.listing import CommitmentQuery
from ..commitments.views import CommitmentPage, Resolved
from ..consolidation.passes import ConsolidationQuery
from ..consolidation.views import ConsolidationView
from ..contradictions.listing import ContradictionQuery
from ..contradictions.views import ContradictionPage
from ..erasure.erasures import Erase, ErasureQuery, ErasuresQuery, PreviewErasure
from ..erasure.rehearsal import Rehearsal
from ..erasure.views import CertificateCheck, DeploymentKey, ErasurePage, ErasurePreview, ErasureView
from ..explaining import ChainQuery
from ..extracting.by_hand import ExtractFacts
from ..extracting.views import ExtractionView
from ..facts import FactsQuery
from ..forgetting.requesting import PassQuery
from ..operating.event_log import EventsQuery
from ..operating.views import (
    BriefingView,
    BulkDecided,
    BulkPreview,
    Chain,
    Decided,
    EventPage,
    FactPage,
    History,
    IssuedToken,
    MemoryPage,
    MemoryView,
    PassView,
    PolicyReport,
    ProposalDetail,
    ProposalPage,
    ScopePage,
    ScopeWritten,
    SearchResult,
    SettingsView,
    TokenPage,
    TokenView,
    View,
    WhoIsThis,
    Written,
)
from ..reading import GetQuery, HistoryQuery, ListQuery, SearchQuery
from ..reviewing.bulk import DecideMany, PreviewBulk
from ..reviewing.deciding import Decide
from ..reviewing.digest import DigestQuery, ReviewDigest
from ..reviewing.queue import ProposalsQuery, ShowQuery
from ..sessions.sessions import OpenSession, SessionQuery, SessionsQuery
from ..sessions.views import SessionPage, SessionView
from ..tenancy.scopes import CreateScope, ScopesQuery, SetRetrieval
from ..undoing.undoing import PreviewUndo, RequestUndo, ResumeUndo, ShowUndo
from ..undoing.views import UndoPreview, UndoView
from ..webhooks.views import DeliveryPage, DeliveryView, RegisteredWebhook, Replay, WebhookList, WebhookView
from ..webhooks.webhooks import (
    AddWebhook,
    ChangeWebhook,
    DeliveriesQuery,
    ReplayDelivery,
    ReplayEvents,
    RotateSecret,
    TryWebhook,
    WebhookQuery,
)
from ..whatif.views import WhatIfReport
from . import inputs as i

PREFIX = "/api/v1"
KEY_HEADER = "Idempotency-Key"
VERSION_HEADER = "If-Match"
LAST_EVENT_HEADER = "Last-Event-ID"
POSITION_HEADER = "Lethelog-Position"
ARCHIVE_HEADER = "Lethelog-Archive"
"""What was written, as JSON, beside an archive that is sent."""
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


class Memories(View):
    """Memories in the order asked."""

    memories: tuple[MemoryView, ...]


@dataclass(frozen=True)
class Route:
    """One verb."""

    verb: str
    """As the Python door names it: ``remember``, ``sessions.open``."""
    method: Method
    path: str
    takes: type[Input]
    answers: type[BaseModel]
    status: int = 200
    keyed: bool = False
    """Whether it takes the client's own key of a command."""
    made: Callable[[Any], str] | None = None
    """Where what an answer tells of stands."""
    inside: str = ""
    """The field of the body in which the fields stand that the verb's own errors name."""

    @cached_property
    def in_path(self) -> tuple[str, ...]:
        """The fields that the path names."""
        return tuple(findall(r"\{(\w+)\}", self.path))

    @cached_property
    def fields(self) -> Mapping[str, Any]:
        """JSON schemas of the fields that query or body hold, by name."""
        described = self.takes.model_json_schema(mode="validation").get("properties", {})
        return {name: schema for name, schema in described.items() if name not in (*self.in_path, "key")}

    @property
    def has_body(self) -> bool:
        """Whether the fields come in a body."""
        return self.method in ("POST", "PUT", "PATCH")

    @property
    def versioned(self) -> bool:
        """Whether ``If-Match`` can say which version the caller saw."""
        return "expected_version" in self.takes.model_fields


_memory = "/memories/{memory_id}"
_proposal = "/proposals/{proposal_id}"
_session = "/sessions/{session_run_id}"
_webhook = "/webhooks/{webhook_id}"


def _made_memory(written: Any) -> str:
    return f"/memories/{written.memory.id}"


ROUTES: tuple[Route, ...] = (
    Route("whoami", "GET", "/whoami", i.Nothing, WhoIsThis),
    # memories
    Route("remember", "POST", "/memories", i.RememberBody, Written, 201, keyed=True, made=_made_memory),
    Route("remember_many", "POST", "/memories/batch", i.RememberManyBody, ManyWritten, keyed=True),
    Route("archive_many", "POST", "/memories/archive", i.ArchiveManyBody, ManyWritten, keyed=True),
    Route("import_memory", "POST", "/memories/import", i.ImportBody, Written, 201, keyed=True, made=_made_memory),
    # A body, since what is looked for is content and has no place in an address.
    Route("search", "POST", "/memories/search", SearchQuery, SearchResult),
    Route("get_many", "POST", "/memories/get", GetQuery, Memories),
    Route("list", "GET", "/memories", ListQuery, MemoryPage),
    Route("get", "GET", _memory, i.OneMemory, MemoryView),
    Route("history", "GET", f"{_memory}/history", HistoryQuery, History),
    Route("revise", "POST", f"{_memory}/revise", c.Revise, Written, 201, keyed=True, made=_made_memory),
    Route("move", "POST", f"{_memory}/move", c.Move, Written, keyed=True),
    Route("reaffirm", "POST", f"{_memory}/reaffirm", c.Reaffirm, Written, keyed=True),
    Route("archive", "POST", f"{_memory}/archive", c.Archive, Written, keyed=True),
    Route("restore", "POST", f"{_memory}/restore", c.Restore, Written, keyed=True),
    Route("refute", "POST", f"{_memory}/refute", c.Refute, Written, keyed=True),
    Route("release", "POST", f"{_memory}/release", c.Release, Written, keyed=True),
    Route("pin", "POST", f"{_memory}/pin", c.Pin, Written, keyed=True),
    Route("verify", "POST", f"{_memory}/verify", c.Verify, Written, keyed=True),
    Route("resolve", "POST", f"{_memory}/resolve", c.Resolve, Resolved, keyed=True),
    Route("extract_facts", "POST", f"{_memory}/facts", ExtractFacts, ExtractionView, keyed=True),
    # what memories say
    Route("get_facts", "GET", "/facts", FactsQuery, FactPage),
    Route("commitments", "GET", "/commitments", CommitmentQuery, CommitmentPage),
    Route("contradictions", "GET", "/contradictions", ContradictionQuery, ContradictionPage),
    Route("briefing", "GET", "/briefing", BriefingQuery, BriefingView),
    Route("handoff", "GET", "/handoff", i.HandoffQuery, BriefingView),
    Route("scopes", "GET", "/scopes", ScopesQuery, ScopePage),
    Route("create_scope", "POST", "/scopes", CreateScope, ScopeWritten),
    # review
    Route("proposals", "GET", "/proposals", ProposalsQuery, ProposalPage),
    Route("proposal", "GET", _proposal, ShowQuery, ProposalDetail),
    Route("accept", "POST", f"{_proposal}/accept", Decide, Decided, keyed=True),
    Route("reject", "POST", f"{_proposal}/reject", Decide, Decided, keyed=True),
    Route("preview_decisions", "POST", "/proposals/preview", PreviewBulk, BulkPreview),
    Route("decide_many", "POST", "/proposals/decide", DecideMany, BulkDecided, keyed=True),
    Route("review_digest", "GET", "/review/digest", DigestQuery, ReviewDigest),
    Route("review_stats", "GET", "/review/stats", StatsQuery, ReviewStats),
    Route("what_if", "POST", "/review/what-if", i.WhatIfBody, WhatIfReport),
    Route("explain", "GET", "/explain/{about}", ChainQuery, Chain),
    Route("preview_undo", "POST", "/undos/preview", PreviewUndo, UndoPreview),
    Route("undo", "POST", "/undos", RequestUndo, UndoView, keyed=True),
    Route("show_undo", "GET", "/undos/{undo_id}", ShowUndo, UndoView),
    Route("resume_undo", "POST", "/undos/{undo_id}/resume", ResumeUndo, UndoView),
    Route("run_pass", "POST", "/passes", i.StartPass, PassView, keyed=True),
    Route("show_pass", "GET", "/passes/{pass_id}", PassQuery, PassView),
    Route("wait_for_pass", "GET", "/passes/{pass_id}/wait", i.WaitForPass, PassView),
    Route("consolidate", "POST", "/consolidations", i.StartPass, ConsolidationView, keyed=True),
    Route("consolidation", "GET", "/consolidations/{pass_id}", ConsolidationQuery, ConsolidationView),
    # sessions
    Route("sessions.open", "POST", "/sessions", OpenSession, SessionView),
    Route("sessions.list", "GET", "/sessions", SessionsQuery, SessionPage),
    Route("sessions.show", "GET", _session, SessionQuery, SessionView),
    Route("sessions.resume", "POST", f"{_session}/resume", SessionQuery, SessionView),
    Route("sessions.heartbeat", "POST", f"{_session}/heartbeat", SessionQuery, SessionView),
    Route("sessions.close", "POST", f"{_session}/close", SessionQuery, SessionView),
    # the log
    Route("events", "GET", "/events", EventsQuery, EventPage),
    # erasure
    Route("preview_erasure", "POST", "/erasures/preview", PreviewErasure, ErasurePreview),
    Route("rehearse_erasure", "POST", "/erasures/rehearse", i.Nothing, Rehearsal),
    Route("erasures", "GET", "/erasures", ErasuresQuery, ErasurePage),
    Route("erasure", "GET", "/erasures/{erasure_id}", ErasureQuery, ErasureView),
    Route("erase", "POST", "/erasures/{erasure_id}/perform", Erase, ErasureView),
    Route("retry_erasure", "POST", "/erasures/{erasure_id}/retry", ErasureQuery, ErasureView),
    Route("erasure_key", "GET", "/certificates/key", i.Nothing, DeploymentKey),
    Route("check_certificate", "POST", "/certificates/check", i.CertificateBody, CertificateCheck),
    # the tenant
    Route("settings", "GET", "/settings", i.Nothing, SettingsView),
    Route("set_judgment", "PUT", "/settings/judgment", i.SetJudgment, SettingsView),
    Route("set_policy", "PATCH", "/settings/policy", i.SetPolicy, SettingsView, inside="changes"),
    Route("policy_report", "GET", "/settings/policy/report", i.Nothing, PolicyReport),
    Route("set_retrieval_scope", "PUT", "/settings/retrieval-scope", SetRetrieval, ScopeWritten),
    Route(
        "tokens.issue",
        "POST",
        "/tokens",
        IssueToken,
        IssuedToken,
        201,
        made=lambda issued: f"/tokens/{issued.token.id}",
    ),
    Route("tokens.list", "GET", "/tokens", TokensQuery, TokenPage),
    Route("tokens.show", "GET", "/tokens/{token_id}", TokenQuery, TokenView),
    Route("tokens.rotate", "POST", "/tokens/{token_id}/rotate", RotateToken, IssuedToken),
    Route("tokens.revoke", "POST", "/tokens/{token_id}/revoke", TokenQuery, TokenView),
    Route(
        "webhooks.add",
        "POST",
        "/webhooks",
        AddWebhook,
        RegisteredWebhook,
        201,
        made=lambda added: f"/webhooks/{added.webhook.id}",
    ),
    Route("webhooks.list", "GET", "/webhooks", i.Nothing, WebhookList),
    Route("webhooks.show", "GET", _webhook, WebhookQuery, WebhookView),
    Route("webhooks.change", "PATCH", _webhook, ChangeWebhook, WebhookView),
    Route("webhooks.enable", "POST", f"{_webhook}/enable", WebhookQuery, WebhookView),
    Route("webhooks.rotate", "POST", f"{_webhook}/rotate", RotateSecret, RegisteredWebhook),
    Route("webhooks.remove", "DELETE", _webhook, WebhookQuery, WebhookView),
    Route("webhooks.test", "POST", f"{_webhook}/test", TryWebhook, DeliveryView),
    Route("webhooks.deliveries", "GET", f"{_webhook}/deliveries", DeliveriesQuery, DeliveryPage),
    Route("webhooks.replay", "POST", f"{_webhook}/replay", ReplayEvents, Replay),
    Route("webhooks.replay_delivery", "POST", "/deliveries/{delivery_id}/replay", ReplayDelivery, DeliveryView),
)
BY_VERB: Mapping[str, Route] = {route.verb: route for route in ROUTES}
STREAMED: Mapping[str, tuple[Method, str]] = {
    "tail": ("GET", "/events/stream"),
    "replay": ("GET", "/replay"),
    "export_archive": ("GET", "/archive"),
    "import_archive": ("POST", "/archive"),
    "import_foreign": ("POST", "/archive/{source}"),
}
"""Verbs that give or take more than one JSON value, and where they stand."""
ON_THE_MACHINE = "belongs to an installation; no credential that is shown over a network holds installation:admin"


def methods_of(method: str) -> list[str]:
    """The methods that a route of one answers: HEAD goes with GET (RFC 9110, 9.3.2)."""
    return ["GET", "HEAD"] if method == "GET" else [method]
