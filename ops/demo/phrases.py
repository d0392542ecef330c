"""The wordings of the demo: ways to say that a document replaces an earlier one, and ways to name one without.

All of them are the demo's own sentences; none is taken from a document. A phrase names its reference style
where only that style reads well. Placeholders: ``lead`` is a whole sentence about the document, ``subject`` a
noun phrase about it, ``refs`` the named documents, ``namesake`` those of the other series with the same numbers;
``Header`` is the series' own word for replacing; ``is``, ``gives``, ``applies``, ``they``, ``them`` and
``their`` agree with how many are named.
"""

from dataclasses import dataclass
from typing import Literal

Style = Literal["full", "shared", "hyphen", "lower", "tight", "bare"]


@dataclass(frozen=True, slots=True)
class Phrase:
    """One wording. ``name`` is stable: a report can group by it. Without ``style`` the id's hash chooses one."""

    name: str
    text: str
    style: Style | None = None


LEADS = (
    "{id}: {title}. {A_kind}, {date}.",
    "{id} ({title}) is {a_kind} dated {date}.",
    "{date}: {id}, “{title}”, {a_kind}.",
    "Decision of {date}: {id}, {title}, enters the index as {a_kind}.",
)
SUBJECTS = (
    "{id} ({title}), {a_kind} of {date}",
    "{id}, “{title}” ({a_kind}, {date})",
    "{A_kind} of {date}, {id} ({title})",
)

REPLACES = (
    Phrase("active-replaces", "{lead} It replaces {refs}."),
    Phrase("active-supersedes", "{lead} It supersedes {refs}."),
    Phrase("active-obsoletes", "{lead} It obsoletes {refs}."),
    Phrase("subject-replaces", "{subject}, replaces {refs}."),
    Phrase("subject-supersedes", "{subject}, supersedes {refs}."),
    Phrase("subject-obsoletes", "{subject}, obsoletes {refs}."),
    Phrase("named-replaces", "{lead} {id} replaces {refs}."),
    Phrase("named-hereby", "{lead} {id} hereby supersedes {refs}."),
    Phrase("passive-replaced-by-it", "{lead} {refs} {is} replaced by it."),
    Phrase("passive-superseded-by-id", "{lead} {refs} {is} superseded by {id}."),
    Phrase("passive-obsoleted", "{lead} {refs} {is} thereby obsoleted."),
    Phrase("passive-with-it", "{lead} With it, {refs} {is} superseded."),
    Phrase("passive-has-been", "{lead} As of this document {refs} {is} replaced."),
    Phrase("participle-replacing", "{subject}, replacing {refs}."),
    Phrase("participle-superseding", "{subject}, superseding {refs}."),
    Phrase("participle-obsoleting", "{lead} Obsoleting {refs}, it stands on its own."),
    Phrase("takes-the-place", "{lead} It takes the place of {refs}."),
    Phrase("taking-the-place", "{subject}, taking the place of {refs}."),
    Phrase("in-place-of", "{lead} It applies in place of {refs}."),
    Phrase("instead-of", "{lead} Use it instead of {refs}."),
    Phrase("instead-of-first", "{lead} Instead of {refs}, {id} applies from here on."),
    Phrase("successor-of", "{lead} It is the successor of {refs}."),
    Phrase("successor-to", "{subject}, is the successor to {refs}."),
    Phrase("replacement-for", "{lead} It is a replacement for {refs}."),
    Phrase("as-replacement", "{lead} Filed as the replacement of {refs}."),
    Phrase("retires", "{lead} It retires {refs}."),
    Phrase("makes-obsolete", "{lead} It makes {refs} obsolete."),
    Phrase("renders-obsolete", "{subject}, renders {refs} obsolete."),
    Phrase("gives-way", "{lead} {refs} {gives} way to {id}."),
    Phrase("cancels-and-replaces", "{lead} It cancels and replaces {refs}."),
    Phrase("header-replaces", "{lead} Replaces: {refs}", "bare"),
    Phrase("header-replaces-named", "{lead} Replaces: {refs}."),
    Phrase("header-obsoletes", "{lead} Obsoletes: {refs}", "bare"),
    Phrase("header-supersedes", "{lead} SUPERSEDES: {refs}", "hyphen"),
    Phrase("bracket-replaces", "{lead} (Replaces {refs}.)"),
    Phrase("dash-supersedes", "{subject} – supersedes {refs}"),
    Phrase("upper-case", "{lead} THIS REPLACES {refs}."),
    Phrase("other-series-apart", "{lead} It replaces {refs}, not {namesake}."),
    Phrase("what-was", "{lead} What {refs} said is replaced by this document."),
    Phrase("no-longer", "{lead} It supersedes {refs}, which no longer {applies}."),
)

