"""From a template to an answer: escaped, harmless to look at, and with the headers that keep a browser strict."""

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any

from fastapi import Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from ...domain.display import moment, one_line, shown
from ..operating.event_log import chosen_names
from ..reviewing.wording import ACTION_SAYS, action_of, made_by, sides

CSP = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": CSP,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    # Not "no-referrer": with that a browser keeps the origin of forms to itself, which is checked.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
CARD = 20_000
"""Characters of a memory beside a proposal; all of it stands on its own page."""
NEWS = ("proposal.*",)
"""Events that the page tells of as they come."""
_STATIC: Mapping[str, str] = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "htmx.min.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_HTMX: Mapping[str, Any] = {
    # A style element of its own would break the policy, and pages have no place in a browser's storage.
    "includeIndicatorStyles": False,
    "historyCacheSize": 0,
    "refreshOnHistoryMiss": True,
    "allowEval": False,
    "allowScriptTags": False,
    "selfRequestsOnly": True,
    # An error is a page, too.
    "responseHandling": [{"code": "204", "swap": False}, {"code": ".*", "swap": True}],
}


def render(template: str, values: Mapping[str, Any], status: int = 200) -> Response:
    """A page."""
    text = _environment().get_template(template).render(values)
    return HTMLResponse(text, status_code=status, headers={**HEADERS, "Cache-Control": "no-store"})


def static_file(name: str) -> Response | None:
    """A style, script or picture that came with the package; None for any other name."""
    if name not in _STATIC:
        return None
    # Its address holds its digest, so that a browser needs it once.
    headers = {**HEADERS, "Cache-Control": "public, max-age=31536000, immutable"}
    return Response(_content(name), media_type=_STATIC[name], headers=headers)


def spelt(instant: datetime | None, form: str = "%Y-%m-%d %H:%M UTC") -> Markup:
    """An instant as people read it, with the whole of it for programs."""
    if instant is None:
        return Markup("–")
    words = instant.astimezone(UTC).strftime(form)
    return Markup('<time datetime="{}">{}</time>').format(moment(instant), words)


def spelt_to_the_second(instant: datetime) -> Markup:
    """The same where much happens within a minute."""
    return spelt(instant, "%Y-%m-%d %H:%M:%S UTC")


def sentence(text: str) -> str:
    """What a program says, as a sentence of its own."""
    told = text[:1].upper() + text[1:]
    return told if told.endswith((".", "!", "?")) else f"{told}."


def lasting(seconds: float | None) -> str:
    """A span of time in its largest fitting unit."""
    if seconds is None:
        return "–"
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= size:
            count = round(seconds / size)
            return f"{count} {unit}{'s' if count != 1 else ''}"
    return f"{round(seconds)} s"


def percent(share: float | None) -> str:
    """A share in percent."""
    return "–" if share is None else f"{share:.1%}"


def number(value: float | None) -> str:
    """A number with few digits."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.2f}"


def words_of(name: str) -> str:
    """``session_run`` as words."""
    return name.replace("_", " ")


def marked(text: str, quote: str | None) -> Markup:
    """The beginning of a text with the quoted sentence marked, where it is found."""
    text = text[:CARD]
    clean, words = shown(text), shown(quote).strip() if quote else ""
    before, found, after = clean.partition(words) if words else (clean, "", "")
    if not found:
        return escape(clean)
    return Markup("{}<mark>{}</mark>{}").format(before, found, after)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__ or "", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Whatever is shown is made harmless first; escaping comes after it.
        finalize=_harmless,
    )
    # Typed by nobody, in either case.
    environment.filters |= {  # pyright: ignore[reportUnknownMemberType]
        "spelt": spelt,
        "to_the_second": spelt_to_the_second,
        "sentence": sentence,
        "lasting": lasting,
        "percent": percent,
        "number": number,
        "line": one_line,
        "words": words_of,
    }
    environment.globals |= {  # pyright: ignore[reportUnknownMemberType]
        "static": _address,
        "htmx": json.dumps(_HTMX),
        "action_says": ACTION_SAYS,
        "action_of": action_of,
        "made_by": made_by,
        "sides": sides,
        "news_names": " ".join(chosen_names(NEWS)),
        "marked": marked,
        "card_size": CARD,
    }
    return environment


def _harmless(value: Any) -> Any:
    return shown(value) if type(value) is str else value


def _address(name: str) -> str:
    return f"/static/{name}?v={hashlib.sha256(_content(name)).hexdigest()[:12]}"


@cache
def _content(name: str) -> bytes:
    return (files(__package__ or "") / "static" / name).read_bytes()
