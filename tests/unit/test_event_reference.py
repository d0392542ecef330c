"""The page of events is generated; this keeps it in step."""

from lethelog.domain.event import event_names
from lethelog.streams.event_reference import PAGE, reference


def test_the_page_of_events_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == reference(), "run: python -m lethelog.streams.event_reference"


def test_every_event_is_described_and_says_what_is_sealed():
    page = reference()
    assert [name for name in event_names() if f"\n### {name}\n" not in page] == []
    remembered = page.partition("### memory.remembered\n")[2].partition("###")[0]
    assert (
        "| `content` | string | sealed |" in remembered
        or "| `content` | string or nothing | sealed |" in remembered
    )
    assert "| `scope` | string | clear |" in remembered
