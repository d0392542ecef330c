"""What a configuration of mem0 says here: its model for ``infer=True``. Vectors and history are Lethelog's."""

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from pydantic import SecretStr

from ...domain.errors import Misconfigured
from .fact_model import FactModel, FactModelSettings

_ELSEWHERE = frozenset({"vector_store", "embedder", "history_db_path", "reranker", "graph_store", "version"})
_ADDRESSES = ("base_url", "openai_base_url", "lmstudio_base_url", "vllm_base_url")
_OPENAI = "openai"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Mem0Settings:
    """What was taken from a configuration."""

    llm: Mapping[str, Any] | None = None
    instructions: str | None = None
    lethelog: Mapping[str, Any] | None = None
    """Settings of `Memory.local`."""

    def model(self) -> FactModel | None:
        """The model, or None where none is configured. Raises `Misconfigured`."""
        return None if self.llm is None else fact_model(self.llm)


def read_config(config: object) -> Mem0Settings:
    """The settings in a configuration of mem0. Raises `Misconfigured` for what is none."""
    said = _object(config, "the configuration")
    unknown = sorted(set(said) - _ELSEWHERE - {"llm", "custom_instructions", "lethelog"})
    if unknown:
        raise Misconfigured(f"{unknown[0]} is no part of a configuration here", setting=unknown[0])
    for name in sorted(_ELSEWHERE & set(said)):
        logger.warning("the configuration's %s is not used: Lethelog keeps vectors and history itself", name)
    llm = said.get("llm")
    instructions = said.get("custom_instructions")
    if instructions is not None and not isinstance(instructions, str):
        raise Misconfigured("custom_instructions must be text", setting="custom_instructions")
    own = said.get("lethelog")
    return Mem0Settings(
        llm=None if llm is None else _llm(_object(llm, "llm")),
        instructions=instructions,
        lethelog=None if own is None else _object(own, "lethelog"),
    )


def fact_model(llm: Mapping[str, Any]) -> FactModel:
    """The model of ``llm={'model': …, 'base_url': …, 'api_key': …}``. Raises `Misconfigured`."""
    said = _object(llm, "llm")
    unknown = sorted(set(said) - {"model", "base_url", "api_key", "timeout"})
    if unknown:
        raise Misconfigured(f"llm: {unknown[0]} is unknown; give model, base_url, api_key, timeout", setting="llm")
    fields = {name: one for name, one in said.items() if one is not None}
    if not isinstance(fields.get("model"), str):
        raise Misconfigured("llm: model is missing; give the id of a model", setting="llm")
    if "api_key" in fields:
        fields["api_key"] = SecretStr(str(fields["api_key"]))
    return FactModel(FactModelSettings(**fields))


def _llm(said: Mapping[str, Any]) -> dict[str, Any]:
    """mem0's ``{"provider": …, "config": {…}}`` as an endpoint."""
    provider, config = said.get("provider", _OPENAI), _object(said.get("config") or {}, "llm.config")
    address = next((config[name] for name in _ADDRESSES if config.get(name)), None)
    if provider != _OPENAI and address is None:
        raise Misconfigured(
            f"llm: of {provider} only an address in OpenAI's format can be asked; give config.openai_base_url",
            setting="llm",
        )
    found = {"model": config.get("model"), "base_url": address, "api_key": config.get("api_key")}
    if provider == _OPENAI and found["api_key"] is None:
        found["api_key"] = os.environ.get("OPENAI_API_KEY")
    return found


def _object(value: object, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise Misconfigured(f"{name} must be a dict", setting=name)
    return cast("Mapping[str, Any]", value)
