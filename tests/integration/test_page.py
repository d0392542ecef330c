"""The review page without a browser: sessions, forms, headers, and what it shows of what others wrote."""

import asyncio
import html
import re
from collections.abc import AsyncGenerator
from uuid import uuid4

import pytest
from lethelog.domain import events as e
from lethelog.domain.errors import InvalidCredential
from lethelog.handlers.access.caller import Caller
from lethelog.handlers.access.credentials import Credentials
from lethelog.handlers.access.tokens import Tokens
from lethelog.handlers.erasure.erasures import Erasures
from lethelog.handlers.http.serving import Serving
from lethelog.handlers.http.settings import HttpSettings
from lethelog.handlers.memory import AsyncMemory
from lethelog.handlers.page.desk import WhileLoggedIn
from lethelog.handlers.page.sessions import MOST_EACH, Sessions
from lethelog.handlers.reviewing.staging import stage
from lethelog.streams.ending import end
from lethelog.streams.payloads import Actor, Envelope

from .pages import ORIGIN, Browser, browsing, token_for
from .passes import ToldJudge, pass_settings
from .review_desk import edge, edge_of, staged
from .test_erasure import erase


@pytest.fixture
async def kept_up(world) -> AsyncGenerator[None]:
    """Read models that follow by themselves."""

    async def views() -> None:
        while True:
            await world.catch_up()
            await asyncio.sleep(0.05)

    beside = asyncio.create_task(views())
    yield
    await end(beside)


@pytest.fixture
async def browser(world, kept_up) -> AsyncGenerator[Browser]:
    async with browsing(world) as opened:
        assert (await opened.log_in(await token_for(world))).status_code == 303
        yield opened


async def pair(world):
    older = await world.remember("Sessions are kept in Redis.", memory_type="decision")
    newer = await world.remember("Sessions are kept in PostgreSQL.", memory_type="decision")
    return older, newer, await edge(world, newer, older)


async def test_the_cookie_is_for_the_browser_alone_and_holds_no_token(world, kept_up):
    async with browsing(world) as browser:
        token = await token_for(world)
        answer = await browser.log_in(token)
    [cookie] = [one for one in answer.headers.get_list("set-cookie") if one.startswith("lethelog=")]
    assert "httponly" in cookie.lower() and "samesite=strict" in cookie.lower() and "path=/" in cookie.lower()
    assert token not in cookie


async def test_with_tls_the_cookie_is_secure_and_of_this_host_only(world, kept_up):
    async with browsing(world, "https://memory.example", secure_cookies=True) as browser:
        answer = await browser.log_in(await token_for(world))
    [cookie] = [one for one in answer.headers.get_list("set-cookie") if one.startswith("__Host-lethelog=")]
    assert "secure" in cookie.lower() and "domain" not in cookie.lower()


async def test_a_wrong_token_logs_nobody_in_and_is_not_repeated(world, kept_up):
    async with browsing(world) as browser:
        wrong = (await token_for(world))[:-4] + "AAAA"
        answer = await browser.log_in(wrong)
        assert answer.status_code == 401 and "invalid_credential" in answer.text and wrong not in answer.text
        assert (await browser.get("/")).status_code == 303


async def test_every_answer_keeps_the_browser_strict_and_stores_nothing(world, browser: Browser):
    _, _, proposal = await pair(world)
    for address in ("/", f"/proposals/{proposal}", "/memories", "/dashboard", "/nowhere", f"/proposals/{uuid4()}"):
        answer = await browser.get(address, accept="text/html")
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["x-content-type-options"] == "nosniff"
        if address != "/nowhere":
            assert answer.headers["cache-control"] == "no-store", address
        assert " style=" not in answer.text and "<style" not in answer.text and " onclick" not in answer.text


