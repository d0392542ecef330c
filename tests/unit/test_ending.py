"""Work that is cancelled once ends, whatever its libraries make of it."""

import asyncio

import pytest
from lethelog.streams import ending


async def test_one_cancellation_ends_work_that_drops_it(monkeypatch: pytest.MonkeyPatch):
    """As `asyncio.wait_for` does before Python 3.12, where it comes as its own wait is over."""
    monkeypatch.setattr(ending, "_AGAIN_SECONDS", 0.01)
    begun, dropped = asyncio.Event(), asyncio.Event()

    async def stubborn() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            dropped.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(ending.until_cancelled(stubborn()))
    await begun.wait()
    running.cancel()
    async with asyncio.timeout(20):
        with pytest.raises(asyncio.CancelledError):
            await running
    assert dropped.is_set()


async def test_what_ends_by_itself_gives_its_answer_or_its_error():
    async def answers(number: int) -> int:
        if not number:
            raise LookupError("nothing")
        return number

    assert await ending.until_cancelled(answers(3)) == 3
    with pytest.raises(LookupError, match="nothing"):
        await ending.until_cancelled(answers(0))
