import pytest
from lethelog.domain.errors import Misconfigured
from lethelog.projections.embedders import DEFAULT_EMBEDDER, default_embedder, elsewhere, open_embedder


def test_the_default_opens_offline_and_without_a_setting() -> None:
    with open_embedder() as embedder:
        assert embedder.model.startswith(DEFAULT_EMBEDDER)


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(Misconfigured, match="wordllama, minilm, fastembed"):
        open_embedder("word2vec")


def test_an_unknown_option_is_answered_with_the_known_ones() -> None:
    with pytest.raises(Misconfigured, match="no option 'treads'; it has: model_path, threads"):
        open_embedder("minilm", treads=2)


def test_an_option_for_an_embedder_without_options_is_refused() -> None:
    with pytest.raises(Misconfigured, match="it has: none"):
        open_embedder("wordllama", dimensions=64)


def test_a_missing_option_is_named() -> None:
    with pytest.raises(Misconfigured, match="needs the option 'base_url'"):
        open_embedder("openai", model="text-embedding-3-small")


def test_it_shows_nothing_but_its_identity() -> None:
    opened = open_embedder(
        "openai", base_url="http://127.0.0.1:9/v1", model="m", dimensions=8, api_key="sk-very-secret"
    )
    with opened as embedder:
        assert repr(embedder) == f"<OpenAiEmbedder {embedder.model}>"


def test_an_identity_tells_whether_texts_were_sent_to_a_server():
    with open_embedder(
        "openai", base_url="http://127.0.0.1:9/v1", model="a-model", dimensions=8, revision="b"
    ) as server:
        assert elsewhere(server.model)
    with open_embedder(default_embedder()) as here:
        assert not elsewhere(here.model)
