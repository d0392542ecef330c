"""What `doctor` says about the session closer."""

import pytest
from lethelog.ops.cli.checks import check_closer
from lethelog.ops.settings import Settings

SYSTEMONE = {"judge": "systemone", "judge_url": "http://127.0.0.1:1", "judge_model": "jev-1.14.0"}


@pytest.mark.parametrize(
    ("settings", "level", "says"),
    [
        ({}, "idle", "LETHELOG_SESSION_CLOSER_ENABLED is off"),
        ({"session_closer_enabled": True}, "warning", "the local rule"),
        ({"session_closer_enabled": True, "judge": "none"}, "warning", "LETHELOG_JUDGE=none"),
        ({"session_closer_enabled": True, "judge": "systemone"}, "fault", "LETHELOG_JUDGE_URL"),
        ({"session_closer_enabled": True, **SYSTEMONE}, "ok", "systemone:127.0.0.1:1:jev-1.14.0"),
    ],
)
def test_it_is_off_or_says_whom_it_asks_or_why_it_does_nothing(settings, level, says):
    found = check_closer(Settings.load(**settings))
    assert found.level == level and says in found.says
