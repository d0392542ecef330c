"""Thresholds of one judge, kept as a file (behaviour.md 1.17, settlement 12).

A judge may propose only with thresholds selected for its identity, or with the source's starting values where
an operator asks for them. A file says for which identity, on which data and by which rule it was selected;
one that does not fit, or that the rule could not have produced, is refused.
"""

import json
import math
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from ...domain.errors import Misconfigured
from ...domain.thresholds import (
    MINIMUM_PROPOSALS,
    REQUIRED_PRECISION,
    SWEEP,
    Thresholds,
    no_thresholds,
    starting_thresholds,
)
from .strict_json import NotStrictJson, strict_json_object

FORMAT = 1
MOST_BYTES = 65_536
RULE = (
    f"lowest of {SWEEP[0]:.2f}..{SWEEP[-1]:.2f} by 0.05 with at least {MINIMUM_PROPOSALS} proposals and precision "
    + ", ".join(f"{action} {bar:.2f}" for action, bar in sorted(REQUIRED_PRECISION.items()))
)
"""The selection rule in words. A file selected by another rule is refused, so a changed rule shows."""


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    format: int
    judge: str
    archive: float | None
    supersede: float | None
    conflict: float | None
    selected: bool
    data_digest: str
    rule: str


def thresholds_for(
    judge_identity: str, *, file: Path | None, starting: bool, shipped: Thresholds | None = None
) -> Thresholds:
    """The thresholds a judge proposes by.

    Selected ones win: those of ``file``, else those ``shipped`` with the judge. ``starting`` (an operator's
    explicit setting) fills in the source's starting values where nothing was selected; every proposal under
    them is marked unselected. Without any of these the judge proposes nothing.

    Raises `Misconfigured` where the file is missing, broken, or of another identity, and where the shipped
    thresholds are of another identity.
    """
    if file is not None:
        return load_thresholds(file, judge_identity)
    if shipped is not None:
        if shipped.judge_identity != judge_identity:
            raise Misconfigured(
                f"The shipped thresholds are of {shipped.judge_identity}, the judge is {judge_identity}."
            )
        return shipped
    return starting_thresholds(judge_identity) if starting else no_thresholds(judge_identity)


def load_thresholds(file: Path, judge_identity: str) -> Thresholds:
    """Read a thresholds file. Raises `Misconfigured`, which names the file and what is wrong with it."""
    stored = _read(file)
    if stored.format != FORMAT:
        raise _refuse(file, f"has format {stored.format}, this version reads {FORMAT}")
    if stored.judge != judge_identity:
        raise _refuse(
            file,
            f"was selected for the judge {stored.judge[:200]}, the judge is {judge_identity}",
            "Select thresholds for this judge, or restore the settings they were selected with",
        )
    if not stored.selected:
        raise _refuse(file, "holds unselected values", "Starting values are a setting, not a file")
    if stored.rule != RULE:
        raise _refuse(file, "was selected by another rule")
    if not re.fullmatch(r"[0-9a-f]{64}", stored.data_digest):
        raise _refuse(file, "data_digest is not a SHA-256 in hexadecimal")
    return Thresholds(
        judge_identity,
        archive=_swept(file, "archive", stored.archive),
        supersede=_swept(file, "supersede", stored.supersede),
        conflict=_swept(file, "conflict", stored.conflict),
    )


def save_thresholds(file: Path, thresholds: Thresholds, *, data_digest: str) -> None:
    """Write selected thresholds; a file already there is replaced in one step.

    ``data_digest`` is the SHA-256 of the labelled data they were selected on. Raises `Misconfigured` for
    unselected thresholds, for what `load_thresholds` would refuse, and where the file cannot be written.
    """
    if not thresholds.selected:
        raise _refuse(file, "unselected values are not saved", "Starting values are a setting, not a file")
    if not re.fullmatch(r"[0-9a-f]{64}", data_digest):
        raise _refuse(file, "data_digest is not a SHA-256 in hexadecimal")
    stored = _File(
        format=FORMAT,
        judge=thresholds.judge_identity,
        archive=_swept(file, "archive", thresholds.archive),
        supersede=_swept(file, "supersede", thresholds.supersede),
        conflict=_swept(file, "conflict", thresholds.conflict),
        selected=True,
        data_digest=data_digest,
        rule=RULE,
    )
    text = json.dumps(stored.model_dump(), indent=2, ensure_ascii=False) + "\n"
    try:
        _replace(file, text.encode("utf-8"))
    except OSError as problem:
        raise _refuse(file, f"cannot be written ({problem.strerror})") from problem


def _read(file: Path) -> _File:
    try:
        with file.open("rb") as opened:
            data = opened.read(MOST_BYTES + 1)
    except OSError as problem:
        raise _refuse(file, f"cannot be read ({problem.strerror})") from problem
    if len(data) > MOST_BYTES:
        raise _refuse(file, f"is larger than {MOST_BYTES} bytes")
    try:
        fields = strict_json_object(data)
    except NotStrictJson:
        raise _refuse(file, "is not one JSON object without repeated keys") from None
    return _parse(file, fields)


def _parse(file: Path, fields: dict[str, Any]) -> _File:
    try:
        return _File.model_validate(fields)
    except ValidationError as problem:
        wrong = sorted({".".join(map(str, error["loc"])) for error in problem.errors()})
        raise _refuse(file, f"missing, unknown or mistyped: {', '.join(wrong)[:200]}") from None


def _swept(file: Path, action: str, value: float | None) -> float | None:
    """A value that selection can have produced: one of the sweep, or None for an action that proposes nothing."""
    if value is None:
        return None
    for step in SWEEP:
        if math.isclose(value, step, abs_tol=1e-9):
            return step
    raise _refuse(
        file, f"{action} is no threshold that selection gives", f"It tries {SWEEP[0]} to {SWEEP[-1]} by 0.05"
    )


def _replace(file: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(data)
            opened.flush()
            os.fsync(opened.fileno())
        Path(name).replace(file)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise


def _refuse(file: Path, problem: str, fix: str = "Select the thresholds again") -> Misconfigured:
    return Misconfigured(
        f"LETHELOG_JUDGE_THRESHOLDS: {file} {problem}. {fix}.", setting="LETHELOG_JUDGE_THRESHOLDS"
    )
