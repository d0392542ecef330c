"""The ways of saying that a record ends, tried at each place of a sentence.

A way of saying it is a *wording class*; what each is worth was measured (`precision`).
"""

from collections.abc import Callable

from .actives import read_active, read_causative
from .dates import dates_in
from .lexicon import words
from .no_longer import NOT_NOW, read_no_longer
from .nominals import IN_PLACE_OF, SUCCESSOR, read_in_place, read_nominal
from .passives import OVER_HERE_FIRST, read_passive
from .phrases import CAUSES, ENDED, ENDED_FIRST, VERBS, YIELDS
from .reading import Found, Reading

_Reader = Callable[[Reading, int], Found | None]


def _by_first_word() -> dict[str, tuple[_Reader, ...]]:
    readers: dict[str, list[_Reader]] = {}
    for reader, triggers in (
        (read_active, VERBS),
        (read_causative, CAUSES),
        (read_passive, [*ENDED_FIRST, *OVER_HERE_FIRST, *(phrase[0] for phrase in YIELDS)]),
        (read_in_place, [phrase[0] for phrase in IN_PLACE_OF]),
        (read_nominal, SUCCESSOR),
        (read_no_longer, [phrase[0] for phrase in NOT_NOW]),
    ):
        for word in dict.fromkeys(triggers):
            readers.setdefault(word, []).append(reader)
    return {word: tuple(found) for word, found in readers.items()}


_READERS = _by_first_word()
ENDING_WORDS = (
    frozenset(word for word, endings in VERBS.items() if any(not tail for tail, _ in endings))
    | ENDED
    | words(
        """
        instead place lieu succession longer more anymore ceases cease way room yields hands lapse
        lapses ends end expires expire falls loses over force use effect successor replacement
        substitute substitutes stops stop not away aside shoes rest history retirement invalid
        unnecessary null
        """
    )
)
"""Words without which no wording of an ending is complete: a cheap test of a text."""


def ending_in(reading: Reading) -> Found | None:
    """How a sentence ends the older record, if it does."""
    atoms, names = reading.atoms, reading.names
    bare = names.own.series is not None or bool(names.own.numbers)
    if not (
        any(atom.role == "older" for atom in atoms)
        or reading.antecedent
        or names.same_title
        or (bare and any(atom.kind == "num" for atom in atoms))
    ):
        return None
    for at, atom in enumerate(atoms):
        for read in _READERS.get(atom.text, ()):
            found = read(reading, at)
            if found is not None:
                dates = dates_in([*atoms[: found.start], *atoms[found.end :]])
                return None if any(dated.lies_ahead(reading.now) for dated in dates) else found
    return None
