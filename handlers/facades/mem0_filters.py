"""Which memories a filter of mem0 keeps: equality, its operators, and AND, OR and NOT."""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from .item_filters import comparable, same
from .mem0_arguments import RefusedInput

_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}
_OPERATORS = frozenset({"eq", "ne", "in", "nin", "contains", "icontains", *_ORDERS})
_JUNCTIONS = ("AND", "OR", "NOT")
ANY = "*"


def check(wanted: Mapping[str, Any]) -> None:
    """Refuse what is no filter. Raises `RefusedInput`."""
    for name, one in wanted.items():
        if name in _JUNCTIONS:
            for part in _parts(name, one):
                check(part)
        elif isinstance(one, Mapping):
            unknown = sorted(set(cast("Mapping[str, Any]", one)) - _OPERATORS)
            if unknown:
                raise RefusedInput(
                    "filters", f"{unknown[0]} is no operator", f"Use {', '.join(sorted(_OPERATORS))}"
                )


def keeps(wanted: Mapping[str, Any], payload: Mapping[str, Any]) -> bool:
    """Whether a memory with these fields is wanted."""
    return all(_matches(name, one, payload) for name, one in wanted.items())


def _matches(name: str, wanted: Any, payload: Mapping[str, Any]) -> bool:
    if name in _JUNCTIONS:
        kept = [keeps(part, payload) for part in _parts(name, wanted)]
        return all(kept) if name == "AND" else any(kept) if name == "OR" else not any(kept)
    found = payload.get(name)
    if isinstance(wanted, str) and wanted == ANY:
        return found is not None
    if not isinstance(wanted, Mapping):
        return _is(found, wanted)
    return all(_holds(found, how, one) for how, one in cast("Mapping[str, Any]", wanted).items())


def _holds(found: Any, how: str, wanted: Any) -> bool:
    match how:
        case "eq":
            return _is(found, wanted)
        case "ne":
            return not _is(found, wanted)
        case "in":
            return any(_is(found, one) for one in _values(wanted))
        case "nin":
            return not any(_is(found, one) for one in _values(wanted))
        case "contains":
            return _contains(found, wanted)
        case "icontains":
            return _contains(_folded(found), _folded(wanted))
        case _:
            return comparable(found, wanted) and _ORDERS[how](found, wanted)


def _is(found: Any, wanted: Any) -> bool:
    """A list in the metadata fits with any of its values."""
    return same(found, wanted) or (isinstance(found, list) and any(same(one, wanted) for one in _values(found)))


def _contains(found: Any, wanted: Any) -> bool:
    if isinstance(found, str):
        return isinstance(wanted, str) and wanted in found
    return isinstance(found, list) and any(same(one, wanted) for one in _values(found))


def _folded(value: Any) -> Any:
    if isinstance(value, list):
        return [_folded(one) for one in _values(value)]
    return value.casefold() if isinstance(value, str) else value


def _values(given: Any) -> Sequence[Any]:
    if not isinstance(given, list | tuple):
        raise RefusedInput("filters", "in and nin need a list")
    return cast("Sequence[Any]", given)


def _parts(name: str, given: Any) -> Sequence[Mapping[str, Any]]:
    parts = cast("list[Any]", given) if isinstance(given, list) else []
    if not parts or not all(isinstance(part, Mapping) for part in parts):
        raise RefusedInput("filters", f"{name} needs a list of filters")
    return cast("Sequence[Mapping[str, Any]]", parts)
