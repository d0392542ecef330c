"""Builds the demo's sample from the full indexes: ``python -m lethelog.ops.demo.build_sample --data DIR``.

Only facts are taken: number, title, type, date and links. No abstract, no sentence, and no status, because a
status is what became of a document later. The same input always gives the same bytes.
"""

import argparse
import hashlib
import json
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .documents import Document, oldest_first
from .sample import DOCUMENTS_FILE, SUPERSEDED_BY_FILE, document_row

SLICE_SEED = 20_181_001
"""The RFC index used is that of October 2018."""
SLICE_SIZE = 736
"""As many RFCs as there are PEPs in the index."""
REPLACING = 160
"""How many of them replace earlier ones, at least: whole chains are taken."""
UPDATING = 105
"""How many others update an earlier one that nobody had replaced by then."""
LONGEST_CHAIN = 14
KNOWN_CHAINS = ("rfc2616", "rfc822")
"""HTTP/1.1 and the format of mail: chains that a reader recognises, always in the slice."""

Row = Mapping[str, Any]


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the sample's two files and print their counts and checksums."""
    parser = argparse.ArgumentParser(description="Build the demo's sample from the indexes of PEPs and RFCs.")
    parser.add_argument("--data", type=Path, required=True, help="folder that holds lineage/*.jsonl")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "sample", help="where to write")
    options = parser.parse_args(arguments)
    built = build(options.data)
    options.out.mkdir(parents=True, exist_ok=True)
    for name, content in built.items():
        (options.out / name).write_bytes(content)
        rows = len(content.splitlines())
        print(f"{name}: {rows} rows, sha256 {hashlib.sha256(content).hexdigest()}")


def build(data: Path) -> dict[str, bytes]:
    """The sample's files by name."""
    peps = [row for row in _rows(data / "lineage" / "standards.jsonl") if row["source"] == "pep"]
    rfcs = rfc_slice(_rows(data / "lineage" / "rfc_index.jsonl"))
    documents = [_pep(row) for row in peps] + [_rfc(row) for row in rfcs]
    successors = {
        _identifier(row["id"]): [_identifier(successor) for successor in row["superseded_by"]]
        for row in (*peps, *rfcs)
        if row["superseded_by"]
    }
    ordered = oldest_first(documents)
    return {
        DOCUMENTS_FILE: _lines(document_row(document) for document in ordered),
        SUPERSEDED_BY_FILE: _lines(
            {"id": document.id, "superseded_by": successors[document.id]}
            for document in ordered
            if document.id in successors
        ),
    }


def rfc_slice(rows: Sequence[Row]) -> list[Row]:
    """A seeded slice: whole replace-chains, update pairs in force at their date, and unrelated documents."""
    index = {row["id"]: row for row in rows if row["created"]}
    draw = random.Random(SLICE_SEED)
    chosen: dict[str, Row] = {}
    _add_chains(chosen, index, draw)
    _add_updates(chosen, index, draw)
    unrelated = [
        name for name, row in index.items() if not (row["replaces"] or row["superseded_by"] or row["updates"])
    ]
    draw.shuffle(unrelated)
    for name in unrelated:
        if len(chosen) >= SLICE_SIZE:
            break
        chosen.setdefault(name, index[name])
    return sorted(chosen.values(), key=lambda row: row["number"])


def _add_chains(chosen: dict[str, Row], index: Mapping[str, Row], draw: random.Random) -> None:
    chains = _chains(index)
    known = [chain for chain in chains if any(name in chain for name in KNOWN_CHAINS)]
    others = [chain for chain in chains if chain not in known and len(chain) <= LONGEST_CHAIN]
    draw.shuffle(others)
    for chain in (*known, *others):
        if sum(bool(row["replaces"]) for row in chosen.values()) >= REPLACING:
            break
        chosen.update({name: index[name] for name in chain})


def _chains(index: Mapping[str, Row]) -> list[list[str]]:
    """Documents joined by replacing, directly or through others, two or more, all of them dated."""
    neighbours: defaultdict[str, set[str]] = defaultdict(set)
    for name, row in index.items():
        for other in (*row["replaces"], *row["superseded_by"]):
            neighbours[name].add(other)
            neighbours[other].add(name)
    chains: list[list[str]] = []
    seen: set[str] = set()
    for name in sorted(neighbours):
        if name in seen:
            continue
        chain, waiting = {name}, [name]
        while waiting:
            fresh = neighbours[waiting.pop()] - chain
            chain |= fresh
            waiting.extend(fresh)
        seen |= chain
        if all(member in index for member in chain):
            chains.append(sorted(chain))
    return chains


def _add_updates(chosen: dict[str, Row], index: Mapping[str, Row], draw: random.Random) -> None:
    """Updates of chosen documents first, then others with their targets, until there are enough."""
    pairs = [
        (name, target)
        for name, row in index.items()
        for target in row["updates"]
        if not row["replaces"] and not row["superseded_by"] and _in_force(index, target, row)
    ]
    draw.shuffle(pairs)
    pairs.sort(key=lambda pair: pair[1] not in chosen)
    updating: set[str] = set()
    for name, target in pairs:
        if len(updating) >= UPDATING:
            break
        if target not in chosen and index[target]["superseded_by"]:
            continue
        updating.add(name)
        chosen.setdefault(name, index[name])
        chosen.setdefault(target, index[target])


def _in_force(index: Mapping[str, Row], target: str, by: Row) -> bool:
    """Whether the target was there and not yet replaced when it was updated."""
    if target not in index or _moment(index[target]) >= _moment(by):
        return False
    successors = index[target]["superseded_by"]
    return all(successor in index and _moment(index[successor]) > _moment(by) for successor in successors)


def _moment(row: Row) -> tuple[str, int]:
    return row["created"], row["number"]


def _pep(row: Row) -> Document:
    return Document(
        id=_identifier(row["id"]),
        series="PEP",
        number=row["number"],
        title=_one_line(row["title"]),
        kind=row["type"],
        date=row["created"],
        replaces=tuple(_identifier(target) for target in row["replaces"]),
        requires=tuple(_identifier(target) for target in row["requires"]),
    )


def _rfc(row: Row) -> Document:
    """An RFC's kind is the same for all: the index states only the status it has now, not the one it was given."""
    return Document(
        id=_identifier(row["id"]),
        series="RFC",
        number=row["number"],
        title=_one_line(row["title"]),
        kind="Request for Comments",
        date=row["created"],
        replaces=tuple(_identifier(target) for target in row["replaces"]),
        updates=tuple(_identifier(target) for target in row["updates"] if target not in row["replaces"]),
    )


def _identifier(name: str) -> str:
    """'pep8' as 'PEP 8'."""
    return f"{name[:3].upper()} {name[3:]}"


def _one_line(title: str) -> str:
    return " ".join(title.split())


def _rows(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _lines(rows: Iterable[Mapping[str, object]]) -> bytes:
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows).encode()


if __name__ == "__main__":
    main()
