"""The page of settings says what the settings say."""

from pathlib import Path

from lethelog.ops.settings import Settings
from lethelog.ops.settings_reference import reference


def test_the_page_is_the_one_the_settings_give():
    page = Path(__file__).parents[2] / "docs/reference/settings.md"
    assert page.read_text() == reference(), "run: python -m lethelog.ops.settings_reference"


def test_every_setting_says_what_it_means():
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []
