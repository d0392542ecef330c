"""What the documentation shows to paste into a shell is understood, and does what it says when it is pasted."""

import json
import re
import secrets
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from jevcompat import mock
from lethelog.ops import embedded
from lethelog.ops.cli.app import app
from lethelog.ops.local import Memory
from lethelog.ops.settings import Settings
from typer.main import get_command

from ..conftest import folder_of_servers
from ..integration.review_desk import said_to_conflict
from .conftest import Cli, Ran
from .shown_commands import PAGES, Shown, exported_on, reason_not_to_paste, shown_on, toml_on

DRY_RUN = "docs/how-to/judges.md"
SHOWN = [shown for page in PAGES for shown in shown_on(page)]


@dataclass
class Paster:
    """Somebody who pastes what a page shows, and puts in what it leaves to be put in."""

    cli: Cli
    operator: Memory
    given: dict[str, Callable[["Paster"], str]] = field(default_factory=dict)
    known: dict[str, str] = field(default_factory=dict)

    def paste(self, shown: Shown) -> Ran:
        words = [self._put_in(word) for word in shown.words]
        # A token says itself whose it is.
        cli = TokenCli(self.cli.data_dir) if "--token-file" in words else self.cli
        return cli(*words, stdin="q\n")

    def _put_in(self, word: str) -> str:
        return self.given[word](self) if word in self.given else word

    def json(self, *words: str) -> Any:
        return self.cli.json(*words)


class TokenCli(Cli):
    """The command line without a tenant or actor by its options."""

    def options(self) -> list[str]:
        return ["--data-dir", str(self.data_dir)]


def newest(paster: Paster) -> str:
    """The memory that was last remembered on this page, or before it."""
    events = _remembered(paster) or [{"stream": paster.cli.remember("Deploys go to Hetzner")}]
    return events[-1]["stream"]


def commitment(paster: Paster) -> str:
    """One that the page tells of."""
    return paster.known.setdefault("commitment", paster.cli.remember("Send the report", "--type", "commitment"))


def first_position(paster: Paster) -> str:
    newest(paster)
    return str(_remembered(paster)[0]["position"])


def _remembered(paster: Paster) -> list[Any]:
    return paster.json("log", "show", "--type", "memory.remembered")["events"]


def head(paster: Paster) -> str:
    paster.cli.remember("The newest of all")
    return str(paster.json("log", "show")["events"][-1]["position"])


def run(paster: Paster) -> str:
    return paster.json("session", "list")["sessions"][-1]["id"]


def contradiction(paster: Paster) -> str:
    """One that waits for its decision."""
    name = secrets.token_hex(4)
    pair = [UUID(paster.cli.remember(f"{name} is in {town}", "--type", "fact")) for town in ("Kiel", "Ulm")]
    tenant = paster.operator.tenants.show(paster.cli.tenant).id
    conflict = paster.operator.run(said_to_conflict(paster.operator.asyncio.engine.log, tenant, *pair))
    paster.json("proposals", "accept", str(conflict))
    waiting = paster.json("contradictions")["contradictions"]
    return str(waiting[-1]["review"])


def token(paster: Paster) -> str:
    return paster.json("--tenant", acme(paster), "token", "list")["tokens"][-1]["id"]


def acme(paster: Paster) -> str:
    """A name of the page's own, since the pages share their servers."""
    return paster.known.setdefault("acme", f"acme-{secrets.token_hex(4)}")


def made_acme(paster: Paster) -> str:
    if "acme" not in paster.known:
        paster.json("tenant", "create", acme(paster))
    return acme(paster)


def of_ada(paster: Paster) -> str:
    paster.cli.remember("Ada likes vim", "--subject", "ada", "--user", "ada")
    return "ada"


def erasure(paster: Paster) -> str:
    return paster.json("erase", "list")["erasures"][-1]["id"]


def webhook(paster: Paster) -> str:
    made = paster.json("webhook", "list")["webhooks"] or [
        paster.json("webhook", "add", "https://example.org/hook", "--type", "proposal.*")["webhook"]
    ]
    return made[-1]["id"]


def mem0_file(_: Paster) -> str:
    memory = {"id": "m-1", "memory": "Ada likes vim", "created_at": "2026-01-01T00:00:00Z", "user_id": "ada"}
    Path("mem0.json").write_text(json.dumps({"results": [memory]}))
    return "mem0.json"


