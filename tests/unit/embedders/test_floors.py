import pytest
from lethelog.projections.embedders import floor_for, open_embedder


def test_the_default_embedder_has_a_measured_floor() -> None:
    with open_embedder() as embedder:
        assert 0.2 < floor_for(embedder.model) < 0.6


@pytest.mark.parametrize("model", ["", "unknown-100@1+rule", "wordllama-l2-supercat-256@0.4.0+mean2.chars1"])
def test_a_model_that_was_not_measured_leaves_all_to_rank(model: str) -> None:
    assert floor_for(model) == 0.0


def test_the_floor_of_the_source_belongs_to_its_model_at_any_width() -> None:
    assert floor_for("text-embedding-3-large-1536@openai+windows1-bytes8000.chars1") == 0.82
    assert floor_for("text-embedding-3-large-3072@openai-b+windows1-bytes8000.chars1") == 0.82
    assert floor_for("text-embedding-3-small-1536@openai+windows1-bytes8000.chars1") == 0.0
