"""The static word vectors of the ``wordllama`` wheel: a look-up per token, then a mean. No network, no torch.

Only the data of the wheel is used, read as files. Its code is never imported: that would configure the root
logger, load a download client, and pad every text to the longest of its batch.

The model was trained on English. It knows common words of other European languages a little and Chinese, Japanese
and Korean by single characters; scripts outside its vocabulary it compares by spelling (``character_hashing``).
Take another model for memories that are not in English.
"""

import hashlib
import unicodedata
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...domain.errors import Misconfigured
from . import character_hashing
from .port import Embedder, Vectors, closed, listed, stacked

_RULE = "mean1"
"""Version of the pooling rule in ``WordLlamaEmbedder``."""
_RELEASES = {"461d9f72": "0.4.0"}
"""Digest of weights and tokenizer → the release they came with, for an identity that can be read."""

_FIRST_BYTE = 3
"""Token of the byte 0x00. Bytes from 0x80 on spell characters outside the vocabulary; those below are ASCII."""
_WORD_MARK = "▁"


class WordLlamaEmbedder(Embedder):
    """256 dimensions; well under a millisecond a sentence.

    Pooling rule mean1: the text is brought to Unicode NFC and stripped; its vector is the mean of its tokens'
    vectors, all of them, so no text is too long. Characters outside the vocabulary do not enter the mean, where
    the meaningless vectors of single bytes would pull it; ``character_hashing`` blends them in.
    """

    quick = True

    def __init__(self) -> None:
        folder = _folder()
        weights = folder / "weights" / "l2_supercat_256.safetensors"
        tokenizer = folder / "tokenizers" / "l2_supercat_tokenizer_config.json"
        if not (weights.is_file() and tokenizer.is_file()):
            raise Misconfigured("the installed wordllama lacks its weights; install wordllama==0.4.0.post1")
        from tokenizers import Tokenizer

        table: NDArray[np.float16] = import_module("safetensors.numpy").load_file(weights)["embedding.weight"]
        self._table: NDArray[np.float16] | None = table
        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._word_mark = self._tokenizer.token_to_id(_WORD_MARK)
        self.dimensions = int(table.shape[1])
        self.model = (
            f"wordllama-l2-supercat-{self.dimensions}@{_release(weights, tokenizer)}"
            f"+{_RULE}.{character_hashing.RULE}"
        )

    def embed(self, texts: Sequence[str]) -> Vectors:
        table = self._table
        if table is None:
            raise closed(self)
        return stacked([self._vector(text, table) for text in listed(texts)], self.dimensions)

    def close(self) -> None:
        self._table = None

    def _vector(self, text: str, table: NDArray[np.float16]) -> NDArray[np.float32]:
        text = unicodedata.normalize("NFC", text).strip()
        ids = np.array(self._tokenizer.encode(text, add_special_tokens=False).ids, dtype=np.int64)
        spelled = (ids >= _FIRST_BYTE + 0x80) & (ids < _FIRST_BYTE + 0x100)
        known = ids[~spelled]
        # Marks that stand alone are what is left between unknown words: they say nothing about the text.
        tokens = int((known != self._word_mark).sum())
        total = table[known].sum(axis=0, dtype=np.float64)
        return character_hashing.blended(total, tokens, _words(ids, spelled), self.dimensions)


def _words(ids: NDArray[np.int64], spelled: NDArray[np.bool_]) -> list[str]:
    """The runs of characters that the tokenizer could only spell in bytes."""
    words: list[str] = []
    for is_spelled, run in groupby(zip(spelled.tolist(), ids.tolist(), strict=True), key=itemgetter(0)):
        if is_spelled:
            spelling = bytes(token - _FIRST_BYTE for _, token in run)
            words.append(spelling.decode("utf-8", errors="replace"))
    return words


def _folder() -> Path:
    found = find_spec("wordllama")
    if found is None or found.origin is None:
        raise Misconfigured("the embedder 'wordllama' needs the package wordllama==0.4.0.post1: install it")
    return Path(found.origin).parent


def _release(*files: Path) -> str:
    """Which weights these are: their release if known, else their digest, so that new ones get a new name."""
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    short = digest.hexdigest()[:8]
    return _RELEASES.get(short, f"sha256-{short}")
