"""The figures of ``embedders`` as Markdown."""

from collections.abc import Sequence
from typing import Any


def report(figures: dict[str, Any]) -> str:
    """The figures as Markdown."""
    settings = figures["settings"]
    nearest, default, rival = settings["nearest"], settings["default"], settings["rival"]
    versions = ", ".join(f"{name} {number}" for name, number in figures["versions"].items())
    blocks = [
        "# Embedders, measured",
        "Written by `python -m lethelog.ops.eval.embedders`. Shares with their 95 % Wilson interval. "
        f"Python {figures['python']}, {versions}.",
        "## Is the true successor among the nearest newer records?",
        "Of the same repository or collection. Fusion is by reciprocal rank, k = 60; BM25 has k1 = 1.2, "
        "b = 0.75. "
        "A successor that is older than what it replaces counts as missed by every method.",
    ]
    rows: list[list[str]] = []
    for title, entry in figures["candidates"].items():
        note = f"{title} ({entry['records']} records, {entry['older successors']} successors older)"
        rows += [[note, *row] for row in _share_rows(entry["methods"], nearest)]
    blocks.append(_table(["set", "method", "n", *(f"R@{k}" for k in nearest)], rows))
    blocks += [
        "## Is a right answer among the nearest texts to a question?",
        "Memories: 158 of one agent's user. Chat sessions: the evidence turns of LongMemEval among hard "
        "distractors, smaller and harder than its official setting, so not its R@k.",
    ]
    rows = [
        [title, *row] for title, shares in figures["questions"].items() for row in _share_rows(shares, nearest)
    ]
    blocks.append(_table(["set", "method", "n", *(f"R@{k}" for k in nearest)], rows))
    blocks += [
        f"## {default} against {rival}, pair by pair",
        "What only one of the two finds within the rank; p is the two-sided sign test.",
    ]
    rows = [
        [title, how, str(entry["n"]), str(entry[default]), str(entry[rival]), _chance(entry["p"])]
        for title, ways in figures["paired"].items()
        for how, entry in ways.items()
    ]
    blocks.append(_table(["question", "how", "n", f"only {default}", f"only {rival}", "p"], rows))
    blocks += ["## Cost", "Median CPU time of one text, one to a call; opening is wall time."]
    rows = [
        [name, *(f"{entry[key]:g}" for key in ("dimensions", "open ms", "question ms", "1,200 characters ms"))]
        for name, entry in figures["cost"].items()
    ]
    blocks.append(_table(["embedder", "dimensions", "open, ms", "question, ms", "1,200 characters, ms"], rows))
    blocks += [
        "## Floors",
        f"Each record emits its {settings['emitted']} nearest newer ones by fused rank. The floor is the largest "
        f"cosine, down to two decimals, that loses at most {settings['may lose']:.0%} of the true pairs among "
        "them in any set. Held out: the floor that the other two sets choose, and the share of this set's true "
        "pairs that it loses.",
    ]
    rows = []
    for name, entry in figures["floors"].items():
        held = "; ".join(f"{title} {floor:.2f}, {lost:.0%}" for title, (floor, lost) in entry["held out"].items())
        rows.append(
            [
                name,
                f"**{entry['chosen']:.2f}**",
                f"{entry['lost']} of {entry['true pairs']}",
                f"{entry['cut share']:.1%} of {entry['emitted pairs']}",
                " / ".join(f"{x:.2f}" for x in entry["cosines p10 p50 p90"]),
                " / ".join(f"{x:.2f}" for x in entry["emitted cosines p10 p50 p90"]),
                f"{entry['lost at 0.82']} of {entry['true pairs']}",
                held,
            ]
        )
    heads = ["embedder", "floor", "true pairs lost", "emitted pairs cut", "true cosines p10/50/90"]
    blocks.append(_table([*heads, "emitted cosines p10/50/90", "lost at 0.82", "held out"], rows))
    blocks.append("Identities: " + ", ".join(f"`{model}`" for model in figures["models"].values()) + ".")
    return "\n\n".join(blocks) + "\n"


def _chance(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _share_rows(shares: dict[str, Any], nearest: Sequence[int]) -> list[list[str]]:
    return [
        [method, str(entry["n"]), *("{:.2f} [{:.2f}, {:.2f}]".format(*entry[f"R@{k}"]) for k in nearest)]
        for method, entry in shares.items()
    ]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
