"""Names of tenants: compared exactly, and no new one may be mistaken for another (F37).

A name is its NFC form, case and all; two names are two tenants. Whoever makes a tenant is told when its name looks
like one that there is: equal but for case, width, marks, invisible characters or separators, or by Unicode's own
table of confusable characters (UTS 39).
"""

import unicodedata
from functools import cache
from typing import Annotated, Any, cast

from pydantic import BeforeValidator

from ...domain.fields import Name


def _tenant_name(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    name = unicodedata.normalize("NFC", value.strip())
    if any(unicodedata.category(character) in ("Cc", "Zl", "Zp") for character in name):
        raise ValueError("holds a control character; use letters, digits and punctuation")
    return name


TenantName = Annotated[Name, BeforeValidator(_tenant_name)]
"""The outside name of a tenant, 1 to 256 characters, in NFC."""


def look_alike(one: str, other: str) -> bool:
    """Whether two names may be taken for each other."""
    return not _skeletons(one).isdisjoint(_skeletons(other))


def _skeletons(name: str) -> set[str]:
    # Folding first hides that I looks like l; not folding hides that ACME looks like acme.
    return {_skeleton(name.casefold()), _skeleton(name)}


def _skeleton(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name)
    shown = "".join(_prototype(one) for one in plain if unicodedata.category(one) not in ("Mn", "Me", "Cf"))
    return shown.casefold()


def _prototype(character: str) -> str:
    # Whether, and which, separator stands there is what is overlooked first.
    if character == "." or unicodedata.category(character) in ("Pd", "Pc", "Zs"):
        return ""
    return _prototypes().get(character, character)


@cache
def _prototypes() -> dict[str, str]:
    """The character that stands for all that look like it; the table is read when the first tenant is made."""
    from confusable_homoglyphs import confusables  # pyright: ignore[reportMissingTypeStubs]

    table = cast("dict[str, list[dict[str, str]]]", confusables.confusables_data)
    # Each character names its prototype alone; a prototype names all that look like it.
    return {
        one: min(one, others[0]["c"]) if len(table.get(others[0]["c"], ())) == 1 else others[0]["c"]
        for one, others in table.items()
        if len(others) == 1
    }
