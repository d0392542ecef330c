"""The code in the documentation runs, as written, on servers of its own."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_the_python_code_of_the_page_runs_as_written(page: str, tmp_path: Path):
    from lethelog.ops import embedded

    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
    assert blocks
    program = tmp_path / "page.py"
    program.write_text("\n".join(blocks))
    ran = subprocess.run([sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True, timeout=170)
    for folder in tmp_path.iterdir():
        if folder.is_dir():
            embedded.discard(folder)
    assert ran.returncode == 0, ran.stderr[-3000:]


def test_every_link_between_the_pages_leads_somewhere():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []
