"""A decision model behind a System One endpoint, as a `Judge` (judges.md 4.3)."""

import hashlib
import logging
from collections import Counter
from collections.abc import Sequence

from ...domain.closing import ResolutionRequest
from ...domain.judging import (
    Answer,
    AnyRequest,
    DecisionRequest,
    DecisionResult,
    JudgeLimits,
    JudgeRejected,
    NoVerdict,
)
from .systemone import (
    Question,
    Reply,
    decode_reply,
    encode_request,
    no_verdicts,
    questions_of,
    shown_model,
)
from .systemone_identity import identity_of
from .systemone_settings import SystemOneSettings, is_unpinned
from .transport import Transport

logger = logging.getLogger(__name__)


class SystemOneJudge:
    """Asks TypeSafe, OpenRouter, llama.cpp, Ollama or any other server of the System One format.

    Every call leaves the process and may cost money, so it is always metered.
    """

    def __init__(self, settings: SystemOneSettings, *, transport: Transport | None = None) -> None:
        self._settings = settings
        self._transport = transport or Transport(settings)
        self._identity = identity_of(settings)
        self._first_model: str | None = None

    @property
    def name(self) -> str:
        return "systemone"

    @property
    def identity(self) -> str:
        """E.g. ``systemone:api.typesafe.ai:jev-1.14.0:p2:1a2b3c4d``; see `identity_of`."""
        return self._identity

    @property
    def metered(self) -> bool:
        return True

    @property
    def unavailable_because(self) -> str | None:
        return None

    @property
    def limits(self) -> JudgeLimits:
        """``max_questions`` counts items here, since each is asked once per order."""
        return JudgeLimits(
            max_state_chars=self._settings.max_state_chars, max_questions=self._settings.items_per_call
        )

    @property
    def closes_nothing_because(self) -> str | None:
        return None

    async def decide(self, request: DecisionRequest) -> DecisionResult:
        """One call to the server; see `_ask`."""
        return await self._ask(request)

    async def decide_resolution(self, request: ResolutionRequest) -> DecisionResult:
        """The same about commitments."""
        return await self._ask(request)

    async def close(self) -> None:
        await self._transport.close()

    async def _ask(self, request: AnyRequest) -> DecisionResult:
        """One call to the server for all items of the request.

        An item that offers a single key is not asked: no reply could change its verdict, so its text would
        leave the machine for nothing. A reply with status 200 that is no strict JSON answers no item and
        raises nothing.

        Raises `JudgeUnavailable` or `JudgeRejected`; the latter also when the request passes this judge's
        limits, and when another model answered than the pinned one.
        """
        self._check_limits(request)
        answers: dict[str, Answer | NoVerdict] = {}
        asked = [item for item in request.items if len(item.options) > 1]
        for item in request.items:
            if len(item.options) == 1:
                (only,) = item.options
                answers[item.ref] = Answer(only, {only: 1.0})
        if not asked:
            return DecisionResult(answers, model=self._settings.model, attempts=0)
        questions = questions_of(asked, permute=self._settings.permute)
        received = await self._transport.post(self._encode(request, questions))
        if received.too_large:
            reply = Reply(no_verdicts(asked, "reply_too_large"))
        else:
            reply = decode_reply(received.body, asked, questions)
        if reply.model is not None:
            self._check_model(reply.model)
        answers.update(reply.answers)
        _log(reply, received.attempts)
        return DecisionResult(
            answers={item.ref: answers[item.ref] for item in request.items},
            # A reply that names no model gave no answer, so the pinned id claims nothing.
            model=self._settings.model if reply.model is None else shown_model(reply.model),
            input_tokens=reply.input_tokens,
            output_tokens=reply.output_tokens,
            cost_usd=reply.cost_usd,
            request_id=received.request_id or reply.request_id,
            attempts=received.attempts,
            raw_digest=None if received.too_large else hashlib.sha256(received.body).hexdigest(),
        )

    def _check_limits(self, request: AnyRequest) -> None:
        limits = self.limits
        if len(request.items) > limits.max_questions:
            raise JudgeRejected(
                f"The request holds {len(request.items)} items, this judge is set to {limits.max_questions} per "
                "call. Split it, or raise LETHELOG_JUDGE_ITEMS_PER_CALL, which makes another identity.",
                items=len(request.items),
            )
        if len(request.state) > limits.max_state_chars:
            raise JudgeRejected(
                f"The rendered state has {len(request.state)} characters, the most is {limits.max_state_chars}. "
                "Split the batch; nothing is cut here.",
                state_chars=len(request.state),
            )

    def _encode(self, request: AnyRequest, questions: Sequence[Question]) -> bytes:
        problem = False
        body = b""
        try:
            body = encode_request(
                request, questions, model=self._settings.model, extra_body=self._settings.extra_body
            )
        except UnicodeEncodeError:
            problem = True
        if problem:  # Raised here, outside the handler: the encoder's error holds the state.
            raise JudgeRejected("The rendered state holds a lone surrogate, which no request can carry.")
        return body

    def _check_model(self, answered: str) -> None:
        """Refuse answers of another model than the pinned one (judges.md 4.4, model drift).

        The answering id must equal the pinned one or one of ``answers_as``, character by character. With an
        unpinned id and no ``answers_as``, it must equal the first id that answered this judge.
        """
        settings = self._settings
        accepted = {settings.model, *settings.answers_as}
        if is_unpinned(settings.model) and not settings.answers_as:
            self._first_model = self._first_model or answered
            accepted = {self._first_model}
        if answered in accepted:
            return
        expected = " or ".join(shown_model(name) for name in sorted(accepted))
        raise JudgeRejected(
            f"The judge answered as {shown_model(answered)}, expected was {expected}; the answers were dropped. "
            "If it is the same model under another name, add that name to LETHELOG_JUDGE_ANSWERS_AS.",
            expected=expected,
            answered=shown_model(answered),
        )


def _log(reply: Reply, attempts: int) -> None:
    """Counts and reason codes only; never state, answers or key."""
    refused = Counter(a.reason for a in reply.answers.values() if isinstance(a, NoVerdict))
    logger.info(
        "judge replied: items %d, without verdict %s, extra answers %d, tokens %d/%d, attempts %d",
        len(reply.answers),
        dict(refused),
        reply.extra_answers,
        reply.input_tokens,
        reply.output_tokens,
        attempts,
    )
