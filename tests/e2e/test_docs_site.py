"""The documentation as a site: it is built without a remark, and every page is found from its navigation."""

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def pages_of(nav: list[dict[str, Any]]) -> Iterator[str]:
    for entry in nav:
        for target in entry.values():
            if isinstance(target, str):
                yield target
            else:
                yield from pages_of(target)


def test_the_navigation_leads_to_every_page_once():
    nav = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    pages = [
        page.relative_to(ROOT / "docs").as_posix()
        for page in (ROOT / "docs").rglob("*.md")
        if "examples" not in page.parts
    ]
    assert len(pages) > 40
    assert sorted(pages_of(nav)) == sorted(pages)


def test_the_site_is_built_without_a_remark(tmp_path: Path):
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    program = Path(sys.executable).with_name("zensical")
    built = subprocess.run(
        [program, "build", "--strict", "--clean"], cwd=tmp_path, capture_output=True, text=True, timeout=170
    )
    assert built.returncode == 0, built.stdout + built.stderr
    index = (tmp_path / "site" / "index.html").read_text()
    assert "forgets on the record" in index and "fonts.googleapis.com" not in index
