"""The wordings of an ending that `claims` knows: verbs in their forms, nouns, adjectives, and small words.

English only. A verb belongs here when it says that the older record ends; verbs of amendment ("updates",
"amends", "extends", "refines", "deprecates", "overrides") leave it in force and do not.
"""

from collections.abc import Sequence
from typing import Literal

from .atoms import Atom
from .dates import MONTH_NAMES
from .lexicon import phrases, words

Form = Literal["base", "finite", "ing", "past"]
"""replace · replaces · replacing · replaced, taken."""

_REGULAR = words(
    """
    supersede replace obsolete retire close repeal annul abolish supplant displace succeed end terminate
    overturn overrule reverse nullify invalidate void scrap drop abandon discard revoke rescind discontinue
    """
)
_DOUBLED = frozenset({"annul", "scrap", "drop"})
_IRREGULAR: tuple[tuple[str, ...], ...] = (
    ("withdraw", "withdraws", "withdrawing", "withdrew", "withdrawn"),
    ("supercede", "supercedes", "superceding", "superceded"),
    ("cancel", "cancels", "cancelling", "cancelled"),
    ("undo", "undoes", "undoing", "undid", "undone"),
)
_WITH_TAIL: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...] = (
    ("take takes taking took taken", phrases("the place of | over from")),
    ("put puts putting put", phrases("an end to")),
    ("do does doing did done", phrases("away with")),
    ("stand stands standing stood", phrases("in place of | in the place of")),
    ("come comes coming came", phrases("in place of | in the place of")),
    ("step steps stepping stepped", phrases("into the place of | into the shoes of")),
    ("substitute substitutes substituting substituted", phrases("for")),
    ("set sets setting", phrases("aside")),
    ("sweep sweeps sweeping swept", phrases("away")),
)


def _regular(verb: str) -> tuple[str, str, str, str]:
    if verb.endswith("e"):
        return verb, verb + "s", verb[:-1] + "ing", verb + "d"
    if verb.endswith("fy"):
        return verb, verb[:-1] + "ies", verb + "ing", verb[:-1] + "ied"
    third = verb + ("es" if verb.endswith(("sh", "ch", "s")) else "s")
    stem = verb + verb[-1] if verb in _DOUBLED else verb
    return verb, third, stem + "ing", stem + "ed"


_FORMS: tuple[Form, ...] = ("base", "finite", "ing", "past", "past")


def _verb_table() -> dict[str, list[tuple[tuple[str, ...], Form]]]:
    table: dict[str, list[tuple[tuple[str, ...], Form]]] = {}
    verbs: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
        (forms, ()) for forms in (*map(_regular, sorted(_REGULAR)), *_IRREGULAR)
    ]
    verbs += [(tuple(forms.split()), tail) for forms, tails in _WITH_TAIL for tail in tails]
    for forms, tail in verbs:
        for word, form in zip(forms, _FORMS, strict=False):
            known = table.setdefault(word, [])
            if all(seen[0] != tail for seen in known):
                known.append((tail, form))
    for entries in table.values():
        entries.sort(key=lambda entry: -len(entry[0]))
    return table


VERBS = _verb_table()
"""First word -> (words after it, form), longest first."""
CAUSES: dict[str, Form] = {
    **dict.fromkeys(
        words("makes renders declares leaves brings lays consigns sends puts takes marks sets"), "finite"
    ),
    **dict.fromkeys(words("making rendering declaring bringing laying putting taking marking setting"), "ing"),
    **dict.fromkeys(words("made rendered declared brought laid consigned sent took marked"), "past"),
    **dict.fromkeys(words("make render declare put take bring lay mark set"), "base"),
}
"""Verbs of making, with what they make of a record after it (`caused_at`)."""
_CAUSED = phrases(
    """
    obsolete | void | redundant | moot | superfluous | invalid | history | withdrawn | retired | closed |
    superseded | replaced | dead | unnecessary | defunct | ended | abolished | revoked | null and void
    | to rest | to an end | to history | into retirement | out of force | out of use | out of effect | as
    superseded | as replaced | as obsolete | as retired | as withdrawn | as closed
    """
)

