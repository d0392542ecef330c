"""Any text model of the ``fastembed`` package. Its weights are fetched from a hub on first use, then kept.

This is the one embedder that downloads, and only because it was asked for by name. Its models include multilingual
ones, which the two that ship with Lethelog are not.
"""

from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from ...domain.errors import Misconfigured, Unavailable
from . import character_hashing, windows
from .port import Embedder, Vectors, closed, listed, stacked

_MARGIN = 8
"""Tokens kept free in a window: cut out of its text, a piece may be tokenised a little differently at its ends."""


class _Encoding(Protocol):
    @property
    def ids(self) -> list[int]: ...
    @property
    def offsets(self) -> list[tuple[int, int]]: ...
    @property
    def special_tokens_mask(self) -> list[int]: ...


class _Tokenizer(Protocol):
    @property
    def truncation(self) -> dict[str, Any] | None: ...
    def encode(self, sequence: str) -> _Encoding: ...
    def token_to_id(self, token: str) -> int | None: ...


class _Model(Protocol):
    """What is used of ``fastembed.TextEmbedding``."""

    def embed(self, documents: list[str], batch_size: int) -> Iterable[NDArray[np.floating[Any]]]: ...


class FastEmbedEmbedder(Embedder):
    """A model by its name in fastembed, e.g. ``sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2``.

    A text is cut by ``windows`` where the model's own limit would cut it silently; texts are embedded one by one,
    so that padding cannot let them touch each other's last bits. A hub may replace the files of a model under the
    same name; the identity names only the minor version of fastembed, which decides how states are pooled. After
    such a replacement set ``revision`` to a new value, and stored vectors are computed anew.
    """

    def __init__(
        self,
        model: str = "BAAI/bge-small-en-v1.5",
        cache_dir: str | Path | None = None,
        threads: int | None = None,
        revision: str = "",
        model_path: str | Path | None = None,
    ) -> None:
        """Load the model, fetching it where it is not in ``cache_dir`` yet.

        Args:
            cache_dir: where fetched models are kept; fastembed's own default is a folder for temporary files.
            threads: cores one text may use; None leaves it to the runtime.
            revision: becomes part of the identity.
            model_path: a folder that holds the model's files already: nothing is fetched then.
        """
        self._model: _Model | None = _load(model, cache_dir, threads, model_path)
        self._tokenizer, self._window = _tokenizer_of(self._model, model)
        self.dimensions = len(next(iter(self._model.embed(["dimensions"], batch_size=1))))
        self._unknown = _unknown_token(self._tokenizer)
        release = ".".join(version("fastembed").split(".")[:2]) + (f"-{revision}" if revision else "")
        rules = f"{windows.RULE}-{self._window}.{character_hashing.RULE}"
        self.model = f"{model}-{self.dimensions}@fastembed-{release}+{rules}"

    def embed(self, texts: Sequence[str]) -> Vectors:
        model = self._model
        if model is None:
            raise closed(self)
        return stacked([self._vector(text, model) for text in listed(texts)], self.dimensions)

    def close(self) -> None:
        self._model = None

    def _vector(self, text: str, model: _Model) -> NDArray[np.float32]:
        encoding = self._tokenizer.encode(text)
        marks = zip(encoding.ids, encoding.offsets, encoding.special_tokens_mask, strict=True)
        tokens = [(token, span) for token, span, special in marks if not special]
        unknown = [text[start:end] for token, (start, end) in tokens if token == self._unknown]
        if len(unknown) == len(tokens):
            return character_hashing.character_vector(unknown, self.dimensions)
        frame = len(encoding.ids) - len(tokens)
        parts = self._parts(text, [start for _, (start, _) in tokens], frame)
        vectors = [next(iter(model.embed([part], batch_size=1))) for part, _ in parts]
        pooled = windows.pooled(vectors, [length for _, length in parts])
        if not np.isfinite(pooled).all():
            raise Unavailable(f"the model {self.model} gave a vector that is not finite", model=self.model)
        return character_hashing.blended(pooled, len(tokens) - len(unknown), unknown, self.dimensions)

    def _parts(self, text: str, starts: list[int], frame: int) -> list[tuple[str, int]]:
        """The text in windows that the model reads whole, each with its number of tokens.

        ``starts`` says at which character each token starts, ``frame`` how many tokens the model puts around.
        """
        if len(starts) + frame <= self._window:
            return [(text, len(starts))]
        costs = np.bincount(starts, minlength=len(text)).astype(np.int64)
        size = self._window - frame - _MARGIN
        while size > _MARGIN:
            parts = windows.slices(text, costs, size)
            if all(len(self._tokenizer.encode(part).ids) <= self._window for part, _ in parts):
                return parts
            size = size * 3 // 4
        raise Misconfigured(f"the window of {self.model}, {self._window} tokens, is too short to read with")


def _load(model: str, cache_dir: str | Path | None, threads: int | None, model_path: str | Path | None) -> _Model:
    try:
        fastembed = import_module("fastembed")
    except ImportError as missing:
        raise Misconfigured(
            f"the embedder 'fastembed' needs a package ({missing.name}): install lethelog[fastembed]"
        ) from missing
    known = {str(entry["model"]).lower() for entry in fastembed.TextEmbedding.list_supported_models()}
    if model.lower() not in known:
        raise Misconfigured(
            f"fastembed has no model {model!r}; TextEmbedding.list_supported_models() lists those it has"
        )
    options: dict[str, Any] = {} if model_path is None else {"specific_model_path": str(model_path)}
    try:
        loaded = fastembed.TextEmbedding(
            model, cache_dir=None if cache_dir is None else str(cache_dir), threads=threads, **options
        )
    except Exception as fault:  # hub client, runtime and tokenizer each raise errors of their own
        if model_path is not None:
            raise Misconfigured(
                f"model_path: {model_path} does not hold the files of {model} ({type(fault).__name__})"
            ) from fault
        raise Unavailable(
            f"the model {model} is not in the cache and cannot be fetched from its hub ({type(fault).__name__}); "
            "check the network, or give cache_dir or model_path a folder that holds it",
            model=model,
        ) from fault
    return cast("_Model", loaded)


def _tokenizer_of(model: _Model, name: str) -> tuple[_Tokenizer, int]:
    """The model's tokenizer, changed to never cut, and the number of tokens at which the model's own copy cuts."""
    own: _Tokenizer | None = getattr(getattr(model, "model", None), "tokenizer", None)
    limit = own.truncation if own is not None else None
    if own is None or limit is None:
        # Without the limit a long text would lose its end unnoticed.
        raise Misconfigured(f"the window of the fastembed model {name!r} cannot be told; choose another model")
    tokenizer = import_module("tokenizers").Tokenizer.from_str(cast("Any", own).to_str())
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer, int(limit["max_length"])


def _unknown_token(tokenizer: _Tokenizer) -> int | None:
    """The token that stands for what the vocabulary lacks; None where the tokenizer spells such words instead."""
    word: str | None = getattr(getattr(tokenizer, "model", None), "unk_token", None)
    return None if word is None else tokenizer.token_to_id(word)
