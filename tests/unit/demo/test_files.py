"""Loading a folder of one's own: what is read, what is passed over, and how it is told."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lethelog.domain.errors import InvalidInput
from lethelog.ops.demo import files
from lethelog.ops.demo.files import load_files

Tree = Callable[..., Path]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Writes files into a folder and gives the folder."""

    def write(entries: dict[str, str | bytes]) -> Path:
        for name, content in entries.items():
            path = tmp_path / "notes" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return tmp_path / "notes"

    return write


def topics(folder: Path) -> list[str]:
    return [memory.topic for memory in load_files(folder).memories]


def warned(folder: Path) -> list[str]:
    return [str(warning) for warning in load_files(folder).warnings]


def test_a_folder_is_read_in_the_order_of_its_paths(tree: Tree):
    folder = tree({"b.md": "B", "a/z.md": "Z", "a.markdown": "A", "c.jsonl": '{"topic": "C", "content": "c"}\n'})
    loaded = load_files(folder)
    assert [memory.key for memory in loaded.memories] == ["a.markdown#1", "b.md#1", "c.jsonl:1#1", "a/z.md#1"]
    assert (loaded.files, loaded.warnings) == (4, [])


def test_one_file_is_read_by_itself_also_a_hidden_one(tree: Tree):
    folder = tree({"a.md": "A", ".b.md": "B"})
    assert topics(folder / "a.md") == ["a"]
    assert [memory.key for memory in load_files(str(folder / ".b.md")).memories] == [".b.md#1"]


def test_a_folder_of_records_is_known_by_its_own_name(tree: Tree):
    folder = tree({"adr/0004-use-it.md": "# Use it\n\nYes."})
    assert (
        topics(folder / "adr")
        == topics(folder)
        == topics(folder / "adr" / "0004-use-it.md")
        == ["ADR-0004 Use it"]
    )


def test_hidden_and_installed_folders_and_other_files_are_passed_over_in_silence(tree: Tree):
    folder = tree(
        {
            "a.md": "A",
            ".git/x.md": "X",
            "node_modules/p/README.md": "R",
            "venv/x.md": "X",
            ".h.md": "H",
            "b.txt": "B",
        }
    )
    assert topics(folder) == ["a"]
    assert warned(folder) == []


def test_every_file_that_cannot_be_read_is_told_and_stops_no_other(tree: Tree):
    folder = tree(
        {
            "a.md": "A",
            "binary.md": b"a\0b",
            "empty.md": b"",
            "blank.md": b"\xef\xbb\xbf \n",
            "latin.md": "naïve".encode("latin-1"),
            "naive.md": "---\ndate: 2024-01-01 10:00\n---\nText",
            "lines.jsonl": '{"topic": "T", "content": "C"}\n\n{"topic": "T", "who": 1}\nnonsense\n',
        }
    )
    assert topics(folder) == ["a", "T"]
    assert warned(folder) == [
        "binary.md: is binary: it holds NUL bytes",
        "blank.md: is empty",
        "empty.md: is empty",
        "latin.md: is no valid UTF-8 at byte 2",
        "lines.jsonl:3: who: is not known here; known are topic, content, memory_type, occurred_at, tags, project,"
        " metadata, type, created, date",
        "lines.jsonl:4: is no valid JSON",
        "naive.md: date: has a time without an offset: write Z or +02:00 after it, or the date alone",
    ]


def test_a_byte_order_mark_and_foreign_line_ends_do_no_harm(tree: Tree):
    folder = tree({"a.md": b"\xef\xbb\xbf---\r\ntitle: Hello\r\n---\r\nOne\r\rTwo\r\n"})
    (memory,) = load_files(folder).memories
    assert (memory.topic, memory.content) == ("Hello", "One\n\nTwo")


