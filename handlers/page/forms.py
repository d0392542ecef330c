"""What a browser sends: fields of a form, taken only from a form that this page made."""

import hmac
from collections.abc import Iterator, Mapping
from urllib.parse import parse_qsl, urlsplit

from fastapi import Request

from ...domain.errors import AccessDenied, InvalidInput

FORM_LIMIT = 64 * 1024
"""Bytes of one form; the longest holds a comment and the ids of one page of the queue."""
FIELDS = 200
CSRF = "csrf"
_FORM = "application/x-www-form-urlencoded"


class Form(Mapping[str, str]):
    """Fields by name; what was left empty is absent."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = [(name, value) for name, value in pairs if value.strip()]
        self._fields = dict(self._pairs)

    def __getitem__(self, name: str) -> str:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def all(self, name: str) -> list[str]:
        """Every value of a field that may come more than once."""
        return [value for given, value in self._pairs if given == name]


def query_of(request: Request) -> Form:
    """What the address asks for."""
    return Form(request.query_params.multi_items()[:FIELDS])


async def form_of(request: Request, csrf: str) -> Form:
    """The fields of a form that holds this secret. Raises `AccessDenied` for a form of somebody else's page."""
    refuse_foreign_page(request)
    form = await read_form(request)
    if not hmac.compare_digest(form.get(CSRF, "").encode(), csrf.encode()):
        raise AccessDenied("this form is of an earlier login, or not of this page; load the page again")
    return form


def refuse_foreign_page(request: Request) -> None:
    """Raise `AccessDenied` where the browser says that another site's page sent this."""
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    # Only the host: before a proxy that ends TLS the scheme is another one.
    foreign = origin is not None and urlsplit(origin).netloc != request.headers.get("host")
    if foreign or site not in (None, "same-origin", "none"):
        raise AccessDenied("this was sent by the page of another site; nothing was done")


async def read_form(request: Request) -> Form:
    """The fields of a form. Raises `InvalidInput`."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _FORM:
        raise InvalidInput("form", f"must be sent as {_FORM}")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > FORM_LIMIT:
            raise InvalidInput("form", f"is larger than {FORM_LIMIT} bytes")
    try:
        return Form(
            parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=FIELDS)
        )
    except ValueError:
        raise InvalidInput("form", f"cannot be read, or has more than {FIELDS} fields") from None
