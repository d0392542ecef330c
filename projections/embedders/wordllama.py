"""The static word vectors of the ``wordllama`` wheel: a table look-up per token, then a mean. No network, no torch.

Only the data of the wheel is used, read as files. Its code is never imported: that would configure the root logger,
load the modules of a download client, and pad every text to the longest of its batch.

The model was trained on English. It knows the common words of other European languages a little; Chinese, Japanese
and Korean by single characters; everything else by spelling (see ``character_hashing``). Use another model for memories
that are not in English.
"""

import hashlib
import unicodedata
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...domain.errors import Misconfigured
from .character_hashing import RULE as UNKNOWN_RULE
from .character_hashing import blended
from .port import Embedder, Vectors, checked, closed

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_NAME = "wordllama-l2-supercat-256"
_VERSIONS = {"18a3ad07": "0.4.0"}
"""Digest of weights and tokenizer → the release they came with, for a readable identity."""
_RULE = "mean1"
"""Version of the pooling rule in ``WordLlamaEmbedder``; it and the unknown-text rule are part of ``model``."""

_FIRST_BYTE = 3
"""Token id of byte 0x00. Bytes from 0x80 on stand for characters outside the vocabulary; those below are ASCII."""
_UNKNOWN = (_FIRST_BYTE + 0x80, _FIRST_BYTE + 0x100)


class WordLlamaEmbedder(Embedder):
    """256 dimensions, about 0.1 ms a sentence.

    Pooling rule mean1: the text is brought to Unicode NFC and stripped; its vector is the mean of its tokens' vectors,
    all of them, so that no length is too long. Runs of characters outside the vocabulary do not enter the mean, which
    they would pull to the meaningless vectors of single bytes, but are blended in by ``character_hashing``.
    """

    def __init__(self) -> None:
        folder = _folder()
        weights = folder / "weights" / "l2_supercat_256.safetensors"
        tokenizer = folder / "tokenizers" / "l2_supercat_tokenizer_config.json"
        if not (weights.is_file() and tokenizer.is_file()):
            raise Misconfigured(
                "the installed wordllama has not the expected weights; install wordllama==0.4.0.post1"
            )
        from safetensors import safe_open
        from tokenizers import Tokenizer

        with safe_open(weights, framework="numpy") as file:
            self._table: NDArray[np.float16] | None = file.get_tensor("embedding.weight")
        self._tokenizer: Tokenizer = Tokenizer.from_file(str(tokenizer))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        assert self._table is not None
        self.dimensions = int(self._table.shape[1])
        self.model = f"{_NAME}@{_version(weights, tokenizer)}+{_RULE}.{UNKNOWN_RULE}"

    def embed(self, texts: Sequence[str]) -> Vectors:
        table = self._table
        if table is None:
            raise closed(self)
        rows = [self._vector(text, table) for text in checked(texts)]
        return np.stack(rows) if rows else np.empty((0, self.dimensions), dtype=np.float32)

    def close(self) -> None:
        self._table = None

    def _vector(self, text: str, table: NDArray[np.float16]) -> NDArray[np.float32]:
        text = unicodedata.normalize("NFC", text).strip()
        ids = np.array(self._tokenizer.encode(text, add_special_tokens=False).ids, dtype=np.int64)
        is_byte = (ids >= _UNKNOWN[0]) & (ids < _UNKNOWN[1])
        known = ids[~is_byte] if is_byte.any() else ids
        total = table[known].sum(axis=0, dtype=np.float64)
        # Without its unknown characters a text may be left with the word marks between them alone: those say nothing.
        tokens = sum(1 for token in known if self._tokenizer.id_to_token(int(token)) != "▁")
        return blended(total, tokens, _unknown_words(ids, is_byte), self.dimensions)


def _unknown_words(ids: NDArray[np.int64], is_byte: NDArray[np.bool_]) -> list[str]:
    """The runs of characters that the tokenizer could only spell out in bytes."""
    words: list[str] = []
    run = bytearray()
    for token, byte in zip(ids, is_byte, strict=True):
        if byte:
            run.append(int(token) - _FIRST_BYTE)
        elif run:
            words.append(run.decode("utf-8", errors="replace"))
            run.clear()
    if run:
        words.append(run.decode("utf-8", errors="replace"))
    return words


def _folder() -> Path:
    found = find_spec("wordllama")
    if found is None or found.origin is None:
        raise Misconfigured("the embedder 'wordllama' needs the package wordllama, which is not installed")
    return Path(found.origin).parent


def _version(*files: Path) -> str:
    """Which weights these are: the release if they are known, else their digest, so that new ones get a new name."""
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    short = digest.hexdigest()[:8]
    return _VERSIONS.get(short, f"sha256-{short}")
