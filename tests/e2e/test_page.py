"""The review page as a person meets it, in a real browser."""

from collections.abc import Generator
from pathlib import Path
from uuid import uuid4

import pytest
from axe_playwright_python.base import AXE_SCRIPT, AxeResults
from lethelog.domain import events as e
from playwright.sync_api import Browser, Page, expect

from .page_server import Desk, PageServer, Seat, chromium, seated

LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def server(browser: Browser, cli_folder: Path) -> Generator[PageServer]:
    with PageServer(cli_folder) as started:
        yield started


@pytest.fixture
def desk(server: PageServer) -> Desk:
    return Desk.opened(server)


@pytest.fixture
def seat(browser: Browser, server: PageServer) -> Generator[Seat]:
    with seated(browser, server) as found:
        yield found
        assert found.complaints == []


def test_a_person_reviews_undoes_and_leaves(desk: Desk, seat: Seat):
    judged = desk.judged()
    older, newer, proposal = desk.edge()
    seat.log_in(desk.token)
    page = seat.page
    expect(page.locator("[data-row]")).to_have_count(2)
    page.get_by_role("link", name="retention 1").click()
    expect(page.locator("[data-row]")).to_have_count(1)
    page.locator("[data-row] a.open").click()
    expect(page.get_by_role("table", name="What the judge takes for likely")).to_be_visible()
    expect(page.get_by_role("list").filter(has_text="the judge said supersede")).to_be_visible()
    expect(page.locator(".diff del").first).to_be_visible()
    page.get_by_label("Comment, kept with the decision").fill("so it is")
    page.get_by_role("button", name="Accept").click()
    expect(page.locator("#notices")).to_contain_text("Accepted.")
    expect(page.get_by_text("by person:ada: so it is")).to_be_visible()
    assert desk.proposal(judged).status == "applied"
    page.get_by_role("button", name="Undo (1 effect)").click()
    expect(page.get_by_role("heading", name="Taken back: 1")).to_be_visible()
    page.get_by_role("link", name="Back to the queue").click()
    # A line of the queue is replaced, the page stays.
    page.locator(f"#p-{proposal}").get_by_role("button", name="Accept").click()
    expect(page.locator(f"#p-{proposal}")).to_contain_text("Accepted.")
    assert desk.get(older).superseded_by == newer
    page.get_by_role("link", name="Memories").click()
    page.get_by_label("Look for").fill("where are sessions kept")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("[data-row]").first).to_be_visible()
    page.get_by_role("link", name="Dashboard").click()
    expect(page.get_by_role("table", name="How far they are behind the log")).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_text("You are logged out.")).to_be_visible()
    page.go_back()
    expect(page.get_by_label("Token")).to_be_visible()


def test_only_what_is_chosen_is_proposed_and_what_is_decided_in_place_is_counted(desk: Desk, seat: Seat):
    proposals = [one[2] for one in desk.edges(0, 1)]
    page = seat.log_in(desk.token)
    several, box = page.get_by_role("button", name="Accept…"), page.locator("[data-row] input[name=id]").first
    expect(several).to_be_disabled()
    box.check()
    expect(several).to_be_enabled()
    box.uncheck()
    expect(several).to_be_disabled()
    expect(page.locator("#totals")).to_contain_text("all kinds 2")
    page.locator(f"#p-{proposals[0]}").get_by_role("button", name="Accept").click()
    expect(page.locator("#totals")).to_contain_text("all kinds 1")
    expect(page.locator("#found")).to_have_text("1")
    # Without the script's help the server says so.
    seat.open("/bulk?which=chosen&verdict=accept")
    expect(page.locator("main")).to_contain_text("choose at least one")
    assert desk.proposal(proposals[1]).status == "proposed"
    seat.complaints[:] = [one for one in seat.complaints if "422" not in one]


def test_an_undo_is_seen_at_the_proposal_and_is_undone_there(desk: Desk, seat: Seat):
    older, newer, proposal = desk.edge()
    desk.server.do(desk.memory.accept(proposal))
    page = seat.log_in(desk.token)
    seat.open(f"/proposals/{proposal}")
    page.get_by_role("button", name="Undo (1 effect)").click()
    page.get_by_role("link", name="a proposal").click()
    expect(page.get_by_text("what accepting it did holds no more")).to_be_visible()
    page.get_by_role("button", name="Undo the undo").click()
    expect(page.get_by_role("heading", name="Holds again: 1")).to_be_visible()
    assert desk.get(older).superseded_by == newer


def test_on_a_small_screen_the_queue_begins_on_it_and_nothing_hangs_over(
    browser: Browser, server: PageServer, desk: Desk
):
    older, _, proposal = desk.edge()
    with seated(browser, server, viewport={"width": 360, "height": 740}) as seat:
        page = seat.log_in(desk.token)
        box = page.locator("[data-row]").first.bounding_box()
        assert box is not None and box["y"] < 500
        for address in ("/", f"/proposals/{proposal}", f"/memories/{older}", "/dashboard"):
            seat.open(address)
            assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), address
        assert seat.complaints == []


