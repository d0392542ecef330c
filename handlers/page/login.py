"""Logging in by a token, and out."""

import hmac
import secrets
from dataclasses import dataclass, field
from re import fullmatch

from fastapi import Request, Response

from ...domain.errors import AccessDenied, LethelogError
from ..http.problems import STATUS
from .desk import Desk, Visit, go, words_of_error
from .forms import CSRF, Form, read_form, refuse_foreign_page
from .rendering import render

_ADDRESS = r"/[A-Za-z0-9/_-]*(\?[A-Za-z0-9._~%&=+:*-]*)?"
_LONGEST = 2_000
_SAYS = {
    "ended": "The login ended: its token expired or was revoked.",
    "lost": "The login ended: nothing came for long, or the server was started anew. "
    "After logging in you are where you wanted to be.",
    "out": "You are logged out.",
}


@dataclass
class Login:
    """The login's own form is tied to a cookie of its own, since there is no session yet."""

    desk: Desk
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    async def form(self, request: Request) -> Response:
        """Where a token is shown."""
        query = request.query_params
        return self._form(request, query.get("next"), _SAYS.get(query.get("why", ""), ""))

    async def begin(self, request: Request) -> Response:
        """Begin a session."""
        form: Form | None = None
        try:
            refuse_foreign_page(request)
            form = await read_form(request)
            before = request.cookies.get(self._cookie, "")
            if not before or not hmac.compare_digest(form.get(CSRF, "").encode(), self._proof(before).encode()):
                raise AccessDenied("load this page again, with cookies allowed, and log in then")
            token = form.get("token", "").strip()
            memory = self.desk.serving.memory(token)
            caller = await memory.caller()
        except LethelogError as error:
            wanted = None if form is None else form.get("next")
            return self._form(request, wanted, **words_of_error(error), status=STATUS.get(error.code, 500))
        self.desk.sessions.end(request.cookies.get(self.desk.cookie))
        cookie = self.desk.sessions.begin(token, caller.actor.id, caller.expires_at)
        response = go(own_address(form.get("next")))
        self._set(response, self.desk.cookie, cookie)
        response.delete_cookie(
            self._cookie, path="/", secure=self.desk.settings.secure_cookies, httponly=True, samesite="strict"
        )
        return response

    async def end(self, visit: Visit) -> Response:
        """End the session."""
        self.desk.sessions.end(visit.request.cookies.get(self.desk.cookie))
        response = go("/login?why=out")
        response.delete_cookie(
            self.desk.cookie, path="/", secure=self.desk.settings.secure_cookies, httponly=True, samesite="strict"
        )
        return response

    def _form(
        self,
        request: Request,
        wanted: str | None,
        message: str = "",
        status: int = 200,
        code: str = "",
        title: str = "",
    ) -> Response:
        cookie = request.cookies.get(self._cookie) or secrets.token_urlsafe(24)
        plain = request.url.scheme == "http" and not _on_this_machine(request.url.hostname or "")
        values = {
            "csrf": self._proof(cookie),
            "next": own_address(wanted),
            "message": message,
            "code": code,
            "title": title,
            "not_kept": plain and self.desk.settings.secure_cookies,
        }
        response = render("login.html", values, status)
        self._set(response, self._cookie, cookie)
        return response

    @property
    def _cookie(self) -> str:
        return f"{self.desk.cookie}-login"

    def _proof(self, cookie: str) -> str:
        return hmac.new(self.key, cookie.encode(errors="replace"), "sha256").hexdigest()

    def _set(self, response: Response, name: str, value: str) -> None:
        response.set_cookie(
            name,
            value,
            path="/",
            secure=self.desk.settings.secure_cookies,
            httponly=True,
            samesite="strict",
        )


def own_address(given: str | None) -> str:
    """An address of this page; the queue's for anything else, so that nobody is led elsewhere."""
    own = given and len(given) <= _LONGEST and fullmatch(_ADDRESS, given) and not given.startswith("//")
    return given if given and own else "/"


def _on_this_machine(host: str) -> bool:
    return host in ("localhost", "127.0.0.1", "::1")
