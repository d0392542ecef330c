"""Who asks, whether the form is one of this page's, and what an error looks like: the same for every page."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from ...domain.display import one_line
from ...domain.errors import InvalidCredential, LethelogError
from ..access.caller import Caller, Permission
from ..access.credentials import Credentials
from ..http.problems import STATUS, TITLES
from ..http.serving import Serving
from ..http.settings import HttpSettings
from ..memory import AsyncMemory
from .forms import Form, form_of, query_of
from .rendering import HEADERS, render
from .sessions import Session, Sessions


@dataclass(frozen=True)
class Visit:
    """One request of somebody who is logged in."""

    request: Request
    memory: AsyncMemory
    session: Session
    caller: Caller
    who: str
    """The actor in words, looked up for this visit: an erasure may have taken the name."""
    query: Form
    form: Form = field(default_factory=lambda: Form([]))

    def may(self, permission: Permission) -> bool:
        """Whether the token allows it: what it does not is not offered."""
        return permission in self.caller.permissions

    def named(self, name: str) -> str:
        """A part of the address."""
        return str(self.request.path_params[name])

    @property
    def replaces(self) -> str:
        """The element of the page that the answer is to replace; empty where a whole page is asked for."""
        boosted = self.request.headers.get("hx-boosted") == "true"
        return "" if boosted else self.request.headers.get("hx-target", "")

    def page(self, template: str, status: int = 200, **values: Any) -> Response:
        """A page, or a part of one."""
        notices: list[str] = []
        if not self.replaces:
            notices, self.session.notices = self.session.notices, []
        common = {
            "visit": self,
            "path": self.request.url.path,
            "who": self.who,
            "csrf": self.session.csrf,
            "notices": notices,
        }
        return render(template, {**common, **values}, status)

    def tell(self, said: str) -> None:
        """Say something on the next page."""
        self.session.notices = [*self.session.notices, said][-5:]


@dataclass(frozen=True)
class WhileLoggedIn:
    """Takes the token for valid as long as its login lasts, so that what still runs ends with that."""

    session: Session
    credentials: Credentials
    clock: Callable[[], datetime]

    async def caller(self, credential: str) -> Caller:
        """Who it is. Raises `InvalidCredential`."""
        if self.session.over(self.clock()):
            raise InvalidCredential("the login has ended")
        return await self.credentials.caller(credential)


View = Callable[[Visit], Awaitable[Response]]
Answer = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class Desk:
    """What all pages share."""

    serving: Serving
    settings: HttpSettings
    sessions: Sessions

    @property
    def cookie(self) -> str:
        """The cookie's name; with this prefix a browser takes it only over TLS, and for no other host."""
        return "__Host-lethelog" if self.settings.secure_cookies else "lethelog"

    def shown(self, view: View) -> Answer:
        """A page that is looked at."""

        async def answer(request: Request) -> Response:
            return await self._answer(request, view, posted=False)

        return answer

    def posted(self, view: View) -> Answer:
        """A form that is sent; only one of this page's is taken."""

        async def answer(request: Request) -> Response:
            return await self._answer(request, view, posted=True)

        return answer

    async def _answer(self, request: Request, view: View, *, posted: bool) -> Response:
        session = self.sessions.of(request.cookies.get(self.cookie))
        if session is None:
            return to_login(request, "lost" if self.cookie in request.cookies else "")
        watch = WhileLoggedIn(session, self.serving.credentials, self.serving.engine.clock)
        memory = self.serving.memory(session.token, watch)
        memory.position = session.position
        try:
            caller = await memory.caller()
            who = one_line((await memory.whoami()).actor)
        except InvalidCredential:
            self.sessions.end(request.cookies.get(self.cookie))
            return to_login(request, "ended")
        except LethelogError as error:
            return problem(error)
        visit = Visit(request, memory, session, caller, who, query_of(request))
        try:
            if posted:
                form = await form_of(request, session.csrf)
                visit = replace(visit, form=form)
            return await view(visit)
        except InvalidCredential:
            # The token ended between two of a page's reads.
            self.sessions.end(request.cookies.get(self.cookie))
            return to_login(request, "ended")
        except LethelogError as error:
            return refused(visit, error)
        finally:
            session.position = max(session.position, memory.position)


def refused(visit: Visit, error: LethelogError) -> Response:
    """The page of an error."""
    response = visit.page("error.html", STATUS.get(error.code, 500), **words_of_error(error))
    if visit.replaces:
        # A page in itself, where a part of one was asked for.
        response.headers.update({"HX-Retarget": "body", "HX-Reswap": "innerHTML"})
    return response


def problem(error: LethelogError, status: int | None = None) -> Response:
    """The page of an error, for somebody whom nobody knows."""
    return render("problem.html", words_of_error(error), status or STATUS.get(error.code, 500))


def words_of_error(error: LethelogError) -> Mapping[str, str]:
    """An error as its page tells it."""
    return {"code": error.code, "title": TITLES.get(error.code, TITLES["error"]), "message": error.message}


def to_login(request: Request, why: str = "") -> Response:
    """To the login, and back to this address from there."""
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    back = quote(here, safe="/") if request.method == "GET" else "/"
    address = f"/login?next={back}" + (f"&why={why}" if why else "")
    if "hx-request" in request.headers:
        return Response(status_code=401, headers={**HEADERS, "HX-Redirect": address, "Cache-Control": "no-store"})
    return go(address)


def go(address: str) -> Response:
    """To another page, after a form."""
    return RedirectResponse(address, 303, headers={**HEADERS, "Cache-Control": "no-store"})
