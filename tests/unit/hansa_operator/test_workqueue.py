"""The queue hands out each federation once, to one worker at a time, the most overdue first."""

import asyncio

from hansa_operator.index import Key
from hansa_operator.workqueue import LONGEST_PAUSE_SECONDS, WorkQueue

A, B = Key("silos", "a"), Key("silos", "b")


async def taken(queue: WorkQueue, seconds: float = 0.05) -> Key | None:
    try:
        return await asyncio.wait_for(queue.get(), seconds)
    except TimeoutError:
        return None


def test_a_key_added_twice_comes_once() -> None:
    async def story() -> None:
        queue = WorkQueue()
        queue.add(A)
        queue.add(A)
        assert await taken(queue) == A
        queue.done(A)
        assert await taken(queue) is None

    asyncio.run(story())


def test_a_key_that_is_worked_on_waits_until_that_is_done() -> None:
    async def story() -> None:
        queue = WorkQueue()
        queue.add(A)
        assert await taken(queue) == A
        queue.add(A)
        assert await taken(queue) is None
        queue.done(A)
        assert await taken(queue) == A

    asyncio.run(story())


def test_a_waiting_worker_is_woken_by_a_new_key() -> None:
    async def story() -> None:
        queue = WorkQueue()
        waiting = asyncio.create_task(queue.get())
        await asyncio.sleep(0.01)
        queue.add(B, 0.01)
        assert await asyncio.wait_for(waiting, 5) == B

    asyncio.run(story())


def test_an_earlier_moment_wins_over_a_later_one() -> None:
    async def story() -> None:
        queue = WorkQueue()
        queue.add(A, 1000)
        queue.add(A)
        queue.add(A, 1000)
        assert await taken(queue) == A

    asyncio.run(story())


def test_who_waits_longest_is_first() -> None:
    async def story() -> None:
        queue = WorkQueue()
        queue.add(B)
        await asyncio.sleep(0.01)
        queue.add(A)
        assert queue.overdue_seconds() > 0
        assert [await taken(queue), await taken(queue)] == [B, A]
        assert queue.overdue_seconds() == 0

    asyncio.run(story())


def test_a_pass_that_keeps_failing_is_tried_ever_later_until_one_succeeds() -> None:
    async def story() -> None:
        queue = WorkQueue()
        pauses = [queue.failed(A) for _ in range(9)]
        assert pauses[:4] == [1, 2, 4, 8]
        assert pauses[-1] == LONGEST_PAUSE_SECONDS
        queue.succeeded(A)
        assert queue.failed(A) == 1

    asyncio.run(story())


def test_depth_tells_whether_a_pass_is_due() -> None:
    async def story() -> None:
        queue = WorkQueue()
        queue.add(A)
        queue.add(B, 1000)
        assert (queue.depth(A), queue.depth(B)) == (1, 0)

    asyncio.run(story())