def test_by_keys_alone(desk: Desk, seat: Seat):
    proposals = [one[2] for one in desk.edges(0, 1, 2)]
    seat.log_in(desk.token)
    page = seat.page
    first, second, third = (page.locator(f"#p-{one}") for one in proposals)
    page.keyboard.press("j")
    expect(first).to_have_attribute("aria-current", "true")
    page.keyboard.press("j")
    page.keyboard.press("k")
    expect(first).to_have_attribute("aria-current", "true")
    page.keyboard.press("a")
    expect(first).to_contain_text("Accepted.")
    expect(second).to_have_attribute("aria-current", "true")
    page.keyboard.press("r")
    expect(second).to_contain_text("Rejected.")
    expect(third).to_have_attribute("aria-current", "true")
    assert [desk.proposal(one).status for one in proposals] == ["applied", "rejected", "proposed"]
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Decision 2")
    # In a field keys are letters.
    page.get_by_label("Comment, kept with the decision").focus()
    page.keyboard.type("a rather good jar, u?")
    expect(page.get_by_label("Comment, kept with the decision")).to_have_value("a rather good jar, u?")
    assert desk.proposal(proposals[2]).status == "proposed"
    page.get_by_role("heading", level=1).click()
    page.keyboard.press("k")
    expect(page.get_by_role("heading", name="Review queue")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_text("show these keys")).to_be_in_viewport()
    expect(page.locator(".keys summary")).to_be_focused()
    # They can be switched off.
    page.get_by_label("use these keys").uncheck()
    page.keyboard.press("j")
    expect(page.locator("[aria-current=true][data-row]")).to_have_count(0)
    page.get_by_label("use these keys").check()
    page.goto(f"{seat.url}/proposals/{proposals[0]}")
    page.keyboard.press("u")
    expect(page.get_by_role("heading", name="Taken back: 1")).to_be_visible()


def test_a_key_that_is_held_decides_once(desk: Desk, seat: Seat):
    proposals = [one[2] for one in desk.edges(0, 1, 2)]
    page = seat.log_in(desk.token)
    first, second, third = (page.locator(f"#p-{one}") for one in proposals)
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    page.keyboard.press("j")
    page.keyboard.down("a")
    expect(first).to_contain_text("Accepted.")
    expect(second).to_have_attribute("aria-current", "true")
    page.keyboard.down("a")
    page.keyboard.up("a")
    # The control: another key, pressed afterwards, is heard, and one that is held goes on stepping.
    page.keyboard.press("r")
    expect(second).to_contain_text("Rejected.")
    assert len(sent) == 2, sent
    page.keyboard.press("k")
    page.keyboard.press("k")
    expect(first).to_have_attribute("aria-current", "true")
    page.keyboard.down("j")
    page.keyboard.down("j")
    page.keyboard.up("j")
    expect(third).to_have_attribute("aria-current", "true")
    assert [desk.proposal(one).status for one in proposals] == ["applied", "rejected", "proposed"]


def test_all_of_it_works_without_javascript(browser: Browser, server: PageServer, desk: Desk):
    older, newer, proposal = desk.edge()
    with seated(browser, server, java_script_enabled=False) as seat:
        page = seat.log_in(desk.token)
        page.locator(f"#p-{proposal}").get_by_role("button", name="Accept").click()
        expect(page.get_by_text("Accepted.")).to_be_visible()
        page.get_by_role("button", name="Undo (1 effect)").click()
        expect(page.get_by_role("heading", name="Taken back: 1")).to_be_visible()
        page.goto(f"{seat.url}/memories/{older}")
        page.get_by_label("As of step").fill("1")
        page.get_by_role("button", name="Show").first.click()
        expect(page.get_by_text("As on record at")).to_be_visible()
        page.get_by_label("Or as of a position, or an instant").fill("2001-01-01T00:00:00Z")
        page.get_by_role("button", name="Show").nth(1).click()
        expect(page.locator("main")).to_contain_text("on record")
        page.goto(f"{seat.url}/")
        page.get_by_text("Filters", exact=True).click()
        page.get_by_role("combobox", name="Kind").select_option("fact")
        page.get_by_role("button", name="Filter").click()
        expect(page.get_by_text("Nothing is found by these filters.")).to_be_visible()
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_text("You are logged out.")).to_be_visible()
        assert seat.complaints == []
    assert desk.get(older).superseded_by is None and desk.get(newer).current


