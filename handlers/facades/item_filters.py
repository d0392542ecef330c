"""Which values a filter of LangGraph's store keeps: equality, and the operators of its two stores."""

import operator
from collections.abc import Callable, Mapping
from typing import Any, cast

_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
_OPERATORS = ("$eq", "$ne", *_ORDERS)


def keeps(wanted: Mapping[str, Any] | None, value: Mapping[str, Any]) -> bool:
    """Whether a value has every field as it is wanted."""
    return all(_matches(value.get(field), one) for field, one in (wanted or {}).items())


def check(wanted: Any) -> None:
    """Raise `ValueError` for a filter with an unknown operator."""
    if not isinstance(wanted, Mapping):
        return
    for name, one in cast("Mapping[str, Any]", wanted).items():
        if name.startswith("$") and name not in _OPERATORS:
            raise ValueError(f"filter: {name} is no operator here; there are {', '.join(_OPERATORS)}")
        check(one)


def same(one: Any, other: Any) -> bool:
    """Equality of JSON values: true is not 1, and a tuple is a list."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        left, right = cast("Mapping[str, Any]", one), cast("Mapping[str, Any]", other)
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        ours, theirs = cast("list[Any]", one), cast("list[Any]", other)
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return one == other


def _matches(found: Any, wanted: Any) -> bool:
    if not isinstance(wanted, Mapping):
        return same(found, wanted)
    conditions = cast("Mapping[str, Any]", wanted)
    if any(name.startswith("$") for name in conditions):
        return all(_holds(found, name, one) for name, one in conditions.items())
    if not isinstance(found, Mapping):
        return False
    inner = cast("Mapping[str, Any]", found)
    return all(_matches(inner.get(field), one) for field, one in conditions.items())


def _holds(found: Any, name: str, wanted: Any) -> bool:
    if name == "$eq":
        return same(found, wanted)
    if name == "$ne":
        return not same(found, wanted)
    return comparable(found, wanted) and _ORDERS[name](found, wanted)


def comparable(one: Any, other: Any) -> bool:
    """Numbers compare with numbers and texts with texts; nothing else has an order."""
    if isinstance(one, bool) or isinstance(other, bool):
        return False
    both: tuple[type | tuple[type, ...], ...] = ((int, float), str)
    return any(isinstance(one, kind) and isinstance(other, kind) for kind in both)
