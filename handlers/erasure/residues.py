"""Writes ``docs/reference/residues.md`` from the registry: ``python -m lethelog.handlers.erasure.residues``.

A test compares the page with what this gives, so that it never says anything else than what an erasure does.
"""

from pathlib import Path

from .places import OUT_OF_REACH, PLACES

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "residues.md"
_HEAD = """\
# Where a memory stands, and what an erasure leaves

<!-- Written by `python -m lethelog.handlers.erasure.residues`; change the registry, not this page. -->

Every place is erased, looked at again before an erasure counts as verified, and named in its certificate.

| place | what it is | how it is erased | what proves it | what remains |
|---|---|---|---|---|
"""
_BEYOND = """
What no erasure here can reach. The certificate says so, too.

| place | why | what to do |
|---|---|---|
"""


def reference() -> str:
    """The whole page."""
    places = [
        f"| {one.name} | {one.where} | {one.erased_by} | {one.proved_by} | {one.remains} |" for one in PLACES
    ]
    beyond = [f"| {one.name} | {one.why} | {one.what_to_do} |" for one in OUT_OF_REACH]
    return _HEAD + "\n".join(places) + "\n" + _BEYOND + "\n".join(beyond) + "\n"


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
