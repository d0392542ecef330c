"""What people read is said in words that they can know, and in the right number."""

import re
from pathlib import Path

import pytest
from lethelog.ops.cli.output import counted

ROOT = Path(__file__).parents[2]
REFERENCE = sorted((ROOT / "docs" / "reference").iterdir())
_SOURCES_OF_RULES = re.compile(r"\b(settlements? \d+|behaviour\.md|design\.md|peers\.md)|\([AFS]\d{1,2}\b")
_NOUNS = "calls|days|events|facts|files|groups|keys|memories|messages|pairs|passes|proposals|questions|rows|tenants|times"
_UNCOUNTED = re.compile(rf"\{{[^{{}}]+\}} (?:[a-z]+ )?(?:{_NOUNS}|are|were)\b")
_OF_THE_DEMO = ("run.py", "show.py", "files.py")
_NO_COUNT = (
    "rows of the commit that ends at {commit} are not",
    "{', '.join(wrong)} passes row-level security",
    "{FILE_LIMIT:,} files",
)
"""What stands before the plural there is a name, or never one."""


@pytest.mark.parametrize(
    ("count", "noun", "said"),
    [(0, "event", "0 events"), (1, "memory", "1 memory"), (2, "memory", "2 memories"), (2, "pass", "2 passes"),
     (1, "pass", "1 pass"), (3, "entry", "3 entries"), (2, "day", "2 days"), (2, "erasure", "2 erasures")],
)  # fmt: skip
def test_a_number_and_its_noun_agree(count: int, noun: str, said: str):
    assert counted(count, noun) == said


def test_the_command_line_counts_nothing_but_by_counted():
    files = [*(ROOT / "ops" / "cli").glob("*.py"), *(ROOT / "ops" / "demo" / name for name in _OF_THE_DEMO)]
    lines = [(file.name, line.strip()) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    assert len(lines) > 8_000
    found = [one for one in lines if _UNCOUNTED.search(one[1])]
    assert [one for one in found if not any(known in one[1] for known in _NO_COUNT)] == []


@pytest.mark.parametrize(
    "line", ['f"{found.total} proposals wait"', 'f"{n} are not verified"', 'f"{n} near pairs"']
)
def test_a_number_beside_a_plural_would_be_found(line: str):
    assert _UNCOUNTED.search(line)


@pytest.mark.parametrize("page", REFERENCE, ids=lambda page: page.name)
def test_no_reference_cites_a_rule_that_its_reader_cannot_look_up(page: Path):
    assert [line for line in page.read_text(encoding="utf-8").splitlines() if _SOURCES_OF_RULES.search(line)] == []


def test_a_cited_rule_would_be_found():
    assert _SOURCES_OF_RULES.search("recorded (settlement 13).") and _SOURCES_OF_RULES.search("put it away (A5).")
