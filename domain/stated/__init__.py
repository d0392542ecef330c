"""The judge ``stated``: a rule that answers only where a text or its metadata itself states an ending.

It reads no meaning. A memory ends because a newer one names it and says so, because its metadata says so, or
because its own text names a date that has passed; everything else is kept. See `rule` for the order of these
questions and `precision` for what each way of saying it is worth.
"""

from .precision import IDENTITY, MEASURED, RULE_VERSION, THRESHOLDS
from .rule import answer_item

__all__ = ["IDENTITY", "MEASURED", "RULE_VERSION", "THRESHOLDS", "answer_item"]
