"""The committed sample: its counts, its checksum, and whether the builder still makes the same bytes."""

import hashlib
import os
from importlib.resources import files
from pathlib import Path

import pytest
from lethelog.ops.demo.build_sample import build, main, rfc_slice
from lethelog.ops.demo.sample import DOCUMENTS_FILE, SUPERSEDED_BY_FILE, load_sample

CHECKSUMS = {
    DOCUMENTS_FILE: "5b8fc759dbb9feceb56ed09f37f3dd304eb5d3c8a1759a3a7163fe103950af65",
    SUPERSEDED_BY_FILE: "35c108aff2bd5d1a78ce5b134d9fd6958e9e9d997c2c412c3af8e8779d2e4bfd",
}
DATA = Path(os.environ.get("LETHELOG_SAMPLE_DATA") or Path(__file__).parents[4] / "shared" / "data")
needs_data = pytest.mark.skipif(
    not (DATA / "lineage").is_dir(), reason=f"the full indexes are not here ({DATA}/lineage); the checksum is"
)


def committed(name: str) -> bytes:
    return (files("lethelog.ops.demo") / "sample" / name).read_bytes()


@pytest.mark.parametrize("name", CHECKSUMS)
def test_the_committed_files_have_not_drifted(name):
    assert hashlib.sha256(committed(name)).hexdigest() == CHECKSUMS[name]


def test_the_sample_has_the_counts_it_is_described_with():
    sample = load_sample()
    series = [document.series for document in sample.documents]
    assert (series.count("PEP"), series.count("RFC")) == (736, 736)
    assert (len(sample.superseded_by), len(sample.claimed), len(sample.hard_negatives)) == (201, 242, 279)


def test_the_sample_holds_facts_and_no_abstract_and_no_status():
    text = committed(DOCUMENTS_FILE).decode()
    assert '"text"' not in text and '"status"' not in text and '"superseded_by"' not in text
    assert max(len(document.title) for document in load_sample().documents) <= 248


def test_every_id_that_names_a_successor_is_a_document_of_the_sample():
    sample = load_sample()
    assert {document.id for document in sample.documents}.issuperset(sample.superseded_by)


@needs_data
def test_building_again_gives_the_same_bytes():
    assert build(DATA) == {name: committed(name) for name in CHECKSUMS}


@needs_data
def test_the_builder_writes_into_any_folder_and_says_what_it_wrote(tmp_path, capsys):
    main(["--data", str(DATA), "--out", str(tmp_path / "new")])
    assert (tmp_path / "new" / DOCUMENTS_FILE).read_bytes() == committed(DOCUMENTS_FILE)
    assert CHECKSUMS[SUPERSEDED_BY_FILE] in capsys.readouterr().out


def row(name: str, created: str, **links: list[str]) -> dict[str, object]:
    empty: dict[str, object] = {"replaces": [], "superseded_by": [], "updates": []}
    return empty | {"id": name, "number": int(name[3:]), "title": name, "created": created} | links


def test_the_slice_takes_whole_chains_and_leaves_out_what_has_no_date():
    chosen = rfc_slice(
        [
            row("rfc1", "1990-01", superseded_by=["rfc2"]),
            row("rfc2", "1991-01", replaces=["rfc1"]),
            row("rfc3", "1990-01", superseded_by=["rfc4"]),
            row("rfc4", "", replaces=["rfc3"]),
            row("rfc5", "1990-01"),
        ]
    )
    assert [entry["id"] for entry in chosen] == ["rfc1", "rfc2", "rfc5"]


def test_the_slice_takes_no_update_of_a_document_already_replaced():
    chosen = rfc_slice(
        [
            row("rfc1", "1990-01", superseded_by=["rfc4"]),
            row("rfc3", "1992-01", updates=["rfc1"]),
            row("rfc4", "1991-01", replaces=["rfc1"]),
            row("rfc5", "1990-02", updates=["rfc1"]),
        ]
    )
    assert [entry["id"] for entry in chosen] == ["rfc1", "rfc4", "rfc5"]
