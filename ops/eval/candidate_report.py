"""The figures of ``candidates`` as Markdown."""

from collections.abc import Sequence
from typing import Any


def report(figures: dict[str, Any]) -> str:
    """The figures as Markdown."""
    blocks = [
        "# Candidate selection, measured",
        "Written by `python -m lethelog.ops.eval.candidates` on a real engine: remember, live memory, neighbour "
        f"lists, selection. Shares with their 95 % Wilson interval. Python {figures['python']}.",
        "## Is the true successor among the nearest newer memories?",
        "*Nearest* is by the cosine of the vectors plus twice the cosine of the words, within type, scope and "
        "project. *Emitted* is how many pairs all lists together hold per true pair. Fusion is of the two ranks "
        "with k = 60, over the same vectors and words. Baselines for R@3, of MiniLM alone, were .84 for decision "
        "records (58 pairs, of which 35 are here), .88 for PEPs and .95 for memories. A pair that no list can "
        "hold counts as missed: a successor written before what it replaces (two PEPs), or one of another type "
        "(memories as typed, where notes and events are in neither stream).",
    ]
    for name, measured in figures["candidates"].items():
        blocks += [f"### {name}", f"`{measured['model']}`, floor {measured['floor']:.2f}"]
        rows = [
            [
                title,
                method,
                str(found["n"]),
                *(_share(found[f"R@{k}"]) for k in (1, 3, 5)),
                *(f"{found[f'emitted@{k}']:g}" for k in (1, 3, 5)),
            ]
            for title, entry in measured["sets"].items()
            for method, found in entry["methods"].items()
        ]
        heads = ["set", "method", "n", "R@1", "R@3", "R@5", "emitted@1", "emitted@3", "emitted@5"]
        blocks.append(_table(heads, rows))
    blocks += [
        "## Which weights?",
        "True pairs within rank 3 by weight of vector : words; and, so that no set chooses for itself, the share "
        "found on a set by the weights that are best on the other two. The other settings of the words, 32 of a "
        "memory and 6 letters of each, were chosen on these sets too; 48 or 64 words, 5, 7 or all letters and "
        "titles counted twice move R@3 of all three sets together by at most five of 86 pairs.",
    ]
    for name, measured in figures["candidates"].items():
        sets = {title: entry for title, entry in measured["sets"].items() if title in measured["held out"]}
        weights = list(next(iter(sets.values()))["sweep"])
        rows = [
            [
                title,
                str(entry["pairs"]),
                *(str(entry["sweep"][key]) for key in weights),
                f"{measured['held out'][title]['R@3']:.2f} with {measured['held out'][title]['weights']}",
            ]
            for title, entry in sets.items()
        ]
        blocks.append(_table([name, "n", *weights, "R@3 held out"], rows))
    blocks += [
        "## How soon are they asked about?",
        "One judgment per memory and run, at most 40 pairs and 60 singles in a run, everything stale, nothing "
        "changing; every answer is put on record as keep. Share of the true pairs asked about by then.",
    ]
    rows = [
        [
            name,
            title,
            str(entry["runs"]["runs"]),
            str(entry["runs"]["pairs asked"]),
            *(f"{entry['runs']['after'].get(run, entry['runs']['after all']):.2f}" for run in ("1", "3", "10")),
            f"{entry['runs']['after all']:.2f}",
        ]
        for name, measured in figures["candidates"].items()
        for title, entry in measured["sets"].items()
    ]
    heads = ["embedder", "set", "runs", "pairs asked", "after 1", "after 3", "after 10", "after all"]
    blocks.append(_table(heads, rows))
    blocks += [
        "## False collapses on recurring series",
        "76 near-identical items in their series, each of which still stands. Every question there is was put to "
        "the judge `stated`. Typed `event` or `note` none is asked about; the other rows are the mistyped case. A "
        "collapse is a verdict archive or supersede.",
    ]
    rows = [
        [
            memory_type,
            str(entry["asked"]),
            str(entry["pairs"]),
            str(entry["pairs at 0.82 or more"]),
            ", ".join(f"{action} {n}" for action, n in sorted(entry["verdicts"].items())) or "–",
            f"**{entry['collapses']}**",
        ]
        for memory_type, entry in figures["recurring"].items()
    ]
    heads = ["typed", "asked", "pairs", "of them ≥ 0.82", "verdicts", "collapses"]
    blocks.append(_table(heads, rows))
    blocks += _timing(figures)
    return "\n\n".join(blocks) + "\n"


def _timing(figures: dict[str, Any]) -> list[str]:
    rows = [
        [
            f"{entry['memories']:,}",
            entry["layout"],
            *(
                " / ".join(f"{entry[when][f'{step} ms']:.0f}" for step in ("catch up", "refresh", "select"))
                for when in ("first", "nothing changed", "1 % changed")
            ),
            f"{entry['1 % changed']['lists written']:g}",
            f"{entry['ratio']:.1%}",
            f"{entry['ratio with views']:.1%}",
        ]
        for entry in figures["timing"]
    ]
    heads = ["memories", "layout", "first", "nothing changed", "1 % changed", "lists written", "ratio"]
    return [
        "## What the second pass costs",
        "Milliseconds on the wall, as medians: bringing live memory and the other views up to date, which embeds "
        "/ bringing the neighbour lists up to date / selecting. *One group*: all of one type, scope and project, "
        "the most work there is. *Spread*: four types, two scopes, six projects. Changed are 1 %: half of that "
        "new, a quarter revised, a quarter archived. *Ratio* is the second pass to the first, of refreshing and "
        "selecting alone; *with views* is of everything from the log to the questions. The first time compares "
        "each memory with each of its group. Afterwards a pass still reads every vector of the groups that "
        "changed, and every list to select from; that is what is left of its cost, and at this size it is more "
        "than 5 % of the first time. "
        f"{figures['cores']} cores, shared with other work; BLAS threads: {figures['blas threads']}.",
        _table([*heads, "with views"], rows),
    ]


def _share(values: Sequence[float]) -> str:
    return f"**{values[0]:.2f}** ({values[1]:.2f}–{values[2]:.2f})"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