def test_many_at_once_as_previewed(desk: Desk, seat: Seat):
    proposals = [one[2] for one in desk.edges(0, 1, 2)]
    page = seat.log_in(desk.token)
    page.locator(f"#p-{proposals[0]}").get_by_role("checkbox").check()
    page.get_by_role("button", name="Reject…").click()
    expect(page.get_by_role("heading", name="Reject 1 proposal?")).to_be_visible()
    page.get_by_role("button", name="Reject 1").click()
    expect(page.get_by_role("heading", name="Decided")).to_be_visible()
    page.get_by_role("link", name="Back to the queue").click()
    page.get_by_role("link", name="Accept all…").click()
    expect(page.get_by_role("heading", name="Accept 2 proposals?")).to_be_visible()
    late = desk.edge(9)[2]
    page.get_by_role("button", name="Accept 2").click()
    expect(page.get_by_text("3 proposals are found now, not 2")).to_be_visible()
    assert desk.proposal(proposals[1]).status == "proposed"
    page.goto(f"{seat.url}/bulk?verdict=accept")
    page.get_by_role("button", name="Accept 3").click()
    expect(page.get_by_text("3 applied")).to_be_visible()
    assert desk.proposal(late).status == "applied"
    page.get_by_role("button", name="Undo Decision 9").click()
    expect(page.get_by_role("heading", name="Taken back: 1")).to_be_visible()
    seat.complaints[:] = [one for one in seat.complaints if "409" not in one]


def test_of_a_contradiction_it_is_said_which_one_holds(desk: Desk, seat: Seat):
    older, newer, review = desk.contradiction()
    page = seat.log_in(desk.token)
    page.locator(f"#p-{review}").get_by_role("link", name="Say which holds").click()
    page.get_by_role("button", name="Accept").click()
    expect(page.get_by_role("alert")).to_contain_text("say which of the two holds")
    page.get_by_role("radio", name="Hamburg").check()
    page.get_by_role("button", name="Accept").click()
    expect(page.locator("#notices")).to_contain_text("Accepted.")
    assert desk.get(older).superseded_by == newer
    seat.complaints[:] = [one for one in seat.complaints if "422" not in one]


def test_what_is_stale_is_refused_with_its_reason(desk: Desk, seat: Seat):
    older, _, stale = desk.edge()
    page = seat.log_in(desk.token)
    page.goto(f"{seat.url}/proposals/{stale}")
    desk.server.do(desk.memory.archive(older))
    page.get_by_role("button", name="Accept").click()
    expect(page.get_by_role("alert")).to_contain_text("stale_proposal")
    expect(page.get_by_role("button", name="Accept")).to_have_count(0)
    page.get_by_role("button", name="Reject").click()
    expect(page.locator("#notices")).to_contain_text("Rejected.")
    seat.complaints[:] = [one for one in seat.complaints if "409" not in one]


def test_what_comes_meanwhile_is_told_and_what_is_done_here_is_not(desk: Desk, seat: Seat):
    own = desk.edge()[2]
    page = seat.log_in(desk.token)
    page.locator(f"#p-{own}").get_by_role("button", name="Reject").click()
    expect(page.locator(f"#p-{own}")).to_contain_text("Rejected.")
    desk.edge(2)
    expect(page.locator("#news")).to_contain_text("1 proposal new or changed.")
    page.get_by_role("link", name="Show them").click()
    expect(page.locator("[data-row]")).to_have_count(1)
    expect(page.locator("#news")).to_be_empty()


def test_what_cannot_be_decided_any_more_is_told_in_the_whole_page(desk: Desk, seat: Seat):
    own = desk.edge()[2]
    page = seat.log_in(desk.token)
    page.evaluate("() => document.querySelectorAll('[name=csrf]').forEach(one => { one.value = 'old' })")
    page.locator(f"#p-{own}").get_by_role("button", name="Accept").click()
    expect(page.locator("h1")).to_have_text("The credential lacks a permission")
    expect(page.locator("main")).to_have_count(1)
    assert desk.proposal(own).status == "proposed"
    seat.complaints[:] = [one for one in seat.complaints if "403" not in one]


def test_a_memory_is_seen_as_it_was_by_moving_the_slider(desk: Desk, seat: Seat):
    memory = desk.remember("Deploys go to Hetzner.", project="shop")
    desk.server.do(desk.memory.move(memory, project="warehouse"))
    desk.server.do(desk.memory.archive(memory, reason="said twice"))
    seat.log_in(desk.token)
    page = seat.open(f"/memories/{memory}")
    expect(page.locator(".timeline li")).to_have_count(3)
    page.get_by_label("As of step").fill("1")
    expect(page.get_by_text("As on record at")).to_be_visible()
    expect(page.locator("dl.fields")).to_contain_text("shop")
    expect(page.locator(".timeline .later")).to_have_count(2)