ALSO_NAMES = (
    Phrase("also-leaves", "It also {verb} {refs}, which it leaves as {they} {is}."),
    Phrase("also-without", "It also {verb} {refs}, without replacing {them}."),
    Phrase("also-not", "{refs} {is} not replaced: this document only {verb} {them}."),
    Phrase("also-header", "{Verb}: {refs}", "bare"),
)

UPDATES = (
    Phrase("updates-in-force", "{lead} It updates {refs}, which it leaves in force."),
    Phrase("updates-not-obsolete", "{lead} It updates {refs} and does not obsolete {them}."),
    Phrase("updates-header", "{lead} Updates: {refs}", "bare"),
    Phrase("updates-header-none", "{lead} Updates: {refs}. Obsoletes: none.", "bare"),
    Phrase("updates-parts", "{lead} It changes parts of {refs} and replaces no document as a whole."),
    Phrase("updates-adds", "{lead} It adds to {refs} without replacing {them}."),
    Phrase("updates-passive", "{lead} {refs} {is} updated, not replaced, by it."),
    Phrase("updates-subject", "{subject}, amends {refs}, with nothing superseded."),
    Phrase("updates-together", "{lead} Read it with {refs}, which it updates rather than replaces."),
    Phrase(
        "updates-had-it",
        "{lead} Had it obsoleted {refs}, its header would say so; it says that it updates {them}.",
    ),
    Phrase("updates-only", "{lead} It obsoletes nothing: {refs} {is} only updated."),
    Phrase("updates-not-a-replacement", "{lead} Not a replacement for {refs}, but an update to {them}."),
    Phrase("updates-not-the-place", "{lead} It does not take the place of {refs}; it updates {them}."),
    Phrase("updates-asked", "{lead} Does it supersede {refs}? No, it updates {them}."),
    Phrase("updates-at-most", "{lead} At most some sections of {refs} are replaced by it, never the whole."),
    Phrase("updates-instead-of", "{lead} Instead of replacing {refs}, it updates {them}."),
)

REQUIRES = (
    Phrase("requires-builds-on", "{lead} It builds on {refs}."),
    Phrase("requires-nothing", "{lead} It requires {refs} and replaces nothing."),
    Phrase("requires-header", "{lead} Requires: {refs}", "bare"),
    Phrase("requires-header-none", "{lead} Requires: {refs}. Replaces: (none).", "bare"),
    Phrase("requires-not-supersede", "{lead} It depends on {refs} and does not supersede {them}."),
    Phrase("requires-presupposes", "{lead} It presupposes {refs} rather than replacing {them}."),
    Phrase("requires-instead-of", "{lead} Instead of replacing {refs}, it requires {them}."),
    Phrase("requires-not-successor", "{lead} Not the successor of {refs}, but dependent on {them}."),
    Phrase("requires-in-place", "{subject}, stands on {refs} and leaves {them} in {their} place."),
    Phrase("requires-without", "{lead} It needs {refs}, as a replacement would not."),
)

RESEMBLES = (
    Phrase("near-does-not", "{lead} It does not replace {refs}."),
    Phrase("near-after", "{lead} It was written after {refs} and does not supersede {them}."),
    Phrase("near-header-none", "{lead} Replaces: (none). Compare {refs}."),
    Phrase("near-had-it", "{lead} Had it replaced {refs}, its header would say so; it does not."),
    Phrase("near-similar", "{lead} Similar in title to {refs}, and no replacement for {them}."),
    Phrase("near-passive", "{lead} {refs} {is} not obsoleted by it."),
    Phrase("near-asked", "{lead} Does it supersede {refs}? Its header does not say so."),
    Phrase("near-included", "{lead} It supersedes nothing, {refs} included."),
    Phrase("near-quoted", "{lead} Were someone to say “this replaces {refs}”, the header would not bear it out."),
    Phrase("near-claim", "{lead} Its header makes no claim to take the place of {refs}."),
    Phrase("near-beside", "{subject}, stands beside {refs}, not instead of {them}."),
    Phrase("near-retires-nothing", "{lead} It retires nothing; {refs} {is} an earlier text with a similar title."),
    Phrase("near-other-series", "{lead} It replaces neither {refs} nor {namesake}."),
    Phrase("near-would", "{lead} A replacement of {refs} would have said so; this one does not."),
    Phrase("near-not-successor", "{lead} It is not the successor of {refs}."),
)

REPORTS = (
    Phrase("report-says", "{lead} {claimant} says that it replaces {refs}; {id} says nothing of the kind."),
    Phrase("report-unlike", "{lead} Unlike {claimant}, which supersedes {refs}, it supersedes nothing."),
    Phrase("report-it-is", "{lead} It is {claimant} that obsoletes {refs}, not this document."),
    Phrase("report-header", "{lead} “{Header}: {refs}” stands in the header of {claimant}, not here."),
    Phrase("report-already", "{lead} {claimant} had already replaced {refs}; this document replaces neither."),
)
