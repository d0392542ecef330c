"""Where the extractor is reached, checked once, at start; every problem names its ``LETHELOG_EXTRACTOR_*``
setting."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from ...domain.errors import ExtractorRejected, ExtractorUnavailable, LethelogError
from ..judges.endpoint import Endpoint

DEFAULT_PATH = "/chat/completions"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractorSettings(Endpoint):
    """A chat endpoint in OpenAI's format that can answer by a JSON schema. Raises `Misconfigured`."""

    NOUN: ClassVar[str] = "extractor"
    PREFIX: ClassVar[str] = "LETHELOG_EXTRACTOR"
    EXAMPLE: ClassVar[str] = "https://api.openai.com/v1"
    EXAMPLE_MODEL: ClassVar[str] = "gpt-4.1-mini"
    USUAL_PATH: ClassVar[str] = DEFAULT_PATH
    KEYED_HOSTS: ClassVar[tuple[str, ...]] = ("api.openai.com", "openrouter.ai")
    OWN_BODY_FIELDS: ClassVar[tuple[str, ...]] = ("model", "messages", "response_format", "stream")
    UNAVAILABLE: ClassVar[type[LethelogError]] = ExtractorUnavailable
    REJECTED: ClassVar[type[LethelogError]] = ExtractorRejected
    AFTERWARDS: ClassVar[str] = "Nothing was proposed; the text is put before it again later."
    FIXES: ClassVar[Mapping[int, str]] = MappingProxyType(
        {
            400: "Check that the model can answer by a JSON schema, and LETHELOG_EXTRACTOR_EXTRA_BODY.",
            413: "The server takes no text of this length.",
        }
    )

    path: str = DEFAULT_PATH
    timeout: float = 60.0
    deadline: float = 120.0