@pytest.mark.parametrize(
    ("headers", "fields"),
    [
        ({}, {"csrf": "something"}),
        ({}, {"csrf": ""}),
        ({"origin": "https://evil.example", "sec-fetch-site": "cross-site"}, {}),
        ({"origin": "null"}, {}),
        ({"origin": ORIGIN, "sec-fetch-site": "same-site"}, {}),
    ],
)
async def test_a_form_of_another_page_decides_nothing(world, browser: Browser, headers, fields):
    _, _, proposal = await pair(world)
    answer = await browser.send(f"/proposals/{proposal}/accept", fields, **headers)
    assert answer.status_code == 403 and "access_denied" in answer.text
    shown = await browser.get(f"/proposals/{proposal}")
    assert 'data-status="proposed"' in shown.text
    # The control: the same form, from this page.
    assert (await browser.send(f"/proposals/{proposal}/accept")).status_code == 303


async def test_logging_out_ends_the_session_and_not_only_the_cookie(world, browser: Browser):
    kept = dict(browser.client.cookies)
    assert (await browser.get("/")).status_code == 200
    assert (await browser.send("/logout")).status_code == 303
    browser.client.cookies.update(kept)
    assert (await browser.get("/")).headers["location"].startswith("/login")


@pytest.mark.parametrize("ending", ["logging out", "nothing coming for long"])
async def test_the_end_of_a_login_ends_what_still_streams(world, kept_up, ending):
    served_by = Serving(world.engine, Credentials(world.engine), pass_settings(ToldJudge()))
    sessions = Sessions(world.clock)
    token = await token_for(world)
    cookie = sessions.begin(token, uuid4(), None)
    session = sessions.of(cookie)
    assert session is not None
    memory = served_by.memory(session.token, WhileLoggedIn(session, served_by.credentials, world.clock))
    coming = memory.tail(from_position=1)
    assert (await anext(coming)).position > 0
    if ending == "logging out":
        sessions.end(cookie)
    else:
        world.clock.forward(hours=8, minutes=1)
    with pytest.raises(InvalidCredential, match="login has ended"):
        await anext(coming)
    await coming.aclose()


async def test_what_nobody_expected_is_a_page_for_people_without_what_it_said(
    world, browser: Browser, monkeypatch
):
    async def broken(*_: object) -> None:
        raise RuntimeError("canary of a secret")

    monkeypatch.setattr(AsyncMemory, "proposals", broken)
    answer = await browser.get("/", accept="text/html")
    assert answer.status_code == 500 and "canary" not in answer.text
    assert answer.headers["content-type"].startswith("text/html") and "not the request" in answer.text


async def test_a_session_ends_with_its_token(world, kept_up):
    async with browsing(world) as browser:
        issued = await Tokens(world.engine).issue(
            world.caller, {"actor": "person:ada", "permissions": ["memory:read"], "expires_at": None}
        )
        await browser.log_in(issued.text)
        assert (await browser.get("/")).status_code == 200
        await Tokens(world.engine).revoke(world.caller, {"token_id": issued.token.id})
        async with asyncio.timeout(10):
            while (answer := await browser.get("/")).status_code == 200:
                await asyncio.sleep(0.05)
        assert answer.status_code == 303 and "why=ended" in answer.headers["location"]


async def test_who_is_led_to_the_login_is_told_why_and_what_token_it_takes(world, browser: Browser):
    never = await browser.get((await browser.get("/", cookie="")).headers.get("location", "/login"))
    assert "The login ended" not in never.text
    assert "--allow memory:read --allow memory:review --allow stream:read" in never.text
    world.clock.forward(hours=8, minutes=1)
    sent = await browser.get("/memories")
    assert sent.status_code == 303
    assert "The login ended: nothing came for long" in (await browser.get(sent.headers["location"])).text


async def test_a_session_ends_when_nothing_came_for_long(world, browser: Browser):
    world.clock.forward(hours=7)
    assert (await browser.get("/")).status_code == 200
    world.clock.forward(hours=7)
    assert (await browser.get("/")).status_code == 200
    world.clock.forward(hours=8, minutes=1)
    assert (await browser.get("/")).status_code == 303