def test_a_file_too_large_is_told(tree: Tree, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(files, "FILE_BYTES_LIMIT", 10)
    folder = tree({"a.md": "A" * 10, "b.md": "B" * 11})
    assert topics(folder) == ["a"]
    assert warned(folder) == ["b.md: is larger than 10 bytes"]


def test_too_many_files_are_told_and_the_first_ones_are_kept(tree: Tree, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(files, "FILE_LIMIT", 2)
    folder = tree({f"{n}.md": "text" for n in range(4)})
    assert topics(folder) == ["0", "1"]
    assert warned(folder) == [
        "2.md: this file and all after it were left out: more than 2 files; name a narrower folder"
    ]


def test_too_much_text_is_told(tree: Tree, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(files, "TOTAL_BYTES_LIMIT", 8)
    folder = tree({f"{n}.md": "texts" for n in range(4)})
    assert topics(folder) == ["0", "1"]
    assert "more than 8 bytes" in warned(folder)[0]


def test_many_bad_lines_are_told_in_one(tree: Tree, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(files, "LINE_WARNINGS_LIMIT", 2)
    folder = tree({"a.jsonl": "x\n" * 5, "b.md": "B"})
    assert warned(folder) == [
        "a.jsonl:1: is no valid JSON",
        "a.jsonl:2: is no valid JSON",
        "a.jsonl: 3 more lines were refused",
    ]


def test_links_are_followed_only_to_files_of_the_folder_and_never_twice(tree: Tree, tmp_path: Path):
    folder = tree({"AGENTS.md": "Be brief.", "sub/a.md": "A"})
    (tmp_path / "secret.md").write_text("secret")
    (folder / "CLAUDE.md").symlink_to("AGENTS.md")
    (folder / "loop").symlink_to(folder, target_is_directory=True)
    (folder / "out.md").symlink_to(tmp_path / "secret.md")
    (folder / "self.md").symlink_to("self.md")
    (folder / "gone.md").symlink_to("nowhere.md")
    assert topics(folder) == ["AGENTS.md", "a"]
    assert warned(folder)[0] == "CLAUDE.md: the same file as one read before"
    assert warned(folder)[1].startswith("gone.md: cannot be read (")
    assert warned(folder)[2] == "loop: a link to a folder, not followed"
    assert warned(folder)[3] == "out.md: a link out of the folder, not followed"
    assert warned(folder)[4].startswith("self.md: cannot be read (")


def test_pipes_sockets_and_folders_with_a_file_s_name_do_not_hold_it_up(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
):
    folder = tree({"a.md": "A", "folder.md/b.md": "B"})
    os.mkfifo(folder / "pipe.md")
    monkeypatch.chdir(folder)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket.md")
        assert topics(folder) == ["a", "b"]
        assert len(warned(folder)) == 2


def test_what_may_not_be_read_is_told(tree: Tree, monkeypatch: pytest.MonkeyPatch):
    folder = tree({"a.md": "A", "b.md": "B", "sub/c.md": "C"})

    def refusing(function: Callable[..., object], name: str) -> Callable[..., object]:
        def refuse(path: Path, *rest: object) -> object:
            if path.name == name:
                raise PermissionError(13, "Permission denied")
            return function(path, *rest)

        return refuse

    monkeypatch.setattr(os, "open", refusing(os.open, "b.md"))
    monkeypatch.setattr(os, "scandir", refusing(os.scandir, "sub"))
    assert topics(folder) == ["a"]
    assert warned(folder) == [
        "b.md: cannot be read (Permission denied)",
        "sub: cannot be read (Permission denied)",
    ]


def test_a_name_that_is_no_utf8_is_shown_with_a_mark(tree: Tree):
    folder = tree({"a.md": "A"})
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.md")).write_text("B")
    assert [memory.key for memory in load_files(folder).memories] == ["a.md#1", "\ufffd.md#1"]


def test_a_very_deep_folder_is_read(tmp_path: Path):
    deep = tmp_path
    for _ in range(300):
        deep = deep / "d"
    deep.mkdir(parents=True)
    (deep / "a.md").write_text("A")
    assert topics(tmp_path) == ["a"]


@pytest.mark.parametrize("name", ["missing", "a\0b", "x" * 5_000])
def test_a_path_that_is_none_is_refused(tmp_path: Path, name: str):
    with pytest.raises(InvalidInput, match="from: cannot be read"):
        load_files(f"{tmp_path}/{name}")


def test_nothing_to_load_is_refused_with_the_first_reason(tree: Tree):
    folder = tree({"a.md": b"\xff"})
    with pytest.raises(InvalidInput, match=r"nothing to remember.*First of 1: a\.md: is no valid UTF-8"):
        load_files(folder)
    with pytest.raises(InvalidInput, match="neither Markdown"):
        load_files(tree({"b.txt": "B"}) / "b.txt")
    with pytest.raises(InvalidInput, match="nothing to remember"):
        load_files(tree({"sub/c.txt": "C"}) / "sub")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(st.binary(max_size=400), st.sampled_from(["a.md", "AGENTS.md", "0001-a.md", "a.jsonl"]))
def test_odd_bytes_never_crash(tmp_path: Path, content: bytes, name: str):
    path = tmp_path / name
    path.write_bytes(content)
    try:
        loaded = load_files(path)
    except InvalidInput as error:
        assert error.field == "from"
    else:
        assert all(memory.content and memory.topic for memory in loaded.memories)
