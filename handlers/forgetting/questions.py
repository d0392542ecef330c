"""From memories to what a judge is asked, and from its answers to what is put on record."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from ...domain.events import CandidateItem
from ...domain.forgetting_pass import PassState
from ...domain.judging import (
    Answer,
    DecisionRequest,
    DecisionResult,
    Item,
    JudgedMemory,
    Neighbour,
    PairItem,
    SingleItem,
    verdict_of,
)
from ...domain.memory import Memory


def question_of(item: CandidateItem, seen: Sequence[JudgedMemory]) -> Item:
    """The question of a candidate; ``seen`` is the judged memory and the newer ones, in its order."""
    if item.ref.startswith("p"):
        return PairItem(item.ref, older=seen[0], newer=seen[1], similarity=item.similarity[0])
    neighbours = tuple(
        Neighbour(f"{item.ref}n{n}", memory, similarity)
        for n, (memory, similarity) in enumerate(zip(seen[1:], item.similarity, strict=True))
    )
    return SingleItem(item.ref, memory=seen[0], newer=neighbours)


def shown_memory(memory: Memory, projects: Mapping[UUID, str]) -> JudgedMemory:
    """A memory as a judge may see it."""
    return JudgedMemory(
        memory_id=memory.id,
        state_version=memory.state_version,
        memory_type=memory.memory_type,
        scope=memory.scope,
        project=projects.get(memory.project) if memory.project else None,
        topic=memory.topic or "",
        content=memory.content or "",
        occurred_at=memory.occurred_at,
        last_touched_at=memory.fresh_at,
        trust=memory.trust,
        tags=memory.tags or (),
        expires_at=memory.expires_at,
        valid_to=memory.valid_to,
        pinned=memory.pinned,
        verified=memory.verified,
    )


def judgment_of(
    state: PassState, item: Item, answer: Answer, judge: str, result: DecisionResult
) -> dict[str, Any]:
    """What an answer to a question of this pass says: the fields of a `Judgment`."""
    verdict = verdict_of(item, answer)
    evidence = verdict.evidence
    return {
        "pass_id": state.id,
        "ref": item.ref,
        "rule": "pair" if isinstance(item, PairItem) else "single",
        "action": verdict.action,
        "memory_id": verdict.memory_id,
        "related_id": verdict.related_id,
        "judged_pair": verdict.judged_pair,
        "probability": verdict.probability,
        "probabilities": dict(verdict.probabilities),
        "judge": judge,
        "model": result.model,
        "seen": state.item(item.ref).seen,
        "evidence_memory": evidence.memory_id if evidence else None,
        "quote": evidence.quote if evidence else None,
    }


def call_of(call: UUID, request: DecisionRequest, answer: Answer, result: DecisionResult) -> dict[str, Any]:
    """What is kept of the call that an answer came by."""
    return {
        "call_id": call,
        "input_tokens": result.input_tokens,
        "output_tokens": result.output_tokens,
        "cost_usd": result.cost_usd,
        "request_id": result.request_id,
        "reply_digest": result.raw_digest,
        "state_digest": hashlib.sha256(request.state.encode()).hexdigest(),
        "raw_probabilities": dict(answer.raw_probabilities) if answer.raw_probabilities else None,
    }