def test_one_caller_has_so_many_logins_and_never_ends_those_of_others(clock):
    sessions = Sessions(clock)
    ada, bo = uuid4(), uuid4()
    others = sessions.begin("t", bo, None)
    mine = [sessions.begin("t", ada, None) for _ in range(MOST_EACH + 1)]
    assert sessions.of(mine[0]) is None and sessions.of(mine[1]) is not None and sessions.of(others) is not None
    assert sessions.of(sessions.begin("t", ada, clock.now)) is None


async def test_after_the_login_one_is_where_one_wanted_to_be_but_never_elsewhere(world, kept_up):
    async with browsing(world) as browser:
        sent = await browser.get("/memories")
        assert sent.headers["location"] == "/login?next=/memories"
        await browser.get(sent.headers["location"])
        token = await token_for(world)
        answer = await browser.send("/login", {"token": token, "next": "/memories"})
        assert answer.headers["location"] == "/memories"
        filtered = "/?kind=retention&judge=caf%C3%A9+1&created_before=2026-01-01T00%3A00%3A00Z"
        await browser.get("/")
        await browser.send("/logout")
        sent = await browser.get(filtered)
        await browser.get(sent.headers["location"])
        refused = await browser.send("/login", {"token": "none", "next": filtered})
        assert refused.status_code == 401 and f'name="next" value="{html.escape(filtered)}"' in refused.text
        answer = await browser.send("/login", {"token": token, "next": filtered})
        assert answer.headers["location"] == filtered
        too_long = "/?" + "a" * 2_000
        for elsewhere in (
            too_long,
            "/?a=\r\nb",
            "https://evil.example",
            "//evil.example",
            "/\\evil.example",
            "javascript:alert(1)",
        ):
            await browser.get("/login")
            answer = await browser.send("/login", {"token": token, "next": elsewhere})
            assert answer.headers["location"] == "/", elsewhere


async def test_who_was_erased_is_named_by_no_page_any_more(world, browser: Browser):
    assert "person:ada" in (await browser.get("/dashboard")).text
    await world.remember("Likes tea", user_id="ada")
    await erase(world, Erasures(world.engine), subject="ada")
    page = await browser.get("/dashboard")
    assert page.status_code == 200 and "ada" not in page.text


async def test_what_comes_too_fast_or_too_large_is_told_on_a_page_to_people_and_as_a_problem_to_programs(world):
    async with browsing(world, settings=HttpSettings(secure_cookies=False, strangers_per_second=1)) as browser:
        while (told := await browser.get("/login", accept="text/html")).status_code == 200:
            pass
        assert told.status_code == 429 and int(told.headers["retry-after"]) >= 1
        assert told.headers["content-type"].startswith("text/html") and "Too many requests" in told.text
        program = await browser.get("/api/v1/whoami", accept="text/html")
        assert program.status_code == 429 and program.json()["code"] == "rate_limited"
    async with browsing(world, settings=HttpSettings(secure_cookies=False, body_limit=1_024)) as browser:
        large = await browser.send("/login", {"token": "x" * 2_000}, accept="text/html")
        assert large.status_code == 413 and large.headers["content-type"].startswith("text/html")


async def test_a_step_that_is_no_number_of_a_history_is_refused(world, browser: Browser):
    memory = await world.remember("Likes tea")
    await world.catch_up()
    for step in ("0", "9", "x", "1" * 5_000):
        assert (await browser.get(f"/memories/{memory}?step={step}")).status_code == 422, step[:9]
    assert (await browser.get(f"/memories/{memory}?step=1")).status_code == 200


async def test_what_is_foreign_and_what_is_unknown_look_alike(world, browser: Browser):
    other = await world.another_caller()
    foreign = (await world.commands.remember(other, {"content": "Only theirs", "topic": "theirs"})).memory.id
    unknown = uuid4()
    pages = []
    for one in (foreign, unknown):
        for address in (f"/memories/{one}", f"/proposals/{one}"):
            answer = await browser.get(address)
            assert answer.status_code == 404 and "not_found" in answer.text
            pages.append(answer.text.replace(str(one), "ID"))
    assert pages[:2] == pages[2:]


async def test_what_a_token_may_not_do_is_not_offered_and_refused(world, kept_up):
    _, _, proposal = await pair(world)
    async with browsing(world) as browser:
        await browser.log_in(await token_for(world, permissions=["memory:read"]))
        for address in ("/", f"/proposals/{proposal}"):
            shown = (await browser.get(address)).text
            assert "Accept" not in shown and "data-live" not in shown
        assert "Erasures" not in (await browser.get("/dashboard")).text
        answer = await browser.send(f"/proposals/{proposal}/accept")
        assert answer.status_code == 403 and "memory:review" in answer.text
        assert (await browser.get("/news")).status_code == 403
        for address in ("/", f"/proposals/{proposal}"):
            assert "it lacks <code>memory:review</code>" in (await browser.get(address)).text
    async with browsing(world) as browser:
        await browser.log_in(await token_for(world, permissions=["memory:read", "memory:review", "memory:erase"]))
        assert "Accept" in (await browser.get(f"/proposals/{proposal}")).text
        assert "Erasures" in (await browser.get("/dashboard")).text


async def test_the_whole_way_by_plain_forms(world, browser: Browser):
    older, newer, proposal = await pair(world)
    queue = (await browser.get("/")).text
    assert "Sessions are kept in PostgreSQL." in queue and "consolidation <b>1</b>" in queue
    shown = (await browser.get(f"/proposals/{proposal}")).text
    assert "<del>Redis</del><ins>PostgreSQL</ins>" in shown.replace("\n", "")
    done = await browser.send(f"/proposals/{proposal}/accept", {"comment": "looked at <both>"})
    assert done.headers["location"] == f"/proposals/{proposal}"
    shown = (await browser.get(done.headers["location"])).text
    assert "Accepted." in shown and "looked at &lt;both&gt;" in shown and "Undo (1 effect)" in shown
    assert (await world.get(older)).superseded_by == newer
    again = await browser.send(f"/proposals/{proposal}/accept")
    assert again.status_code == 409 and "Nothing was decided" in again.text
    undone = await browser.send("/undos", {"proposal_id": str(proposal)})
    told = (await browser.get(undone.headers["location"])).text
    assert "Taken back: 1" in told
    assert (await world.get(older)).superseded_by is None


async def test_a_stale_proposal_is_refused_with_its_reason(world, browser: Browser):
    older, _, proposal = await pair(world)
    await world.commands.archive(world.caller, {"memory_id": older})
    await world.catch_up()
    shown = (await browser.get(f"/proposals/{proposal}")).text
    assert "Stale." in shown and ">Accept<" not in shown
    answer = await browser.send(f"/proposals/{proposal}/accept")
    assert answer.status_code == 409 and "stale_proposal" in answer.text
    row = await browser.send(
        f"/proposals/{proposal}/accept", **{"hx-request": "true", "hx-target": f"p-{proposal}"}
    )
    assert row.text.strip().startswith("<li") and "stale_proposal" in row.text


async def test_of_a_contradiction_it_is_said_which_one_holds(world, browser: Browser):
    one = await world.remember("Deploys go to Hetzner.", memory_type="decision")
    other = await world.remember("Deploys go to Nomad.", memory_type="decision")
    said = e.ContradictionStaged(
        memory_id=one,
        related_id=other,
        seen={one: 1, other: 1},
        source=uuid4(),
        contradiction=uuid4(),
        found_by="verdict",
    )
    proposal = await staged(world, said)
    shown = (await browser.get(f"/proposals/{proposal}")).text
    assert "Which of the two holds?" in shown and f'value="{other}"' in shown
    answer = await browser.send(f"/proposals/{proposal}/accept", {"asked": "holds"})
    assert answer.status_code == 422 and "say which of the two holds" in answer.text


async def test_many_are_decided_as_the_preview_found_them_or_not_at_all(world, browser: Browser):
    proposals = [(await pair_of(world, number))[2] for number in range(3)]
    preview = (await browser.get("/bulk?verdict=reject&kind=consolidation")).text
    assert "Reject 3 proposals?" in preview
    fields = {"verdict": "reject", "kind": "consolidation"}
    wrong = await browser.send("/bulk", {**fields, "expected": "2"})
    assert wrong.status_code == 409 and "not 2" in html.unescape(wrong.text)
    chosen = await browser.get(f"/bulk?verdict=reject&id={proposals[0]}")
    assert "Reject 1 proposal?" in chosen.text
    sent = {"verdict": "reject", "id": str(proposals[0]), "key": "k1"}
    assert "<b>1</b> rejected" in (await browser.send("/bulk", sent)).text
    assert "<b>1</b> rejected" in (await browser.send("/bulk", sent)).text
    done = (await browser.send("/bulk", {**fields, "expected": "2", "comment": "checked"})).text
    assert "<b>2</b> rejected" in done


async def test_where_some_are_to_be_chosen_and_none_is_nothing_is_proposed_let_alone_decided(
    world, browser: Browser
):
    _, _, proposal = await pair(world)
    queue = (await browser.get("/")).text
    assert '<input type="hidden" name="which" value="chosen">' in queue
    for sent in (
        await browser.get("/bulk?which=chosen&verdict=accept"),
        await browser.send("/bulk", {"which": "chosen", "verdict": "accept", "expected": "1"}),
    ):
        assert sent.status_code == 422 and "choose at least one" in sent.text
    assert 'data-status="proposed"' in (await browser.get(f"/proposals/{proposal}")).text
    # The control: with one chosen the same form does decide.
    fields = {"which": "chosen", "verdict": "accept", "id": str(proposal)}
    assert "Accept 1 proposal?" in (await browser.get(f"/bulk?which=chosen&verdict=accept&id={proposal}")).text
    assert "<b>1</b> applied" in (await browser.send("/bulk", fields)).text


async def test_what_was_decided_is_named_as_the_preview_named_it(world, browser: Browser):
    _, _, proposal = await pair(world)
    preview = (await browser.get("/bulk?verdict=accept")).text
    decided = (await browser.send("/bulk", {"verdict": "accept", "id": str(proposal)})).text
    for shown in (preview, decided):
        assert "Sessions are kept in PostgreSQL." in shown
        assert "older: <q>Sessions are kept in Redis.</q>" in shown
    assert f"<code>{proposal}</code>" not in decided


async def test_what_was_taken_back_says_so_wherever_it_is_seen_and_how_it_holds_again(world, browser: Browser):
    older, _, proposal = await pair(world)
    await browser.send(f"/proposals/{proposal}/accept")
    places = ("/?status=applied", f"/proposals/{proposal}", f"/memories/{older}")
    for address in places:
        assert "taken back" not in (await browser.get(address)).text.lower(), address
    undone = await browser.send("/undos", {"proposal_id": str(proposal)})
    for address in places:
        assert '<span class="badge bad">taken back</span>' in (await browser.get(address)).text, address
    shown = (await browser.get(f"/proposals/{proposal}")).text
    undo = undone.headers["location"]
    assert "<b>Taken back</b>" in shown and "by person:ada" in shown and f'href="{undo}"' in shown
    assert f'name="undo_id" value="{undo.rpartition("/")[2]}"' in shown and "Undo the undo" in shown
    effects = (await browser.get(undo)).text
    assert "(the first" not in effects and "by person:ada" in effects
    assert f'<a href="/memories/{older}">Sessions are kept in Redis.</a>' in effects
    assert f'href="/proposals/{proposal}"' in effects and ">taken back<" in effects
    again = await browser.send("/undos", {"undo_id": undo.rpartition("/")[2]})
    for address in places:
        assert "taken back" not in (await browser.get(address)).text.lower(), address
    assert "Holds again: 1" in (await browser.get(again.headers["location"])).text
    earlier = (await browser.get(undo)).text
    assert "the later undo" in earlier and "Undo the undo" not in earlier


