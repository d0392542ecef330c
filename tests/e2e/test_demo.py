"""The demo, on the shipped sample and on a folder of one's own."""

import io
import json
import shutil
from pathlib import Path

import pytest
from lethelog.ops import embedded
from lethelog.ops.demo.run import demo_command
from rich.console import Console

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path):
    data = tmp_path / "data"
    yield data
    embedded.discard(data)


def run(folder: Path, report: Path, source: Path | None, passes: int) -> tuple[int, dict, str]:
    out = io.StringIO()
    console = Console(file=out, width=120)
    code = demo_command(
        source=source, report=report, data_dir=folder, keep=True, console=console, max_passes=passes
    )
    return code, json.loads(report.read_text()), out.getvalue()


@pytest.mark.slow
def test_the_sample_is_remembered_judged_compared_and_proved(folder: Path, tmp_path: Path):
    code, report, said = run(folder, tmp_path / "report.json", None, 1)
    assert code == 0 and report["rebuild_equal"] is True
    assert (report["memories"], report["passes"]) == (1472, 1)
    assert report["judged"] > 700 and report["refused"] == 0
    assert report["hard_negatives_proposed"] == 0
    assert report["lineage"]["confirmed"] >= 100 and report["lineage"]["contradicted"] <= 2
    assert report["lineage"]["older_only"] == 0
    assert report["recall"]["after_first_pass"] >= 0.45
    assert (report["accepted"], report["rejected"], report["revised"]) == (3, 1, 1)
    assert report["events"] > 3_000 and report["candidates"]["pairs"] > report["candidates"]["singles"] > 0
    assert {"remember", "passes", "decide", "prove"} <= set(report["seconds"])
    for stage in (
        "1. Remember",
        "2. Forgetting passes",
        "3. The proposals",
        "4. Decide",
        "5. Prove it",
        "6. In numbers",
    ):
        assert stage in said


def test_a_folder_of_decisions_is_remembered_and_judged(folder: Path, tmp_path: Path):
    source = tmp_path / "adr"
    shutil.copytree(ROOT / "docs" / "examples" / "adr", source)
    (source / "broken.md").write_bytes(b"\xff\xfe\x00 not text")
    code, report, said = run(folder, tmp_path / "report.json", source, 3)
    assert code == 0 and report["rebuild_equal"] is True
    assert report["proposed"] == {"supersede": 2} and report["accepted"] == 2
    assert report["lineage"] is None
    assert "broken.md" in said
    assert "accepted  supersede" in said and said.count("it rests on: “Supersedes") == 2


def test_a_folder_in_which_nothing_ends_says_why_nothing_is_proposed(folder: Path, tmp_path: Path):
    (tmp_path / "notes").mkdir()
    long = "# A note\n\n" + "Nothing in it ends. " * 60 + "\n\n## Consequences\n\n" + "None so far. " * 90
    (tmp_path / "notes" / "a.md").write_text(long)
    code, report, said = run(folder, tmp_path / "report.json", tmp_path / "notes", 1)
    assert (
        code == 0
        and report["proposed"] == {}
        and "nothing is proposed: the default judge" in " ".join(said.split())
    )
    assert "A note (2 of 2): ## Consequences" in said, "a part is shown under its title"


def test_a_folder_without_anything_says_so(folder: Path, tmp_path: Path):
    from lethelog.domain.errors import InvalidInput

    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InvalidInput):
        run(folder, tmp_path / "report.json", empty, 1)
