"""The code in the documentation runs, as written, on servers of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCKS = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
PAGES = sorted(
    str(page.relative_to(ROOT))
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    if BLOCKS.search(page.read_text())
)


@pytest.mark.parametrize("page", PAGES)
def test_the_python_code_of_the_page_runs_as_written(page: str, tmp_path: Path):
    from lethelog.ops import embedded

    blocks = BLOCKS.findall((ROOT / page).read_text())
    program = tmp_path / "page.py"
    program.write_text("\n".join(blocks))
    ran = subprocess.run(
        [sys.executable, str(program)],
        cwd=tmp_path,
        env=os.environ | {"LETHELOG_DATA_DIR": str(tmp_path / "data")},
        capture_output=True,
        text=True,
        timeout=170,
    )
    for folder in tmp_path.iterdir():
        if folder.is_dir():
            embedded.discard(folder)
    assert ran.returncode == 0, ran.stderr[-3000:]


def test_the_pages_that_show_python_are_found():
    assert {"README.md", "docs/tutorial.md"} <= set(PAGES)


def test_every_link_between_the_pages_leads_somewhere():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []
