"""What the pages list is all there is: pages, read models, roles of workers."""

from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

from lethelog.handlers.engine import Engine
from lethelog.handlers.operating.workers import ALL_ROLES

ROOT = Path(__file__).parents[2]


def test_the_readme_leads_to_every_page_but_single_decisions():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    pages = [page.relative_to(ROOT).as_posix() for page in ROOT.glob("docs/**/*.md") if page.parent.name != "adr"]
    assert len(pages) > 20
    assert [page for page in sorted(pages) if f"]({page})" not in readme] == []


def test_the_architecture_names_every_read_model():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    kinds = [get_type_hints(Engine)[field.name] for field in fields(Engine)]
    names = [kind.name for kind in kinds if hasattr(kind, "clear_texts")]
    assert "live_memory" in names and len(names) > 5
    assert [name for name in names if f"| `{name}` |" not in page] == []


def test_worker_help_names_every_role():
    page = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    [line] = [line for line in page.splitlines() if line.startswith("| `--roles NAMES` |")]
    assert {name.strip(" |") for name in line.split("|")[2].partition(", by commas")[0].split(",")} == ALL_ROLES
