"""Every measure of the benchmark, on next to nothing: that it measures what it says, never how fast that is."""

import math
import shutil
from typing import TypeVar

import pytest
from lethelog.ops.bench.bench import Bench, Measure
from lethelog.ops.bench.measures import MEASURES
from lethelog.ops.bench.row import Row
from lethelog.ops.bench.servers import Servers
from lethelog.ops.browsing import CHROMIUM

T = TypeVar("T")


class Tiny(Bench):
    """A run of the fewest rounds, on some dozens of everything."""

    def pick(self, full: T, quick: T) -> T:
        if isinstance(quick, int):
            return min(quick, 60) if quick > 10 else 1  # type: ignore[return-value]
        return quick


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
async def test_a_measure_gives_whole_rows(measure: Measure, servers):
    if measure.name == "page" and not any(map(shutil.which, CHROMIUM)):
        pytest.skip("there is no Chromium here; Debian's package is called chromium")
    rows = await measure.run(Tiny(Servers(servers.superuser_url, servers.broker_url, None), True, lambda _: None))
    assert rows and len({row.name for row in rows}) == len(rows)
    for row in rows:
        assert_whole(row)


def assert_whole(row: Row) -> None:
    assert math.isfinite(row.figure) and row.figure >= 0, row
    assert row.says and (row.baseline is None) == (row.ratio is None), row
    assert row.baseline is None or (row.baseline > 0 and row.against), row
    assert row.target is None or row.met in (True, False), row
    assert row.spread is None or row.spread[0] <= row.spread[1], row
    assert row.as_dict()["name"] == row.name
