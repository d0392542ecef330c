"""Words that take a claim back: negation, mood, time to come, condition, report, and restriction.

Each set is read at a certain distance from the wording of an ending (see `claims`). They are deliberately
broad: a missed ending costs one proposal, a false one costs trust (issue 2: the hard set yields 0 proposals).
"""

from collections.abc import Iterable

from .atoms import Atom

NEGATIVE = frozenset(
    "not no never neither nor none nothing nobody nowhere hardly barely rarely seldom scarcely without cannot n't "
    "don't doesn't didn't won't isn't aren't wasn't weren't hasn't haven't hadn't can't couldn't wouldn't shouldn't "
    "mustn't needn't shan't ain't refuses refused declines declined stops stopped unlike few false untrue wrong "
    "wrongly mistakenly incorrectly denies denied deny myth doubt doubts doubted".split()
)
MOOD = frozenset(
    "may might could would should can must shall will ought need needs wants want wanted wish wished hope hopes hoped "
    "hoping plan plans planned planning intend intends intended intending intention aim aims aimed aiming try tries "
    "tried trying attempt attempts attempted attempting propose proposes proposing suggest suggests suggested "
    "consider considers considered considering discuss discusses discussed discussing expect expects expected seek "
    "seeks sought fail fails failed failing about going supposed likely unlikely possibly perhaps maybe probably "
    "potentially hypothetically ideally eventually someday sometime soon tomorrow later future upcoming proposed "
    "tentatively provisionally idea ask asks asked asking wonder wonders request requests requested candidate "
    "almost nearly virtually practically effectively kind sort as-if ready able allowed used meant designed hypothetical "
    "imagine suppose pretend let lets let's debate debates debated vote voted refrain dare dares alternative "
    "i'll we'll it'll they'll he'll she'll you'll that'll i'd we'd it'd he'd she'd they'd you'd".split()
)
CONDITION = frozenset(
    "if unless once until till whenever when provided providing assuming whether should were subject pending "
    "depending conditional conditionally contingent case otherwise else".split()
)
REPORT = frozenset(
    "said says say saying told tells wrote writes written claims claim claimed claiming argues argued argue thinks "
    "thought think believes believed believe suggests heard hears according allegedly reportedly supposedly "
    "apparently rumour rumours rumor rumors rumoured assumes assumed assume asserts asserted quote quotes quoted "
    "mentions mentioned mention states example examples template placeholder sample announces announced insists "
    "insisted complains recalls remembers feels guess guesses seems seem appears looks sounds hearsay gossip opinion "
    "typo joke joked misread misreads question questions answer read reads reading".split()
)
OTHERS = frozenset(
    "another other others earlier previous former prior later next subsequent different some any every each many most "
    "several someone somebody anyone anybody everyone everybody people they he she you vendor vendors who whoever "
    "competing rival similar certain whichever whatever first second third fork forks".split()
)
"""Words that make the subject of a clause someone or something other than the text itself."""
PARTIAL = frozenset(
    "part parts partly partially partial section sections § §§ paragraph paragraphs chapter chapters appendix annex "
    "clause clauses subset portion portions half some aspects aspect elements bits piece pieces only except excepting "
    "excluding exception exceptions apart besides insofar inasmuch limited largely mostly mainly chiefly primarily "
    "partway regarding concerning sentence sentences item items page pages table tables figure step steps bullet "
    "line lines row rows example examples wording extent degree temporarily provisionally meanwhile interim trial "
    "experimentally pilot mutatis locally selected certain many most".split()
)
STAYS = frozenset(
    "remain remains remained remaining stay stays stayed staying still keep keeps kept keeping continue continues "
    "continued unaffected untouched unchanged retain retains retained survive survives alongside coexist coexists "
    "preserve preserves preserved besides beside complements complement both unless reinstated restored revived "
    "reverted withdrawn rejected abandoned undone rolled".split()
)
UNDONE = frozenset("rejected withdrawn abandoned declined vetoed deferred dropped reverted cancelled canceled failed".split())


def any_of(atoms: Iterable[Atom], *sets: frozenset[str]) -> bool:
    """Whether a word of any set stands among the atoms."""
    for atom in atoms:
        if atom.kind in ("word", "mark"):
            text = atom.text
            for words in sets:
                if text in words:
                    return True
    return False
