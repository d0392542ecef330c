import logging
import subprocess
import sys
import unicodedata
from collections.abc import Iterator

import pytest
from lethelog.domain.errors import Misconfigured
from lethelog.projections.embedders import Embedder, open_embedder, wordllama

from .embedder_contract import EmbedderContract, MeaningContract


@pytest.fixture(scope="module")
def embedder() -> Iterator[Embedder]:
    with open_embedder("wordllama") as opened:
        yield opened


@pytest.fixture
def fresh() -> Embedder:
    return open_embedder("wordllama")


class TestWordLlama(EmbedderContract, MeaningContract):
    pass


def test_its_identity_is_the_one_vectors_are_stored_under(embedder: Embedder) -> None:
    assert embedder.model == "wordllama-l2-supercat-256@0.4.0+mean1.chars1"
    assert embedder.dimensions == 256


def test_composed_and_decomposed_letters_are_the_same_text(embedder: Embedder) -> None:
    composed = "déjà vu à Zürich"
    vectors = embedder.embed([composed, unicodedata.normalize("NFD", composed), f"  {composed}\n"])
    assert (vectors == vectors[0]).all()


def test_a_text_of_a_quarter_of_a_million_characters_is_one_vector(embedder: Embedder) -> None:
    assert embedder.embed(["lorem ipsum " * 21_845]).shape == (1, 256)


def test_opening_it_runs_no_code_of_the_wheel_and_leaves_logging_alone() -> None:
    script = (
        "import logging, sys\n"
        "from lethelog.projections.embedders import open_embedder\n"
        "open_embedder().embed(['text'])\n"
        "assert not logging.getLogger().handlers\n"
        "assert not {'wordllama', 'requests', 'onnxruntime', 'httpx2'} & set(sys.modules), 'imported too much'\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_importing_the_port_loads_no_model_runtime() -> None:
    script = (
        "import sys\n"
        "import lethelog.projections.embedders\n"
        "heavy = {'tokenizers', 'safetensors', 'onnxruntime', 'fastembed', 'httpx2'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_a_missing_package_is_named_with_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wordllama, "find_spec", lambda name: None)
    with pytest.raises(Misconfigured, match=r"wordllama==0\.4\.0\.post1"):
        open_embedder("wordllama")


def test_other_weights_get_another_identity(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wordllama, "_RELEASES", {})
    with open_embedder("wordllama") as other:
        assert other.model.startswith("wordllama-l2-supercat-256@sha256-")


def test_no_text_reaches_the_log(embedder: Embedder, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        embedder.embed(["a secret about Ms Vantongeren"])
    assert "Vantongeren" not in caplog.text
