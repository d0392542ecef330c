"""The wordings of an ending that `claims` knows: verbs in their forms, nouns, adjectives, and small words.

English only. A verb belongs here when it says that the older record ends; verbs of amendment ("updates",
"amends", "extends", "refines", "deprecates", "overrides") leave it in force and do not.
"""

from collections.abc import Sequence
from typing import Literal

from .atoms import Atom

Form = Literal["finite", "base", "ing", "past", "participle"]
"""replaces · replace · replacing · replaced (also as past participle) · taken, withdrawn (participle only)."""

_REGULAR = (
    "supersede replace obsolete retire close repeal annul cancel abolish supplant displace succeed end terminate "
    "overturn overrule reverse nullify invalidate void scrap drop abandon discard revoke rescind discontinue unseat"
).split()
_DOUBLED = frozenset({"annul", "scrap", "drop"})
_IRREGULAR: tuple[tuple[str, ...], ...] = (
    ("withdraw", "withdraws", "withdrawing", "withdrew", "withdrawn"),
    ("supercede", "supercedes", "superceding", "superceded", "superceded"),
    ("cancel", "cancels", "cancelling", "cancelled", "cancelled"),
    ("undo", "undoes", "undoing", "undid", "undone"),
)
_WITH_TAIL: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("take", "takes", "taking", "took", "taken"), ("the", "place", "of")),
    (("take", "takes", "taking", "took", "taken"), ("over", "from")),
    (("take", "takes", "taking", "took", "taken"), ("over", "for")),
    (("put", "puts", "putting", "put", "put"), ("an", "end", "to")),
    (("do", "does", "doing", "did", "done"), ("away", "with")),
    (("stand", "stands", "standing", "stood", "stood"), ("in", "place", "of")),
    (("stand", "stands", "standing", "stood", "stood"), ("in", "the", "place", "of")),
    (("come", "comes", "coming", "came", "come"), ("in", "place", "of")),
    (("step", "steps", "stepping", "stepped", "stepped"), ("into", "the", "place", "of")),
    (("substitute", "substitutes", "substituting", "substituted", "substituted"), ("for",)),
    (("write", "writes", "writing", "wrote", "written"), ("off",)),
)


def _regular(verb: str) -> tuple[str, str, str, str, str]:
    if verb.endswith("e"):
        return verb, verb + "s", verb[:-1] + "ing", verb + "d", verb + "d"
    if verb.endswith("fy"):
        return verb, verb[:-1] + "ies", verb + "ing", verb[:-1] + "ied", verb[:-1] + "ied"
    third = verb + ("es" if verb.endswith(("sh", "ch", "s")) else "s")
    stem = verb + verb[-1] if verb in _DOUBLED else verb
    return verb, third, stem + "ing", stem + "ed", stem + "ed"


_FORMS: tuple[Form, ...] = ("base", "finite", "ing", "past", "participle")


def _table() -> dict[str, list[tuple[tuple[str, ...], Form]]]:
    table: dict[str, list[tuple[tuple[str, ...], Form]]] = {}
    plain = [*map(_regular, _REGULAR), *_IRREGULAR]
    for forms, tail in [*((verb, ()) for verb in plain), *_WITH_TAIL]:
        for word, form in zip(forms, _FORMS, strict=True):
            entry = ((*tail,), form)
            known = table.setdefault(word, [])
            if all(seen[0] != entry[0] for seen in known):
                known.append(entry)
    for entries in table.values():
        entries.sort(key=lambda entry: -len(entry[0]))
    return table


VERBS = _table()
"""First word -> (following words, form), longest first."""

