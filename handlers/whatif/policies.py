"""Recorded passes under another policy: as far as what was asked allows it, and what it does not."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID

from ...domain.errors import InvalidInput
from ...domain.events import CandidateItem
from ...domain.fields import parse
from ...domain.memory import evolve
from ...domain.policy import ForgettingPolicy
from ...domain.whatif import Asked
from ...streams.folding import fold_states
from ..engine import Engine
from .recorded import RecordedPass

REPLAYED = ("singles_cap", "pairs_cap", "floor", "stale_window_days")
_WHY_NOT = {
    "pair_neighbours": "the place of a newer memory among the nearest is not on record",
    "items_per_call": "what a judge says to several questions at once is not on record; try it with a judge",
}
STREAMS_AT_ONCE = 200
_LONG_AGO = datetime(1, 1, 1, tzinfo=UTC)


def read_changes(changes: object) -> dict[str, Any]:
    """The changed fields of a policy. Raises `InvalidInput`."""
    if not isinstance(changes, Mapping) or not changes:
        raise InvalidInput("policy", "must be settings and their values", "For example {'pairs_cap': 20}")
    given = dict(cast(Mapping[str, Any], changes))
    try:
        policy = parse(ForgettingPolicy, given)
    except InvalidInput as error:
        raise InvalidInput("policy", f"{error.field} {error.problem}") from None
    return {name: getattr(policy, name) for name in given}


class UnderPolicy:
    """Which recorded questions would have been asked under a policy with some fields changed."""

    def __init__(self, engine: Engine, tenant: UUID, changes: Mapping[str, Any]) -> None:
        self._engine = engine
        self._tenant = tenant
        self._changes = changes
        self._missing: Counter[str] = Counter()

    async def kept(self, passes: Sequence[RecordedPass]) -> list[Asked]:
        """Their verdicts that there would have been."""
        found: list[Asked] = []
        for one in passes:
            fresh = await self._freshness(one) if "stale_window_days" in self._changes else {}
            refs = [item.ref for item in (*self._pairs(one), *self._singles(one, fresh))]
            found += [one.asked[ref] for ref in refs if ref in one.asked]
        return found

    def not_replayed(self) -> Iterator[str]:
        """What the record does not allow to say, each in a sentence."""
        for name, why in _WHY_NOT.items():
            if name in self._changes:
                yield f"{name}: {why}"
        for name in sorted(self._changes.keys() - _WHY_NOT.keys() - set(REPLAYED)):
            yield f"{name}: does not decide what a pass asks"
        for what, count in sorted(self._missing.items()):
            yield f"{what}, in {count} of the passes"

    def _pairs(self, one: RecordedPass) -> list[CandidateItem]:
        assert one.state.settings is not None
        frozen = one.state.settings
        # A floor of None is the one selected for the model, which the pass began under where it had none either.
        stated = self._changes.get("floor")
        floor = frozen.floor if stated is None else stated
        cap = self._changes.get("pairs_cap", frozen.pairs_cap)
        all_of_them = [item for item in one.state.items if item.ref.startswith("p")]
        kept = [item for item in all_of_them if item.similarity[0] >= floor][:cap]
        if floor < frozen.floor:
            self._missing["floor: pairs below the recorded one were never asked about"] += 1
        if cap > len(all_of_them) and one.state.counts.get("pairs", 0) > len(all_of_them):
            self._missing["pairs_cap: further pairs qualified and were never asked about"] += 1
        if len(kept) < len(all_of_them):
            self._missing["memories of pairs that fall out might have been asked about on their own"] += 1
        return kept

    def _singles(self, one: RecordedPass, fresh: Mapping[UUID, datetime]) -> list[CandidateItem]:
        assert one.state.settings is not None
        frozen = one.state.settings
        cap = self._changes.get("singles_cap", frozen.singles_cap)
        window = self._changes.get("stale_window_days", one.policy.stale_window_days)
        stale_before = one.now - timedelta(days=window)
        all_of_them = [item for item in one.state.items if item.ref.startswith("s")]
        # Where the window is the recorded one, no freshness is looked up: they were stale.
        kept = [item for item in all_of_them if fresh.get(item.memory_id, _LONG_AGO) < stale_before]
        if stale_before > frozen.stale_before:
            self._missing[
                "stale_window_days: memories fresher than the recorded window were never asked about"
            ] += 1
        if cap > len(all_of_them) and one.state.counts.get("stale_singles", 0) > len(all_of_them):
            self._missing["singles_cap: further memories were stale and never asked about on their own"] += 1
        return kept[:cap]

    async def _freshness(self, one: RecordedPass) -> dict[UUID, datetime]:
        """When the single memories of a pass had last been touched, as it saw them."""
        ids = [item.memory_id for item in one.state.items if item.ref.startswith("s")]
        found: dict[UUID, datetime] = {}
        for start in range(0, len(ids), STREAMS_AT_ONCE):
            streams = await self._engine.log.read_streams(self._tenant, ids[start : start + STREAMS_AT_ONCE])
            for memory_id, recorded in streams.items():
                then = [event for event in recorded if event.recorded_at <= one.selected_at]
                for _, state in fold_states(then, evolve):
                    found[memory_id] = state.fresh_at
        return found
