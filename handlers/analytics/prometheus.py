"""The figures as Prometheus reads them: its text format, without tenant, ids or names of reviewers.

One tenant at a time, as every door; whoever scrapes several adds the tenant as a target's label of his own.
"""

from collections.abc import Iterator

from .views import ReviewStats

_Sample = tuple[dict[str, str], float]


def prometheus_text(stats: ReviewStats) -> str:
    """All figures, one metric after another. They are gauges: each is of the time that was asked for."""
    return "".join(line + "\n" for line in _lines(stats))


def _lines(stats: ReviewStats) -> Iterator[str]:
    for name, meaning, samples in _metrics(stats):
        yield f"# HELP lethelog_review_{name} {meaning}"
        yield f"# TYPE lethelog_review_{name} gauge"
        for labels, value in samples:
            inner = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
            yield f"lethelog_review_{name}{'{' + inner + '}' if inner else ''} {value!r}"


def _metrics(stats: ReviewStats) -> Iterator[tuple[str, str, list[_Sample]]]:
    yield "open", "Proposals that wait.", [({}, float(stats.open))]
    yield "oldest_open_seconds", "How long the oldest one waits.", [({}, stats.oldest_open_seconds or 0.0)]
    yield "proposals", "Proposals put into the queue, by what became of them.", list(_proposals(stats))
    yield "wait_seconds", "How long decided ones had waited.", list(_waits(stats))
    yield (
        "effects",
        "What decisions and policies did, by whether it was taken back.",
        [
            ({"kind": one.kind, "undone": undone}, float(count))
            for one in stats.reversals
            for undone, count in (("true", one.undone.hits), ("false", one.undone.of - one.undone.hits))
        ],
    )
    asked = stats.disagreement.questions
    yield (
        "questions_of_several_reviewers",
        "Questions that at least two reviewers decided, by whether alike.",
        [({"alike": "false"}, float(asked.hits)), ({"alike": "true"}, float(asked.of - asked.hits))],
    )
    yield "judge_calls", "Metered calls to judges.", [(_paid(one), float(one.calls)) for one in stats.spending]
    yield (
        "judge_cost_usd",
        "What they cost, as far as the providers said.",
        [(_paid(one), one.cost_usd) for one in stats.spending if one.cost_usd is not None],
    )


def _proposals(stats: ReviewStats) -> Iterator[_Sample]:
    for group in stats.groups:
        for status in ("open", "accepted", "rejected", "withdrawn"):
            yield {"by": group.by, "value": group.value, "status": status}, float(getattr(group, status))


def _waits(stats: ReviewStats) -> Iterator[_Sample]:
    for group in stats.groups:
        for quantile, value in (("0.5", group.wait_p50_seconds), ("0.9", group.wait_p90_seconds)):
            if value is not None:
                yield {"by": group.by, "value": group.value, "quantile": quantile}, value


def _paid(one: object) -> dict[str, str]:
    return {name: getattr(one, name) for name in ("judge", "operation")}


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