ENDED = words(
    """
    superseded superceded replaced obsoleted obsolete retired closed repealed annulled cancelled canceled
    abolished supplanted displaced succeeded ended terminated overturned overruled reversed nullified
    invalidated voided void scrapped dropped abandoned discarded revoked rescinded discontinued withdrawn moot
    defunct history redundant superfluous dead undone overtaken
    """
)
"""Participles and adjectives that say of a record that it has ended."""
_ENDED_PHRASES = phrases(
    "put out of force | taken out of force | laid to rest | brought to an end | set aside | put aside"
)
YIELDS = phrases(
    """
    gives way to | give way to | gave way to | has given way to | makes way for | make way for | makes room
    for | yields to | hands over to | ends with | end with | lapses with | lapse with | expires with | ceases
    with | falls away with | loses its force with | loses its force through | is out of force with | goes out
    of force with | is over with | is done with
    """
)
"""Said of the older record with the text itself after it."""
ENDED_FIRST = ENDED | {phrase[0] for phrase in _ENDED_PHRASES}
IN_FORCE = words(
    """
    apply applies hold holds stand stands count counts valid force effect current applicable binding relevant
    authoritative operative active bind binds govern governs
    """
)
ADVERBS = words(
    """
    also now hereby herewith thereby therefore thus hence fully completely entirely wholly formally
    officially explicitly expressly directly simply then finally altogether outright immediately thereafter
    already permanently definitively consequently accordingly totally today henceforth hereafter again
    """
)
AUXILIARIES = words(
    """
    is are was were has have had been be being gets got stands becomes became made rendered
    """
)
PRONOUNS = words("this we i it")
RECORD_NOUNS = words(
    """
    decision record document proposal memo memorandum standard specification spec policy rule guideline adr
    pep rfc eip bip rep resolution directive
    """
)
DOCUMENT_NOUNS = RECORD_NOUNS | words(
    """
    decisions records documents proposals memos note notes policies rules standards specifications specs
    guidelines entry entries memory memories adrs peps rfcs eips bips reps text agreement procedure plan
    approach design convention practice arrangement ruling paper report guidance regulation circular choice
    one ones
    """
)
OBJECT_FILLERS = (
    words(
        """
    the our my its their all both old older earlier previous former prior predecessor predecessors existing
    outdated original of fully entirely completely wholly formally hereby now also obsolete stale current last
    even today's
    """
    )
    | DOCUMENT_NOUNS
)
EARLIER = words("old older earlier previous former prior existing outdated original")
TITLE_LINKS = words(
    """
    to on about for in that regarding concerning called titled entitled named
    """
)
"""May stand between "the decision" and its title, not between "the decision" and a number."""
TIME_NOUNS = words(
    """
    week month year morning evening afternoon time quarter spring summer autumn fall winter day
    """
)
RELATIVES = words("which that who whose while whereas where")
ANNOUNCING = (
    words(
        """
    written created introduced ratified enacted chosen
    revision edition version
    a an the new newly final accepted adopted approved published issued decided agreed recorded active current
    as of on in from by since dated date type kind category status track informational process experimental
    best practice internet historic draft proposed python language feature requests request comments standards
    title summary effective today st nd rd th and is was q for
    """
    )
    | RECORD_NOUNS
    | MONTH_NAMES
)
"""Words that only announce a record: a zone of these before a verb leaves the text itself as the subject."""
ADOPTED_TO = words(
    """
    adopted accepted approved issued published decided agreed written created introduced chosen ratified
    enacted
    """
)


def verb_at(atoms: Sequence[Atom], at: int) -> tuple[Form, int] | None:
    """The form of the ending verb that begins at ``at``, and the index after it."""
    if atoms[at].kind != "word":
        return None
    for tail, form in VERBS.get(atoms[at].text, ()):
        stop = at + 1 + len(tail)
        if not tail or (stop <= len(atoms) and all(atoms[at + 1 + n].text == word for n, word in enumerate(tail))):
            return form, stop
    return None


def cause_at(atoms: Sequence[Atom], at: int) -> Form | None:
    """The form of a verb of making at ``at`` ("makes … obsolete", "puts … out of force")."""
    return CAUSES.get(atoms[at].text) if atoms[at].kind == "word" else None


def caused_at(atoms: Sequence[Atom], at: int, verb: str) -> int | None:
    """Index after what a verb of making makes of a record."""
    if verb in _PUTS and at < len(atoms) and atoms[at].text == "aside":
        return at + 1
    return phrase_at(atoms, at, *_CAUSED)


_PUTS = words("set sets setting put puts putting")


def phrase_at(atoms: Sequence[Atom], at: int, *phrases: tuple[str, ...]) -> int | None:
    """Index after the first of the phrases that stands at ``at``."""
    for phrase in phrases:
        stop = at + len(phrase)
        if stop <= len(atoms) and all(atoms[at + n].text == word for n, word in enumerate(phrase)):
            return stop
    return None


def ended_at(atoms: Sequence[Atom], at: int) -> int | None:
    """Index after a word or phrase that says that a record has ended."""
    if atoms[at].kind != "word":
        return None
    return at + 1 if atoms[at].text in ENDED else phrase_at(atoms, at, *_ENDED_PHRASES)
