"""What the input boundary says is of the fields and not of Python, whatever is given."""

import re
from collections.abc import Iterator
from typing import Any

import lethelog.handlers.http.application  # noqa: F401 - with it every command and query is loaded
import pytest
from lethelog.domain.errors import InvalidInput
from lethelog.domain.fields import Input, parse
from pydantic import ValidationError, create_model

OF_PYTHON = re.compile(
    r"[Tt]uple|\bdict|ictionary|[Ll]ist should|frozenset|validation|instance|None\b|Value error|valid (int|str|num|bool)"
    r"|[Ii]nput should|[Ss]tring should|characters? long|UUID|pydantic|parse"
)
WRONG: tuple[Any, ...] = (
    None,
    True,
    "",
    "x",
    "x" * 2_100,
    "\x00",
    -1,
    0,
    10**40,
    1.5,
    float("nan"),
    [],
    ["x"],
    [None],
    ["x" * 2_100],
    ["x"] * 600,
    {},
    {"x": 1},
    {"x" * 70: {"y": [1]}},
    [{}],
    [{"x": 1}],
    b"x",
)


def inputs() -> Iterator[type[Input]]:
    waiting = Input.__subclasses__()
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if kind.__module__.startswith("lethelog."):
            yield kind


def fields() -> Iterator[type[Input]]:
    """A model of each field alone, so that no other one is wrong first; one of each form."""
    seen = set[str]()
    for kind in sorted(set(inputs()), key=lambda one: one.__name__):
        for name, info in kind.model_fields.items():
            form = f"{name} {info!r}"
            if form not in seen:
                seen.add(form)
                one: dict[str, Any] = {name: (info.annotation, info)}
                yield create_model(f"{kind.__name__}_{name}", __base__=Input, **one)


def test_no_message_about_an_argument_speaks_of_python():
    refused, spoken = 0, 0
    for model in fields():
        [name] = model.model_fields
        for value in WRONG:
            try:
                parse(model, {name: value})
            except InvalidInput as error:
                refused += 1
                assert not OF_PYTHON.search(error.message.partition(": ")[2]), (model, error.message)
                assert error.field.partition(".")[0] == name, (model, error.field)
                spoken += bool(OF_PYTHON.search(raw(model, {name: value})))
    assert refused > 1_000 and spoken > 500, (refused, spoken)


def raw(kind: type[Input], given: dict[str, Any]) -> str:
    """What pydantic says itself."""
    with pytest.raises(ValidationError) as report:
        kind.model_validate(given)
    return str(report.value.errors(include_input=False)[0]["msg"])