GIVEN: Mapping[str, Mapping[str, Callable[[Paster], str]]] = {
    "README.md": {"MEMORY_ID": newest},
    "docs/how-to/audit.md": {"MEMORY_ID": newest, "12000": head},
    "docs/how-to/commitments.md": {"MEMORY_ID": newest},
    "docs/how-to/contradictions.md": {"REVIEW": contradiction, "MEMORY_ID": newest},
    "docs/how-to/erase.md": {"ada": of_ada, "ERASURE": erasure},
    "docs/how-to/keys.md": {"acme": made_acme},
    "docs/how-to/move.md": {"ada": of_ada, "mem0.json": mem0_file},
    "docs/how-to/read-models.md": {"MEMORY_ID": newest},
    "docs/how-to/sessions.md": {"RUN": run, "MEMORY_ID": commitment},
    "docs/how-to/tenants.md": {"acme": acme, "TOKEN_ID": token},
    "docs/how-to/time.md": {"MEMORY_ID": newest, "POSITION": first_position},
    "docs/how-to/webhooks.md": {"WEBHOOK": webhook, "1200": lambda _: "1"},
}
"""What the pages leave to be put in."""
FILES = {"docs/how-to/tenants.md": "acme.toml", "docs/how-to/whatif.md": "stricter.toml"}


@pytest.mark.parametrize("shown", SHOWN, ids=str)
def test_a_command_that_is_shown_is_one(shown: Shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    understood(shown.words)


def test_the_commands_are_found():
    assert len(SHOWN) > 120 and sum(not reason_not_to_paste(shown) for shown in SHOWN) > 90


@pytest.mark.parametrize("words", [("memorise", "x"), ("search", "--nonsense", "x"), ("history",)])
def test_what_is_no_command_would_be_noticed(words: tuple[str, ...]):
    with pytest.raises(Exception, match=r"No such|Missing|no such") as caught:
        understood(words)
    assert hasattr(caught.value, "format_message")


PASTED = [
    page
    for page in PAGES
    if page != DRY_RUN and any(reason_not_to_paste(shown) is None for shown in shown_on(page))
]


@pytest.mark.parametrize("page", PASTED)
def test_the_commands_of_a_page_do_what_they_say(page: str, folder: Path, tmp_path: Path, pasting, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if page in FILES:
        Path(FILES[page]).write_text(toml_on(page))
    paster: Paster = pasting(page)
    for shown in shown_on(page):
        if reason_not_to_paste(shown) is None:
            ran = paster.paste(shown)
            assert ran.status == 0, (str(shown), ran.err)


def test_the_dry_run_of_a_judge_asks_it_as_the_page_says(pasting, monkeypatch, caplog):
    exported = exported_on(DRY_RUN)
    *before, asking = [shown for shown in shown_on(DRY_RUN) if reason_not_to_paste(shown) is None]
    with mock.Running(mock.MockConfig()) as server:
        assert exported["LETHELOG_JUDGE_URL"].startswith("http://127.0.0.1:")
        for name, value in (exported | {"LETHELOG_JUDGE_URL": server.url}).items():
            monkeypatch.setenv(name, value)
        paster: Paster = pasting(DRY_RUN)
        assert [paster.paste(shown).status for shown in before] == [0, 0, 0]
        with monkeypatch.context() as without:
            without.delenv("LETHELOG_JUDGE_STARTING_VALUES")
            refused = paster.paste(asking)
        assert refused.status == 2 and "LETHELOG_JUDGE_THRESHOLDS" in refused.err, refused
        with monkeypatch.context() as without:
            without.delenv("LETHELOG_JUDGE_ANSWERS_AS")
            misnamed = paster.paste(asking)
        assert "1 (judge rejected: 1)" in misnamed.out and "jevcompat-mock-0.1" in caplog.text, misnamed
        asked = paster.paste(asking)
    assert re.search(r"phase +completed", asked.out) and re.search(r"judged +1\b", asked.out), asked


def understood(words: tuple[str, ...]) -> None:
    """Read a command as if it were to be run. Raises what the command line would complain of."""
    command: Any = get_command(app)
    context = command.make_context("lethelog", list(words))
    while hasattr(command, "resolve_command") and not (command.invoke_without_command and not context.args):
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, rest, parent=context)


@pytest.fixture(scope="module")
def folder() -> Generator[Path]:
    """Servers of these tests' own: some pages rotate keys and read the whole log."""
    with folder_of_servers() as made:
        data = made / "shown"
        with embedded.join(data):
            yield data
        embedded.discard(data)


@pytest.fixture(scope="module")
def pasting(folder: Path) -> Generator[Callable[[str], Paster]]:
    with Memory.open(Settings.load(data_dir=folder), ()) as operator:

        def begin(page: str) -> Paster:
            return Paster(Cli(folder).made(), operator, dict(GIVEN.get(page, {})))

        yield begin
