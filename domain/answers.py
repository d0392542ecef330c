"""When is what a judge sent back an answer? The strict rule of judges.md 4.4 and cases F34, F35.

Nothing is repaired by guessing: an answer is complete and coherent, or it is `NoVerdict` and the item stays
a candidate.
"""

from collections.abc import Mapping
from typing import Any, cast

from .judging import Answer, Evidence, NoVerdict

SUM_TOLERANCE = 0.05
"""How far the probabilities' sum may lie from 1, since servers round (two decimals are common)."""
ARGMAX_TOLERANCE = 0.005
"""How far the chosen key may lie below the largest probability."""


def validate_answer(
    choice: Any, probabilities: Any, options: Mapping[str, str], evidence: Evidence | None = None
) -> Answer | NoVerdict:
    """An `Answer` over exactly the offered keys, normalised to sum 1, or the reason there is none.

    Demands: a mapping whose keys equal the offered ones, each value a finite number in [0, 1] (strings and
    booleans are not numbers), a sum within `SUM_TOLERANCE` (or half a last digit per option, whichever is
    larger), and a choice that is offered and has the largest probability within `ARGMAX_TOLERANCE`.
    """
    problem = _problem(choice, probabilities, options)
    if problem:
        return NoVerdict(problem)
    given: dict[str, float] = {key: float(probabilities[key]) for key in options}
    total = sum(given.values())
    normalised = {key: value / total for key, value in given.items()}
    changed = abs(total - 1.0) > 1e-9
    return Answer(
        choice=choice,
        probabilities=normalised,
        evidence=evidence,
        raw_probabilities=given if changed else None,
    )


def _problem(choice: Any, probabilities: Any, options: Mapping[str, str]) -> str | None:
    if not isinstance(choice, str):
        return "choice_missing"
    if choice not in options:
        return "unknown_choice"
    if not isinstance(probabilities, Mapping):
        return "probabilities_missing"
    given = cast(Mapping[Any, Any], probabilities)
    if set(given) != set(options):
        return "probabilities_do_not_cover_the_options"
    values: list[Any] = list(given.values())
    if any(isinstance(v, bool) or not isinstance(v, int | float) for v in values):
        return "probability_not_a_number"
    # Written as "not inside" so that NaN fails too, and without a float conversion, which an integer of a
    # thousand digits would not survive.
    if any(not 0 <= v <= 1 for v in values):
        return "probability_out_of_range"
    total = sum(values)
    # With very many options the tolerance reaches 1; nothing can be normalised from a map of zeros.
    if total <= 0 or abs(total - 1.0) > max(SUM_TOLERANCE, 0.005 * len(options)):
        return "probabilities_do_not_sum_to_one"
    if given[choice] < max(values) - ARGMAX_TOLERANCE:
        return "choice_is_not_the_most_probable"
    return None
