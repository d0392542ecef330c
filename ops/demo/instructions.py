"""Takes a Markdown text apart into the paragraphs and list items that each say one thing."""

import re
from collections.abc import Iterator

_HEADING = re.compile(r"(#{1,6})[ \t]+(\S.*)")
_ITEM = re.compile(r"[ ]{0,1}(?:[-*+]|\d{1,4}[.)])[ \t]+(?=\S)")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_RULE = re.compile(r"\s*(?:-[ \t]*){3,}|\s*(?:\*[ \t]*){3,}|\s*(?:_[ \t]*){3,}|\s*=+\s*")


def heading_text(line: str) -> str:
    """A heading without the number signs that may close it. "C#" keeps its own."""
    text = line.rstrip()
    opened = text.rstrip("#")
    return opened.rstrip() if opened.endswith((" ", "\t")) else text


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """Each block with the headings above it, as "Testing › Unit tests", in order.

    A block is a paragraph or a list item of the first level with all that is indented under it. Fenced code
    belongs to the block before it under the same heading, wherever blank lines stand; it is never cut here.
    """
    trail: list[tuple[int, str]] = []
    block: list[str] = []
    fence = ""
    gap = in_item = False

    def heading_path() -> str:
        return " › ".join(title for _, title in trail)

    def done() -> list[tuple[str, str]]:
        content = "\n".join(block).strip()
        block.clear()
        return [(heading_path(), content)] if content else []

    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if fence:
            block.append(line)
            closes = mark is not None and mark[1].startswith(fence) and not line.strip().strip(fence[0])
            fence = "" if closes else fence
            continue
        if mark:
            fence = mark[1]
            block.extend([""] if gap and block else [])
            block.append(line)
            gap = False
            continue
        if not line.strip():
            gap = True
            continue
        heading, item = _HEADING.fullmatch(line), _ITEM.match(line)
        indented = line[0] in " \t" and item is None
        if heading or item or _RULE.fullmatch(line) or (gap and not (in_item and indented)):
            yield from done()
            in_item = item is not None
        if heading:
            level = len(heading[1])
            trail = [entry for entry in trail if entry[0] < level] + [(level, heading_text(heading[2]))]
        elif not _RULE.fullmatch(line):
            block.extend([""] if gap and block else [])
            block.append(line[item.end() :] if item else line)
        gap = False
    yield from done()