ENDED = frozenset(
    "superseded superceded replaced obsoleted obsolete retired closed repealed annulled cancelled canceled abolished "
    "supplanted displaced succeeded ended terminated overturned overruled reversed nullified invalidated voided void "
    "scrapped dropped abandoned discarded revoked rescinded discontinued withdrawn moot defunct history redundant "
    "superfluous dead over finished undone".split()
)
"""Participles and adjectives that say of a record that it has ended."""
CAUSES = frozenset("makes making made renders rendering rendered declares declaring declared leaves make render".split())
_CAUSE_FORM: dict[str, Form] = {
    "makes": "finite", "renders": "finite", "declares": "finite", "leaves": "finite",
    "making": "ing", "rendering": "ing", "declaring": "ing",
    "made": "past", "rendered": "past", "declared": "past",
    "make": "base", "render": "base",
}  # fmt: skip
CAUSED = frozenset(
    "obsolete void redundant moot superfluous invalid null history withdrawn retired closed superseded replaced dead "
    "unnecessary defunct ended abolished revoked".split()
)
IN_FORCE = frozenset(
    "apply applies hold holds stand stands count counts valid force effect current applicable binding relevant "
    "authoritative operative active bind binds govern governs followed".split()
)

ADVERBS = frozenset(
    "also now hereby herewith thereby therefore thus hence fully completely entirely wholly formally officially "
    "explicitly expressly directly simply then finally altogether outright effective immediately thereafter already "
    "permanently definitively consequently accordingly totally today henceforth hereafter again".split()
)
AUXILIARIES = frozenset("is are was were has have had been be being gets got stands becomes became".split())
PRONOUNS = frozenset("this we i it".split())
DOCUMENT_NOUNS = frozenset(
    "decision decisions record records document documents proposal proposals memo memos memorandum note notes policy "
    "policies rule rules standard standards specification specifications spec specs guideline guidelines entry entries "
    "memory adr adrs pep peps rfc rfcs eip eips bip bips rep reps text version agreement resolution directive order "
    "procedure plan approach design convention practice arrangement ruling paper report edition release guidance "
    "regulation circular choice".split()
)
OBJECT_FILLERS = frozenset(
    "the our my its their all both old older earlier previous former prior predecessor predecessors existing outdated "
    "original hitherto of fully entirely completely wholly formally hereby now also outright, obsolete stale what "
    "was then-current current last".split()
) | DOCUMENT_NOUNS
TITLE_LINKS = frozenset("to on about for in that regarding concerning called titled entitled named".split())
"""May stand between "the decision" and its title, not between "the decision" and a number."""
TIME_NOUNS = frozenset("week month year morning evening afternoon time quarter spring summer autumn fall winter day".split())
MONTHS = frozenset(
    "january february march april may june july august september october november december jan feb mar apr jun jul aug "
    "sep sept oct nov dec".split()
)
RELATIVES = frozenset("which that who whose while whereas where".split())
ANNOUNCING = (
    frozenset(
        "a an the new newly final accepted adopted approved published issued decided agreed recorded active current as of "
        "on in from by since dated date type kind category status standards standard track informational process "
        "experimental best practice internet historic draft proposed python language feature requests request comments "
        "title summary effective today st nd rd th and is was q".split()
    )
    | DOCUMENT_NOUNS
    | MONTHS
)
"""Words that only announce a record: a zone of these before a verb leaves the text itself as the subject."""
ADOPTED_TO = frozenset(
    "adopted accepted approved issued published decided agreed written created introduced made chosen ratified "
    "enacted drafted order".split()
)


def verb_at(atoms: Sequence[Atom], at: int) -> tuple[Form, int] | None:
    """The form of the ending verb that begins at ``at``, and the index after it."""
    for tail, form in VERBS.get(atoms[at].text, ()):
        stop = at + 1 + len(tail)
        if stop <= len(atoms) and all(atoms[at + 1 + n].text == word for n, word in enumerate(tail)):
            return form, stop
    return None


def cause_form(word: str) -> Form | None:
    """The form of a verb of making ("makes", "rendering"), or None."""
    return _CAUSE_FORM.get(word)


def phrase_at(atoms: Sequence[Atom], at: int, *phrases: tuple[str, ...]) -> int | None:
    """Index after the first of the phrases that stands at ``at``."""
    for phrase in phrases:
        stop = at + len(phrase)
        if stop <= len(atoms) and all(atoms[at + n].text == word for n, word in enumerate(phrase)):
            return stop
    return None
