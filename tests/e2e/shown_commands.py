"""The commands that the documentation shows, one by one, as a shell would read them."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_BLOCKS = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
_TOML = re.compile(r"^```toml\n(.*?)^```", re.DOTALL | re.MULTILINE)
_ASSIGNMENT = re.compile(r"[A-Z_]+=")
PAGES = sorted(
    str(page.relative_to(ROOT))
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
    if "reference/" not in str(page)
)

NOT_PASTED: Mapping[str, str] = {
    "serve": "stays until it is stopped: test_serve.py",
    "mcp": "stays until it is stopped: test_mcp.py",
    "up": "stays until it is stopped: test_cli_servers.py",
    "worker": "stays until it is stopped: test_cli_servers.py",
    "tail": "stays until it is stopped: test_cli_log.py",
    "bench": "takes minutes: test_cli_bench.py and tests/integration/test_bench_measures.py",
    "extract ": "needs a model elsewhere: test_extraction.py has one here",
    "whatif --judge systemone": "needs a model elsewhere: test_whatif.py has one here",
    "doctor": "asks servers elsewhere here: test_cli_servers.py",
    "parked retry --consumer": "needs a subscriber that failed: test_cli_parked.py",
    "parked retry --read-model live_memory --sequence": "needs an event that failed: test_cli_parked.py",
    "parked drop": "needs a subscriber that failed: test_cli_parked.py",
}
"""By how a command begins, after its options."""


@dataclass(frozen=True)
class Shown:
    """One command line of Lethelog."""

    page: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page}: {shlex.join(('lethelog', *self.words))}"


def shown_on(page: str) -> list[Shown]:
    """Every command of a page that a reader may paste, in its order."""
    found: list[Shown] = []
    blocks = _BLOCKS.findall((ROOT / page).read_text())
    for block in (text for _, language, text in blocks if language in ("", "sh", "bash")):
        for line in block.replace("\\\n", " ").splitlines():
            found += [Shown(page, tuple(words[1:])) for words in _commands(line) if words[0] == "lethelog"]
    return found


def reason_not_to_paste(shown: Shown) -> str | None:
    """Why a command is only understood here, and not run."""
    words = list(shown.words)
    while words[0].startswith("--"):
        words = words[2:]
    line = " ".join(words) + " "
    return next((reason for start, reason in NOT_PASTED.items() if line.startswith(f"{start.strip()} ")), None)


def toml_on(page: str) -> str:
    """The file that a page shows."""
    [text] = _TOML.findall((ROOT / page).read_text())
    return text


def exported_on(page: str) -> dict[str, str]:
    """What the last block of the page that sets variables sets."""
    *_, block = (text for _, _, text in _BLOCKS.findall((ROOT / page).read_text()) if "export " in text)
    given = [shlex.split(line, comments=True)[1] for line in block.splitlines() if line.startswith("export ")]
    return dict(one.split("=", 1) for one in given)


def _commands(line: str) -> list[list[str]]:
    """The simple commands of a line: what stands between pipes, without comments, redirections and assignments."""
    reader = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    reader.whitespace_split = True
    try:
        words = list(reader)
    except ValueError:
        return []  # a drawing, not a command
    made: list[list[str]] = [[]]
    redirected = False
    for word in words:
        if set(word) <= set("|&;"):
            made.append([])
        elif set(word) <= set("<>"):
            redirected = True
        elif redirected:
            redirected = False
        elif word == "--" and made[-1] and made[-1][0] != "lethelog":
            made.append([])  # what another program is told to run
        elif made[-1] or not _ASSIGNMENT.match(word):
            made[-1].append(word)
    return [one for one in made if one]