async def test_a_line_that_is_decided_brings_the_totals_of_its_queue_along(world, browser: Browser):
    proposals = [(await pair_of(world, number))[2] for number in range(2)]
    asked = {"hx-request": "true", "hx-target": f"p-{proposals[0]}"}
    around = {"hx-current-url": f"{ORIGIN}/?kind=consolidation"}
    answer = await browser.send(f"/proposals/{proposals[0]}/reject", **asked, **around)
    assert 'id="totals"' in answer.text and "consolidation <b>1</b>" in answer.text
    assert '<b id="found" hx-swap-oob="true">1</b>' in answer.text
    # Elsewhere, and with an address that is none of the queue's, there are none to be told.
    for elsewhere in (f"{ORIGIN}/memories", f"{ORIGIN}/?age=nonsense", "rubbish", f"{ORIGIN}/?" + "a=1&" * 999):
        asked = {"hx-request": "true", "hx-target": f"p-{proposals[1]}", "hx-current-url": elsewhere}
        answer = await browser.send(f"/proposals/{proposals[1]}/reject", **asked)
        assert answer.text.strip().startswith("<li") and 'id="totals"' not in answer.text, elsewhere


async def pair_of(world, number: int):
    older = await world.remember(f"Number {number} is kept in Redis.", memory_type="decision")
    newer = await world.remember(f"Number {number} is kept in PostgreSQL.", memory_type="decision")
    return older, newer, await edge(world, newer, older)


async def test_filters_and_cursors_find_each_proposal_once(world, browser: Browser):
    newer = await world.remember("All of it is kept in PostgreSQL.", memory_type="decision")
    for number in range(22):
        older = await world.remember(f"Number {number} is kept in Redis.", memory_type="decision")
        envelope = Envelope(world.caller.actor, cause=uuid4(), correlation=uuid4())
        await stage(world.engine.log, world.caller.tenant, edge_of(newer, older), envelope)
    await world.catch_up()
    first = (await browser.get("/")).text
    assert first.count("data-row") == 20 and '<b id="found">22</b>' in first
    [following] = [html.unescape(part.partition('"')[0]) for part in first.split('rel="next" href="')[1:]]
    second = (await browser.get(following)).text
    assert second.count("data-row") == 2
    assert (await browser.get("/?kind=fact")).text.count("data-row") == 0
    assert (await browser.get("/?age=7")).text.count("data-row") == 0
    world.clock.forward(days=400)
    await browser.log_in(await token_for(world))
    assert (await browser.get("/?age=7")).text.count("data-row") == 20
    assert (await browser.get("/?kind=nonsense")).status_code == 422


async def test_what_happened_to_a_memory_is_told_in_words_and_what_is_on_record_leads_on(world, browser: Browser):
    older, newer, proposal = await pair(world)
    await browser.send(f"/proposals/{proposal}/accept", {"comment": "so it is"})
    shown = (await browser.get(f"/memories/{older}")).text
    for words in ("the memory was remembered", "the older memory was superseded"):
        assert f"<b>{words}</b>" in shown
    assert f'<a href="/memories/{newer}"><code>' in shown
    other = (await browser.get(f"/memories/{newer}")).text
    assert "<b>a reviewer accepted</b>" in other and "<q>so it is</q>" in other
    timeline = html.unescape(shown.partition("What happened to it")[2])
    assert "['" not in timeline and "('" not in timeline
    # To the second: much happens within a minute.
    assert re.search(r">\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC<", timeline)


