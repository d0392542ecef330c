"""Errors as RFC 9457 problem documents: a stable ``code``, what was wrong, and which field."""

from collections.abc import Callable, Mapping
from typing import Any

from ...domain import errors as e

MEDIA_TYPE = "application/problem+json"
Where = Callable[[str], Mapping[str, str]]
"""Says where in a request a field stands: ``pointer``, ``parameter`` or ``header``."""
STATUS: Mapping[str, int] = {
    "invalid_input": 422,
    "wrong_kind": 422,
    "key_reused": 422,
    "text_too_long": 422,
    "not_found": 404,
    "conflict": 409,
    "invalid_transition": 409,
    "stale_proposal": 409,
    "judging_off": 409,
    "erased": 410,
    "access_denied": 403,
    "invalid_credential": 401,
    "budget_exceeded": 429,
    "quota_exceeded": 429,
    "too_many_streams": 429,
    "unavailable": 503,
    "not_caught_up": 503,
    "event_parked": 503,
    "extractor_unavailable": 503,
    "extractor_rejected": 502,
    "extractor_malformed": 502,
    "misconfigured": 500,
    "unusable_key": 500,
    "unreadable": 500,
    "written_by_newer": 500,
    "error": 500,
}
TITLES: Mapping[str, str] = {
    "invalid_input": "A field breaks a rule",
    "wrong_kind": "The id is of another kind",
    "key_reused": "The key was used for another command",
    "not_found": "No such thing for this caller",
    "conflict": "It changed meanwhile, or is in a state that refuses this",
    "invalid_transition": "Its status does not lead to that one",
    "stale_proposal": "A memory moved on since the proposal saw it",
    "erased": "It was erased",
    "judging_off": "Judging is off for the tenant",
    "text_too_long": "The text is longer than what an extractor reads",
    "access_denied": "The credential lacks a permission",
    "invalid_credential": "No valid credential",
    "budget_exceeded": "The budget is used up",
    "quota_exceeded": "The quota is used up",
    "too_many_streams": "Too many answers are under way",
    "unavailable": "A server this needs does not answer",
    "not_caught_up": "A read model is not there yet",
    "event_parked": "A read model could not apply an event",
    "extractor_unavailable": "The extractor does not answer",
    "extractor_rejected": "The extractor refuses the request",
    "extractor_malformed": "The extractor gave no answer of the form asked for",
    "misconfigured": "A setting does not fit",
    "unusable_key": "A key does not open",
    "unreadable": "An event cannot be read",
    "written_by_newer": "An event was written by a newer version",
    "error": "It failed",
    "rate_limited": "Too many requests",
    "too_large": "The body is too large",
    "too_slow": "The body did not come in time",
    "unsupported_media_type": "The body is of another type than JSON",
    "no_route": "Nothing stands at this address",
    "method_not_allowed": "This address takes no such method",
    "precondition_failed": "The version is another one",
}
RETRY_SECONDS: Mapping[str, int] = {
    "too_many_streams": 5,
    "unavailable": 1,
    "not_caught_up": 1,
    "quota_exceeded": 60,
    "event_parked": 30,
}
_OWN = ("type", "title", "status", "detail", "code", "errors")


def parameter(field: str) -> Mapping[str, str]:
    """Of a field that came in the address."""
    return {"parameter": field}


def problem_of(error: e.LethelogError, where: Where = parameter) -> dict[str, Any]:
    """The document of an error; ``where`` says where its field stands."""
    said = error.as_dict()
    code = str(said.pop("code"))
    document = described(code, _known(error), str(said.pop("message")))
    details = {name: value for name, value in said.items() if name not in _OWN}
    field = details.get("field")
    if isinstance(field, str):
        document["errors"] = [{**where(field), "detail": str(details.get("problem", document["detail"]))}]
    return {**document, **details}


def _known(error: e.LethelogError) -> int:
    """The status of an error, or of the kind of errors that it is one of."""
    codes = (getattr(kind, "code", "") for kind in type(error).__mro__)
    return next(STATUS[code] for code in (*codes, "error") if code in STATUS)


def described(code: str, status: int, detail: str) -> dict[str, Any]:
    """A document of a code."""
    return {
        "type": f"urn:lethelog:problem:{code}",
        "title": TITLES.get(code, "It failed"),
        "status": status,
        "detail": detail,
        "code": code,
    }


def pointer(field: str) -> str:
    """``facts.0.value`` as a JSON pointer in an address; ``body``, which is all of it, as the empty one."""
    if field == "body":
        return "#"
    parts = (part.replace("~", "~0").replace("/", "~1") for part in field.split("."))
    return "#/" + "/".join(parts)


def error_of(document: Mapping[str, Any]) -> e.LethelogError:
    """The error that a document tells of, as the Python door raises it."""
    details = {name: value for name, value in document.items() if name not in _OWN}
    detail, code = str(document.get("detail", "")), str(document.get("code", "error"))
    kind = _kinds().get("conflict" if code == "precondition_failed" else code, e.LethelogError)
    # Not by its own way of being made, which takes other arguments for some.
    error = kind.__new__(kind)
    e.LethelogError.__init__(error, detail, **details)
    if isinstance(error, e.InvalidInput):
        error.field, error.problem = str(details.get("field", "input")), str(details.get("problem", detail))
    return error


def _kinds() -> dict[str, type[e.LethelogError]]:
    """The class that each code was made for, and none that only inherits it."""
    found: dict[str, type[e.LethelogError]] = {}
    waiting = [e.LethelogError]
    while waiting:
        kind = waiting.pop()
        if "code" in vars(kind):
            found[kind.code] = kind
        waiting += kind.__subclasses__()
    return found
