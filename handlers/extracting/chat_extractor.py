"""A chat model behind an OpenAI-compatible endpoint, as a `FactExtractor`."""

import hashlib
import logging

from ...domain.errors import ExtractorRejected
from ...domain.extraction import EXTRACTOR, Extraction, ExtractionRequest
from ..judges.transport import Transport
from .chat import ChatReply, decode_reply, encode_request
from .settings import ExtractorSettings

DIGEST_LENGTH = 8
_SAMPLE = ExtractionRequest(texts=(), state="")

logger = logging.getLogger(__name__)


class ChatExtractor:
    """Asks OpenAI, OpenRouter, llama.cpp, Ollama, vLLM or any other server of that format."""

    def __init__(self, settings: ExtractorSettings, *, transport: Transport | None = None) -> None:
        self._settings = settings
        self._transport = transport or Transport(settings)
        self._identity = identity_of(settings)

    @property
    def identity(self) -> str:
        """E.g. ``extractor:api.openai.com:gpt-4.1-mini:1a2b3c4d``; see `identity_of`."""
        return self._identity

    async def extract(self, request: ExtractionRequest) -> Extraction:
        """One call to the server. A reply with status 200 that is no answer raises nothing: it was billed.

        Raises `ExtractorUnavailable` or `ExtractorRejected`.
        """
        received = await self._transport.post(self._encode(request))
        reply = ChatReply("malformed") if received.too_large else decode_reply(received.body, request.texts)
        dropped = dict(reply.taken.dropped)
        logger.info(
            "extractor replied: %s, facts %d, dropped %s, tokens %d/%d, attempts %d",
            reply.outcome,
            len(reply.taken.facts),
            dropped,
            reply.input_tokens,
            reply.output_tokens,
            received.attempts,
        )
        return Extraction(
            outcome=reply.outcome,
            # A reply that names no model came from the one that was asked for, as far as anybody knows.
            model=self._settings.model if reply.model is None else reply.model,
            taken=reply.taken,
            input_tokens=reply.input_tokens,
            output_tokens=reply.output_tokens,
            cost_usd=reply.cost_usd,
            request_id=received.request_id or reply.request_id,
        )

    async def close(self) -> None:
        await self._transport.close()

    def _encode(self, request: ExtractionRequest) -> bytes:
        try:
            return encode_request(request, model=self._settings.model, extra_body=self._settings.extra_body)
        except UnicodeEncodeError:
            pass
        # Raised here, outside the handler: the encoder's error holds the text.
        raise ExtractorRejected("The text holds a lone surrogate, which no request can carry.")


def identity_of(settings: ExtractorSettings) -> str:
    """Host, model, and a digest of everything else that is sent beside the text, and of where to."""
    body = encode_request(_SAMPLE, model=settings.model, extra_body=settings.extra_body)
    digest = hashlib.sha256(body + b"\n" + settings.url.encode()).hexdigest()[:DIGEST_LENGTH]
    return f"{EXTRACTOR}{settings.host}:{settings.model}:{digest}"
