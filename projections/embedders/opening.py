"""Opens an embedder by the name a setting gives it."""

from collections.abc import Callable
from importlib.util import find_spec
from inspect import signature
from typing import Any

from ...domain.errors import Misconfigured
from .port import Embedder

DEFAULT_EMBEDDER = "wordllama"
_WITHOUT_IT = "minilm"

_KNOWN = ("wordllama", "minilm", "fastembed[:MODEL]", "openai")


def default_embedder() -> str:
    """The embedder used where no setting names one: ``wordllama``, or ``minilm`` on a Python for which the former
    has no wheel. A data directory keeps its model either way: another one is refused until a rebuild."""
    return DEFAULT_EMBEDDER if find_spec("wordllama") is not None else _WITHOUT_IT


def open_embedder(name: str = DEFAULT_EMBEDDER, **options: Any) -> Embedder:
    """The embedder called ``name``, loaded and ready; the caller closes it.

    ============================  ===============================================  ==============================
    name                          options                                          needs
    ============================  ===============================================  ==============================
    ``wordllama`` (default)       –                                                –
    ``minilm``                    model_path, threads                              ``lethelog[minilm]``
    ``fastembed[:MODEL]``         cache_dir, threads, revision                     ``lethelog[fastembed]``, and a
                                                                                   download on first use
    ``openai``                    base_url, model, api_key, dimensions, …          a server (``OpenAiEmbedder``)
    ============================  ===============================================  ==============================

    Raises:
        Misconfigured: no such name, an option it does not have, or a package or file it needs is missing.
        Unavailable: a model has to be fetched and the hub does not answer.
    """
    kind, _, model = name.partition(":")
    if kind == "fastembed":
        from .fastembed import FastEmbedEmbedder

        if model:
            options = {"model": model, **options}
        return _opened(FastEmbedEmbedder, name, options)
    if name == "wordllama":
        from .wordllama import WordLlamaEmbedder

        return _opened(WordLlamaEmbedder, name, options)
    if name == "minilm":
        from .minilm import MiniLmEmbedder

        return _opened(MiniLmEmbedder, name, options)
    if name == "openai":
        from .openai import OpenAiEmbedder

        return _opened(OpenAiEmbedder, name, options)
    raise Misconfigured(f"there is no embedder {name!r}; known are {', '.join(_KNOWN)}")


def _opened(make: Callable[..., Embedder], name: str, options: dict[str, Any]) -> Embedder:
    known = signature(make).parameters
    for option in options:
        if option not in known:
            listed = ", ".join(known) or "none"
            raise Misconfigured(f"the embedder {name!r} has no option {option!r}; it has: {listed}")
    for option, parameter in known.items():
        if parameter.default is parameter.empty and option not in options:
            raise Misconfigured(f"the embedder {name!r} needs the option {option!r}")
    return make(**options)