async def test_a_memory_is_shown_as_it_was(world, browser: Browser):
    memory = await world.remember("Deploys go to Hetzner.", memory_type="decision", project="shop")
    await world.commands.move(world.caller, {"memory_id": memory, "project": "warehouse"})
    await world.commands.archive(world.caller, {"memory_id": memory, "reason": "said twice"})
    await world.catch_up()
    now = (await browser.get(f"/memories/{memory}")).text
    assert "archived" in now and "said twice" in now and ">warehouse<" in now
    first = (await browser.get(f"/memories/{memory}?step=1")).text
    assert ">shop<" in first and "As on record at" in first and "later" in first
    instant = (await browser.get(f"/memories/{memory}?known_at=2026-01-01T00:00:00Z")).status_code
    assert instant in (200, 422)
    assert (await browser.get(f"/memories/{memory}?step=9")).status_code == 422
    assert (await browser.get(f"/memories/{memory}?known_at=rubbish")).status_code == 422


CANARY = "<img src=x onerror=canary()>\"'</textarea><script>canary()</script>{{7*7}}"


async def test_nothing_that_others_wrote_is_markup(world, browser: Browser):
    fields = {"memory_type": "decision", "project": CANARY, "tags": ["<b>canary</b>"], "user_id": CANARY}
    older = await world.remember(f"Old {CANARY}", topic=f"topic {CANARY}", metadata={"k": CANARY}, **fields)
    newer = await world.remember(f"New {CANARY} \u202egnp.exe \x1b[2J", topic=CANARY, subject=CANARY, **fields)
    said = e.EdgeStaged(
        memory_id=newer,
        related_id=older,
        seen={newer: 1, older: 1},
        source=uuid4(),
        edge="supersedes",
        similarity=0.95,
        embedding_model=CANARY,
        floor=0.92,
        rationale=CANARY,
    )
    proposal = await staged(world, said)
    await world.commands.archive(world.caller, {"memory_id": older, "reason": CANARY})
    await world.catch_up()
    seen = ""
    for address in (
        "/",
        f"/proposals/{proposal}",
        "/memories?status=all",
        f"/memories/{older}",
        f"/memories/{newer}",
    ):
        answer = await browser.get(address)
        assert answer.status_code == 200, address
        seen += answer.text
    answer = await browser.send("/memories", {"query": CANARY})
    seen += answer.text
    rejected = await browser.send(f"/proposals/{proposal}/reject", {"comment": CANARY})
    seen += (await browser.get(rejected.headers["location"])).text
    for address in (f"/?judge={CANARY}", f"/memories?project={CANARY}", f"/nowhere/{CANARY}"):
        seen += (await browser.get(address, accept="text/html")).text
    assert "<img" not in seen and "<script>canary" not in seen and "<b>canary" not in seen
    assert "\u202e" not in seen and "\x1b" not in seen and "&lt;U+202E&gt;" in seen and "␛" in seen
    # The control: it is there, as text.
    assert html.escape("<img src=x onerror=canary()>") in seen and "{{7*7}}" in seen


async def test_an_address_that_is_none_is_a_page_for_people_and_a_problem_for_programs(world, browser: Browser):
    page = await browser.get("/nowhere", accept="text/html")
    assert page.status_code == 404 and page.headers["content-type"].startswith("text/html")
    problem = await browser.get("/api/v1/nowhere", accept="text/html")
    assert problem.headers["content-type"] == "application/problem+json"


async def test_a_login_is_of_its_own_tenant_only(world, kept_up):
    await world.remember("Ours alone, canary1")
    other = Caller(uuid4(), Actor("person", uuid4()))
    await world.engine.tenants.ensure(other.tenant, other.actor)
    await world.commands.remember(other, {"content": "Theirs alone, canary2", "topic": "theirs"})
    await world.catch_up()
    async with browsing(world) as ours, browsing(world) as theirs:
        await ours.log_in(await token_for(world))
        await theirs.log_in(await token_for(world, other))
        for browser, own, foreign in ((ours, "canary1", "canary2"), (theirs, "canary2", "canary1")):
            shown = (await browser.get("/memories")).text + (
                await browser.send("/memories", {"query": "alone"})
            ).text
            assert own in shown and foreign not in shown
