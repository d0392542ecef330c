"""Words that take a claim back: negation, mood, time to come, condition, report, and restriction.

Each set is read at a certain distance from the wording of an ending (see `subjects` and `objects`). They are
broad on purpose: a missed ending costs one proposal, a false one costs trust (issue 2: the hard set of negatives
yields 0 proposals).
"""

from collections.abc import Sequence

from .atoms import Atom
from .lexicon import phrases, words

NEGATIVE = words(
    """
    not no never neither nor none nothing nobody nowhere hardly barely rarely seldom scarcely without cannot
    don't doesn't didn't won't isn't aren't wasn't weren't hasn't haven't hadn't can't couldn't wouldn't
    shouldn't mustn't needn't shan't ain't refuses refused refuse declines declined stops stopped few false
    untrue wrong wrongly mistakenly incorrectly denies denied deny myth doubt doubts doubted far contrary
    """
)
ABSENT = words("nothing nobody none neither nor nowhere")
"""Negations that act as the subject of a whole sentence, however far from the verb."""
MOOD = words(
    """
    originally initially formerly briefly may might could would should can must shall will ought wants want
    wanted wish wished hope hopes hoped hoping plan plans planned planning intend intends intended intending
    intention aims aimed aiming try tries tried trying attempt attempts attempted attempting propose
    proposes proposing suggest suggests suggested consider considers considered considering discuss
    discusses discussed discussing expect expects expected seek seeks sought fail fails failed failing
    supposed likely unlikely possible possibly perhaps maybe probably potential potentially hypothetically
    hypothetical ideally eventually someday sometime soon tomorrow later next future upcoming proposed
    tentatively tentative provisionally provisional idea ideas ask asks asked asking wonder wonders
    candidate almost nearly virtually imagine suppose pretend let lets let's debated voted dare dares
    alternative alternatives option options draft unaccepted unapproved yet someone's i'll we'll it'll
    they'll he'll she'll you'll that'll i'd we'd it'd he'd she'd they'd you'd meant goal goals needs need
    todo
    """
)
CONDITION = words(
    """
    event conflict doubt dispute between if unless once until till whenever when provided providing assuming
    whether should were subject pending depending conditional conditionally contingent case otherwise else
    soon
    """
)
REPORT = words(
    """
    theory principle paper fool fools said says say saying told tells wrote writes claims claim claimed
    claiming argues argued argue thinks thought think believes believed believe hears heard according
    allegedly reportedly supposedly apparently rumour rumours rumor rumors rumoured rumored assumes assumed
    assume asserts asserted quote quotes quoted mentions mentioned mention example examples template
    placeholder announces announced insists insisted complains recalls remembers feels guess guesses seems
    seem appears looks sounds hearsay gossip opinion typo joke joked misread question phrase title subject
    header imagine lists listed list describes described compares compared looked looking history
    """
)
SAID = words(
    """
    kind sort less speak hear insists rumour rumor citation needed plan planned idea intention intended hope
    hoped theory paper least mind aim meant said says say think thinks thought claims claimed claim
    according allegedly reportedly supposedly apparently perhaps maybe probably possibly hopefully
    presumably believe believes guess suppose eventually someday later soon tomorrow seemingly arguably
    potentially tentatively
    """
)
"""Hedges and reports that may follow a claim ("This replaces ADR-5, Ben says")."""
OTHERS = words(
    """
    another other others earlier previous former prior later next subsequent different some any every each
    many most several someone somebody anyone anybody everyone everybody people they he she you vendor
    vendors who whoever competing rival similar certain whichever whatever fork forks
    """
)
"""Words that make the subject of a clause someone or something other than the text itself."""
PIECES = words(
    """
    part parts section sections § §§ paragraph paragraphs chapter chapters appendix appendices annex clause
    clauses subset portion portions half aspects aspect bits piece pieces
    """
)
"""Parts of a record, which may be what a text ends or what ends by itself."""
PARTIAL = PIECES | words(
    """
    partly partially partial some only except excepting excluding exception exceptions apart insofar
    inasmuch limited largely mostly mainly chiefly primarily regarding concerning extent degree temporarily
    temporary provisionally provisional meanwhile interim trial experimentally experiment pilot stopgap
    makeshift mutatis locally selected certain regards
    """
)
PLACES = words(
    """
    sentence sentences item items page pages table tables figure figures step steps bullet bullets line
    lines row rows example examples wording definition definitions
    """
)
"""Pieces of a record; they restrict an ending only right beside the record's name."""
STAYS = words(
    """
    remain remains remained remaining stay stays stayed staying still keep keeps kept keeping continue
    continues continued unaffected untouched unchanged retain retains retained survive survives alongside
    coexist coexists preserve preserves preserved complements complement reinstated reinstates restored
    revived unaltered
    """
)
UNDONE = words(
    """
    rejected withdrawn abandoned declined vetoed deferred dropped reverted cancelled canceled failed undone
    rolled
    """
)
CAME = words("adopted accepted approved implemented shipped merged ratified effect force passed enacted")
"""What a record comes to when it takes force; "never" before one of these, and it ended nothing."""
UNSETTLED = UNDONE | frozenset({"draft", "proposed", "provisional"})

_NO_BLOCK = frozenset(
    phrases(
        """
        not only | not just | not merely | until now | until today | till now | proposed standard |
        draft standard |
        once and | yet another | no longer | case law
        """
    )
)


def any_of(atoms: Sequence[Atom], *sets: frozenset[str]) -> bool:
    """Whether a word of any set stands among the atoms, set phrases such as "not only" left out."""
    last = len(atoms) - 1
    for at, atom in enumerate(atoms):
        if atom.kind == "word" or atom.kind == "mark":
            text = atom.text
            for words in sets:
                if text in words and not (at < last and (text, atoms[at + 1].text) in _NO_BLOCK):
                    return True
    return False