MARK = "<img src=/nothing onerror=\"document.title='pwned'\"><script>document.title='pwned'</script>"


def test_what_others_wrote_does_nothing(desk: Desk, seat: Seat):
    older = desk.remember(f"older {MARK}", topic=MARK, project=MARK, tags=["<i>x</i>"], subject=MARK, user_id=MARK)
    newer = desk.remember(f"newer {MARK}", topic=f"2 {MARK}", metadata={"x": MARK})
    said = e.EdgeStaged(
        memory_id=newer,
        related_id=older,
        seen={newer: 1, older: 1},
        source=uuid4(),
        edge="supersedes",
        similarity=0.9,
        embedding_model=MARK,
        floor=0.5,
        rationale=MARK,
    )
    proposal = desk.stage(said)
    seat.log_in(desk.token)
    page = seat.page
    page.locator("[data-row]").get_by_role("button", name="Accept").click()
    expect(page.locator(f"#p-{proposal}")).to_contain_text("Accepted.")
    for address in (
        "/?status=all",
        f"/proposals/{proposal}",
        f"/memories/{older}",
        f"/memories/{newer}",
        "/memories",
    ):
        seat.open(address)
        expect(page.locator("main")).to_contain_text("onerror=")
        assert "pwned" not in page.title().replace(MARK, ""), address
        assert page.locator("img").count() == 0 and page.locator("main script").count() == 0
    # The control: where it is not escaped, it is seen.
    page.evaluate("mark => { document.querySelector('main').innerHTML = mark }", MARK)
    assert page.locator("img").count() == 1
    # And even then nothing of it runs, by the policy: the browser says so.
    page.wait_for_function("() => document.querySelector('img').complete")
    assert page.title() != "pwned"
    assert any("Content Security Policy" in one for one in seat.complaints)
    seat.complaints.clear()


def test_everybody_can_use_it_by_day_and_by_night(desk: Desk, seat: Seat):
    judged = desk.judged()
    (older, _, proposal), (_, _, accepted) = desk.edges(1, 2)
    contradiction = desk.contradiction()[2]
    desk.server.do(desk.memory.accept(accepted))
    undone = desk.server.do(desk.memory.undo(proposal_id=accepted))
    preview = desk.server.do(desk.memory.preview_erasure(memory_id=desk.remember("to be erased")))
    desk.server.do(desk.memory.erase(preview.id, reason="data_subject_request"))
    page = seat.open("/login")
    wrong = violations(page)
    seat.log_in(desk.token)
    for address in (
        *("/?status=all", f"/proposals/{judged}", f"/proposals/{proposal}", f"/proposals/{contradiction}"),
        *("/bulk?verdict=accept", f"/undos/{undone.id}", "/memories", f"/memories/{older}?step=1", "/dashboard"),
        f"/proposals/{uuid4()}",
    ):
        seat.open(address)
        page.locator(".keys summary").click()
        wrong += violations(page)
    assert wrong == []
    # The control: it does find what is wrong.
    page.evaluate("() => { document.documentElement.removeAttribute('lang') }")
    assert "html-has-lang" in violations(page)[0]
    seat.complaints[:] = [one for one in seat.complaints if "404" not in one]


def violations(page: Page) -> list[str]:
    """What is wrong for somebody, by day; by night only the colours are others."""
    page.evaluate(AXE_SCRIPT)
    found = []
    for scheme, rules in (("light", LEVELS), ("dark", ["color-contrast"])):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        told = page.evaluate("rules => axe.run({ resultTypes: ['violations'], runOnly: rules })", rules)
        found += [f"{page.url}, {scheme}: {AxeResults(told).generate_report()}" for _ in told["violations"][:1]]
    return found


def test_another_tenant_sees_nothing_of_it(browser: Browser, server: PageServer, desk: Desk):
    _, _, proposal = desk.edge()
    memory = desk.remember("Ours alone.")
    with seated(browser, server) as seat:
        page = seat.log_in(Desk.opened(server).token)
        expect(page.get_by_text("Nothing waits for review.")).to_be_visible()
        for address in (f"/proposals/{proposal}", f"/memories/{memory}"):
            seat.open(address)
            expect(page.get_by_text("not_found")).to_be_visible()
            expect(page.locator("main")).not_to_contain_text("Ours alone")


def test_it_is_light(browser: Browser, server: PageServer, desk: Desk):
    desk.edges(*range(20))
    with seated(browser, server) as seat:
        seat.log_in(desk.token)
        for address in ("/", "/dashboard"):
            seat.open(address)
            parts = seat.page.evaluate(
                "() => [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]"
                ".map(one => [one.name, one.decodedBodySize])"
            )
            # With all that a browser needs once and keeps.
            assert any("htmx" in name for name, _ in parts)
            assert 60_000 < sum(size for _, size in parts) < 150_000, parts
