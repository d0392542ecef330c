"""The bridge from threads to the event loop: each caller its own answer, interrupts go through, a closed one refuses."""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncGenerator, Generator
from concurrent.futures import ThreadPoolExecutor

import pytest
from lethelog.domain.errors import Unavailable
from lethelog.handlers.operating.background_loop import BackgroundLoop


@pytest.fixture
def loop() -> Generator[BackgroundLoop]:
    opened = BackgroundLoop()
    yield opened
    opened.close()


def test_every_thread_gets_its_own_answer_and_its_own_error(loop: BackgroundLoop):
    async def work(number: int) -> int:
        await asyncio.sleep(0)
        if number % 10 == 7:
            raise LookupError(number)
        return number

    def call(number: int) -> int | str:
        try:
            return loop.run(work(number))
        except LookupError as error:
            return f"error {error}"

    with ThreadPoolExecutor(32) as threads:
        answers = list(threads.map(call, range(400)))
    assert answers == [f"error {n}" if n % 10 == 7 else n for n in range(400)]


def test_all_work_runs_in_the_one_thread_of_the_loop(loop: BackgroundLoop):
    async def where() -> int:
        return threading.get_ident()

    with ThreadPoolExecutor(8) as threads:
        seen = set(threads.map(lambda _: loop.run(where()), range(50)))
    assert len(seen) == 1 and threading.get_ident() not in seen


def test_an_interrupt_cancels_the_work_and_reaches_the_caller(loop: BackgroundLoop):
    ended = threading.Event()

    async def work() -> None:
        try:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            await asyncio.Event().wait()
        finally:
            ended.set()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run(work())
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.wait(10)


def test_work_under_way_when_the_loop_closes_and_work_that_comes_later_are_refused():
    loop = BackgroundLoop()
    begun = threading.Event()

    async def work() -> None:
        begun.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(loop.run, work())
        assert begun.wait(10)
        loop.close()
        with pytest.raises(Unavailable, match="closed"):
            waiting.result(10)
    with pytest.raises(Unavailable, match="closed"):
        loop.run(work())


def test_work_that_comes_while_the_loop_waits_for_a_thread_to_end_is_refused():
    loop = BackgroundLoop()
    begun, go_on = threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        go_on.wait(10)

    async def never() -> None:
        await asyncio.Event().wait()

    with ThreadPoolExecutor(3) as threads:
        first = threads.submit(loop.run, asyncio.to_thread(slow))
        assert begun.wait(10)
        closing = threads.submit(loop.close)
        with pytest.raises(Unavailable, match="closed"):
            first.result(10)
        try:
            # The loop runs on until the thread has ended.
            with pytest.raises(Unavailable, match="closed"):
                threads.submit(loop.run, never()).result(5)
            assert not closing.done()
        finally:
            go_on.set()
        closing.result(10)


def test_it_is_closed_from_a_thread_in_which_another_loop_runs():
    async def notebook() -> tuple[int, bool]:
        loop = BackgroundLoop()

        async def answer() -> int:
            return 42

        found = loop.run(answer())
        loop.close()
        return found, asyncio.get_running_loop().is_running()

    assert asyncio.run(notebook()) == (42, True)


def test_generators_that_are_left_are_ended_in_their_own_loop(loop: BackgroundLoop):
    ended: list[int] = []

    async def numbers() -> AsyncGenerator[int]:
        try:
            yield 1
        finally:
            ended.append(threading.get_ident())

    async def begin() -> tuple[int, AsyncGenerator[int]]:
        coming = numbers()
        await anext(coming)
        return threading.get_ident(), coming

    own, kept = loop.run(begin())
    loop.close()
    assert ended == [own] and kept is not None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_child_is_told_and_ends_nothing_of_its_parents(loop: BackgroundLoop):
    async def answer() -> int:
        return 42

    child = os.fork()
    if child == 0:
        said = 1
        try:
            loop.run(answer())
        except Unavailable as error:
            loop.close()
            said = 0 if "forked" in str(error) else 2
        finally:
            os._exit(said)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert loop.run(answer()) == 42
