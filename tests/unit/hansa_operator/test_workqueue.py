"""The queue hands out each federation once, to one worker at a time, the most overdue first."""

import asyncio
from collections.abc import Callable, Coroutine

from hansa_operator.index import Key
from hansa_operator.workqueue import LONGEST_PAUSE_SECONDS, WorkQueue

A, B = Key("silos", "a"), Key("silos", "b")


def with_a_loop(story: Callable[[WorkQueue], Coroutine[None, None, None]]) -> Callable[[], None]:
    """A test that is given a queue, and run in an event loop."""

    async def begin() -> None:
        await story(WorkQueue())

    return lambda: asyncio.run(begin())


async def taken(queue: WorkQueue, seconds: float = 0.05) -> Key | None:
    try:
        return await asyncio.wait_for(queue.get(), seconds)
    except TimeoutError:
        return None


@with_a_loop
async def test_a_key_added_twice_comes_once(queue: WorkQueue) -> None:
    queue.add(A)
    queue.add(A)
    assert await taken(queue) == A
    queue.done(A)
    assert await taken(queue) is None


@with_a_loop
async def test_a_key_that_is_worked_on_waits_until_that_is_done(queue: WorkQueue) -> None:
    queue.add(A)
    assert await taken(queue) == A
    queue.add(A)
    assert await taken(queue) is None
    queue.done(A)
    assert await taken(queue) == A


@with_a_loop
async def test_a_waiting_worker_is_woken_by_a_new_key(queue: WorkQueue) -> None:
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0.01)
    queue.add(B, 0.01)
    assert await asyncio.wait_for(waiting, 5) == B


@with_a_loop
async def test_an_earlier_moment_wins_over_a_later_one(queue: WorkQueue) -> None:
    queue.add(A, 1000)
    queue.add(A)
    queue.add(A, 1000)
    assert await taken(queue) == A


@with_a_loop
async def test_who_waits_longest_is_first(queue: WorkQueue) -> None:
    queue.add(B)
    await asyncio.sleep(0.01)
    queue.add(A)
    assert queue.overdue_seconds() > 0
    assert [await taken(queue), await taken(queue)] == [B, A]
    assert queue.overdue_seconds() == 0


@with_a_loop
async def test_a_pass_that_keeps_failing_is_tried_ever_later(
    queue: WorkQueue,
) -> None:
    pauses = [queue.failed(A) for _ in range(9)]
    assert pauses[:4] == [1, 2, 4, 8]
    assert pauses[-1] == LONGEST_PAUSE_SECONDS
    queue.succeeded(A)
    assert queue.failed(A) == 1


@with_a_loop
async def test_depth_tells_whether_a_pass_is_due(queue: WorkQueue) -> None:
    queue.add(A)
    queue.add(B, 1000)
    assert (queue.depth(A), queue.depth(B)) == (1, 0)
