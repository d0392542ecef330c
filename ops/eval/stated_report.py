"""The report of `stated` as Markdown."""

from typing import Any

from .stated_items import PER_WORDING

_ROWS = {
    "recall_items": "endings found, by item",
    "recall_wordings": "endings found, by wording (in half of its items or more)",
    "false_items": "non-endings taken for endings, by item",
    "false_wordings": "non-endings taken for endings, by wording",
    "precision_supersede": "precision of supersede proposals",
    "precision_archive": "precision of archive proposals",
    "ends_found": "stated ends found",
    "ends_false": "memories without an end taken for ended",
}


def report(found: dict[str, Any]) -> str:
    """The figures as Markdown."""
    return "\n".join([*_wording_lines(found), *_class_lines(found), *_real_lines(found), ""])


def _cell(share: dict[str, Any]) -> str:
    low = max(0.0, share["low"])
    return f"{share['hits']:,} of {share['n']:,} = {share['share']:.3f} [{low:.2f}, {share['high']:.2f}]"


def _wording_lines(found: dict[str, Any]) -> list[str]:
    selection, held_out = found["selection"], found["held_out"]
    head = f"""
# The judge `stated`, measured

Written by `python -m lethelog.ops.eval.stated`; identity `{found["identity"]}`, Python {found["python"]}.
Shares with their 95 % Wilson interval.

## Wordings on real links

{found["links"]:,} true links of PEPs, RFCs, EIPs, BIPs and decision records, worded anew: each wording on up to
{PER_WORDING} links, in several shapes of memory. Wordings and records are split. The selection half was read while
the rule was written, and selects the thresholds; the held-out half was written when the rule was finished, and run
as it stands.

| | selection | held out |
| --- | --- | --- |"""
    earlier = [
        f"- {run['found']:,} of {run['ending_items']:,} items of endings found; {run['false']} of "
        f"{run['non_ending_items']:,} items of non-endings taken for endings, from {run['false_wordings']} of "
        f"{run['non_endings']} wordings."
        for run in found["earlier_runs"]
    ]
    ends = [
        f"- {run['found']} of {run['ends']} ends found; {run['false']} of {run['no_ends']} memories without one "
        "taken for ended."
        for run in found["earlier_ends"]
    ]
    tail = """
Two earlier held-out halves were run once each, and the rule was changed after each for what they showed; they now
belong to the selection half. Their one run gave:
"""
    after = """
Stated ends are invented memories, not put on links. Five earlier held-out halves gave in their one run:
"""
    return [
        *head.strip().split("\n"),
        *(f"| {text} | {_cell(selection[key])} | {_cell(held_out[key])} |" for key, text in _ROWS.items()),
        *tail.rstrip().split("\n"),
        "",
        *earlier,
        *after.rstrip().split("\n"),
        "",
        *ends,
        "",
    ]


def _class_lines(found: dict[str, Any]) -> list[str]:
    thresholds = found["thresholds"]
    head = """
## Wording classes

Right among all held-out wordings of the class that made a statement; several items of one wording count once. The
probability of a verdict is the lower end of the interval, so that a class with little evidence gets little.

| class | right | share | probability |
| --- | --- | --- | --- |"""
    rows = [
        f"| {name} | {row['hits']} of {row['n']} | {row['share']:.3f} [{row['low']:.2f}, {row['high']:.2f}] "
        f"| {row['probability']:.2f} |"
        for name, row in found["classes"].items()
    ]
    chosen = (
        f"Thresholds selected on the selection half: archive {thresholds['archive']}, "
        f"supersede {thresholds['supersede']}, conflict {thresholds['conflict']} (never answered)."
    )
    return [*head.strip().split("\n"), *rows, "", chosen, ""]


def _real_lines(found: dict[str, Any]) -> list[str]:
    head = """
## Real texts as they are

Nothing in the first four sets states an ending of another. Lines announcing a successor were removed from decision
records and standards when the data was made; "confirmed" compares with the older record's own "superseded by".

| texts | pairs | supersede proposed | confirmed | singles | archive proposed |
| --- | --- | --- | --- | --- | --- |"""
    rows = [
        f"| {name} | {row['pairs']:,} | {row['supersede']} | {row['confirmed']} "
        f"| {row['singles']:,} | {row['archive']} |"
        for name, row in found["real"].items()
    ]
    return [*head.strip().split("\n"), *rows]
