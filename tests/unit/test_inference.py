"""The line before a model."""

import asyncio
import threading
from collections.abc import Iterator
from functools import partial

import pytest
from prometheus_client import REGISTRY

from services.common.errors import NotReady, Overloaded
from services.common.inference import InferenceQueue
from tests.fakes import PATIENCE_S, Closing, Gate


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open()  # or the queue could not be closed after a failed test


@pytest.fixture
def queue(gate: Gate) -> Iterator[InferenceQueue]:
    queue = InferenceQueue("test", "model", waiting_max=1)
    yield queue
    gate.open()
    queue.close()


async def begun(task: "asyncio.Task[str]") -> "asyncio.Task[str]":
    """Gives a new task its first step: it stands in line after that."""
    await asyncio.sleep(0)
    assert not task.done()
    return task


def value(name: str, stage: str = "test", **labels: str) -> float:
    wanted = {"stage": stage, "model": "model", "variant": "default"} | labels
    return REGISTRY.get_sample_value(name, wanted) or 0


def waiting() -> float:
    return value("e3rg_queue_length")


async def test_a_call_returns_what_the_model_returns_and_not_on_the_loops_thread(queue: InferenceQueue) -> None:
    assert await queue.run(lambda: threading.current_thread() is not threading.main_thread()) is True


async def test_a_stream_yields_in_order_while_the_model_still_works(queue: InferenceQueue, gate: Gate) -> None:
    def iterate() -> Iterator[int]:
        yield 1
        gate("second")
        yield 2

    stream = queue.stream(iterate)
    assert await anext(stream) == 1
    await gate.reached()
    gate.open()
    assert [item async for item in stream] == [2]


async def test_what_is_repeated_runs_again_and_again_on_the_models_thread_until_it_is_cancelled(
    queue: InferenceQueue,
) -> None:
    ran: asyncio.Queue[bool] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def tidy() -> None:
        elsewhere = threading.current_thread() is not threading.main_thread()
        loop.call_soon_threadsafe(ran.put_nowait, elsewhere)

    repeating = asyncio.create_task(queue.repeat(tidy, 0.001))
    assert [await asyncio.wait_for(ran.get(), PATIENCE_S) for _ in range(3)] == [True, True, True]
    repeating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await repeating


async def test_a_place_is_free_when_the_caller_hears_of_the_end() -> None:
    queue = InferenceQueue("test", "narrow", waiting_max=0)
    for number in range(200):  # one call after the other: none of them ever waits
        assert await queue.run(lambda: number) == number  # noqa: B023  # it has run when the loop goes on
        assert [item async for item in queue.stream(lambda: iter("ab"))] == ["a", "b"]
    queue.close()


async def test_one_more_than_the_line_holds_is_refused_and_told_when_to_come_again(
    queue: InferenceQueue, gate: Gate
) -> None:
    def held() -> str:
        gate("work")
        return "first"

    refusals = value("e3rg_refusals_total", reason="queue_full")
    first = await begun(asyncio.create_task(queue.run(held)))
    await gate.reached()
    second = await begun(asyncio.create_task(queue.run(lambda: "second")))
    assert waiting() == 1
    with pytest.raises(Overloaded, match="test: 1 requests wait for model") as refused:
        await queue.run(lambda: "third")
    assert (refused.value.retry_after_s or 0) > 0
    with pytest.raises(Overloaded, match="test: 1 requests wait for model"):
        queue.check()
    assert value("e3rg_refusals_total", reason="queue_full") - refusals == 2
    assert value("e3rg_in_flight") == 2
    going_on = await begun(asyncio.create_task(anext(queue.stream(lambda: iter(["more"]), begun=True))))
    assert waiting() == 2  # whom it has answered in part already it does not turn away
    gate.open()
    assert (await first, await second, await going_on) == ("first", "second", "more")
    await asyncio.sleep(0)
    assert await queue.run(lambda: "fourth") == "fourth"
    assert waiting() == 0
    assert value("e3rg_in_flight") == 0


async def test_a_call_is_measured_under_the_stage_that_it_is_for(queue: InferenceQueue) -> None:
    def counts() -> tuple[float, float]:
        return value("e3rg_queue_seconds_count", "other"), value("e3rg_compute_seconds_count", "other", outcome="ok")

    before = counts()
    await queue.run(lambda: None, stage="other")
    assert counts() == (before[0] + 1, before[1] + 1)


async def test_work_that_is_called_off_in_the_line_is_in_flight_no_more(queue: InferenceQueue, gate: Gate) -> None:
    def held() -> str:
        gate("work")
        return "first"

    first = await begun(asyncio.create_task(queue.run(held)))
    await gate.reached()
    second = await begun(asyncio.create_task(queue.run(lambda: "second")))
    assert (waiting(), value("e3rg_in_flight")) == (1, 2)
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    assert (waiting(), value("e3rg_in_flight")) == (0, 1)
    gate.open()
    assert await first == "first"


async def test_a_call_that_is_cancelled_while_it_waits_leaves_the_line_at_once(
    queue: InferenceQueue, gate: Gate
) -> None:
    ran: list[str] = []

    def held() -> str:
        gate("work")
        return "first"

    def unwanted() -> str:
        ran.append("leaver")
        return "leaver"

    first = await begun(asyncio.create_task(queue.run(held)))
    await gate.reached()
    leaver = await begun(asyncio.create_task(queue.run(unwanted)))
    leaver.cancel()
    await asyncio.wait({leaver})
    assert leaver.cancelled()
    assert waiting() == 0
    next_one = await begun(asyncio.create_task(queue.run(lambda: "next")))  # its place is free: not refused
    gate.open()
    assert (await first, await next_one) == ("first", "next")
    assert ran == []


async def test_a_running_iterator_that_nobody_wants_is_stopped_at_its_next_item_and_closed(
    queue: InferenceQueue, gate: Gate
) -> None:
    closed, made = Closing(), []

    def iterate() -> Iterator[int]:
        try:
            for number in range(100):
                if number == 1:
                    gate("work")
                made.append(number)
                yield number
        finally:
            closed.set()

    stream = queue.stream(iterate)
    assert await anext(stream) == 0
    await gate.reached()
    await stream.aclose()
    gate.open()
    await closed.happened()
    assert made == [0, 1]
    assert await queue.run(lambda: "next") == "next"


async def test_a_stream_that_is_cancelled_while_it_waits_for_an_item_stops_the_model(
    queue: InferenceQueue, gate: Gate
) -> None:
    closed = Closing()

    def iterate() -> Iterator[str]:
        try:
            gate("work")
            yield "unwanted"
            yield "never made"
        finally:
            closed.set()

    async def consume() -> str:
        return "".join([item async for item in queue.stream(iterate)])

    consumer = asyncio.create_task(consume())
    await gate.reached()
    consumer.cancel()
    await asyncio.wait({consumer})
    gate.open()
    await closed.happened()


@pytest.mark.parametrize("error", [ValueError("the model is broken"), NotReady("later"), StopIteration("ended")])
async def test_what_the_model_raises_reaches_the_caller_and_the_line_moves_on(
    queue: InferenceQueue, error: Exception
) -> None:
    def broken() -> str:
        raise error

    with pytest.raises((type(error), RuntimeError)) as raised:  # a generator may not let StopIteration through
        await queue.run(broken)
    assert error in (raised.value, raised.value.__cause__, getattr(raised.value.__cause__, "__cause__", None))
    assert await queue.run(lambda: "next") == "next"


async def test_items_before_an_error_are_not_lost(queue: InferenceQueue) -> None:
    def iterate() -> Iterator[int]:
        yield 1
        raise ValueError("after the first")

    stream = queue.stream(iterate)
    assert await anext(stream) == 1
    with pytest.raises(ValueError, match="after the first"):
        await anext(stream)


async def test_a_stream_says_that_it_has_its_place_at_once(queue: InferenceQueue, gate: Gate) -> None:
    def held() -> str:
        gate("work")
        return "first"

    running = await begun(asyncio.create_task(queue.run(held)))
    await gate.reached()
    stream = queue.stream(lambda: iter(["second"]), placed="placed")
    assert await anext(stream) == "placed"
    assert waiting() == 1
    gate.open()
    assert [item async for item in stream] == ["second"]
    assert await running == "first"


async def test_what_is_done_afterwards_is_done_behind_all_that_waits(queue: InferenceQueue, gate: Gate) -> None:
    done: list[str] = []

    def work(name: str) -> str:
        gate(name)
        done.append(name)
        return name

    first = await begun(asyncio.create_task(queue.run(partial(work, "first"))))
    await gate.reached()
    second = await begun(asyncio.create_task(queue.run(partial(work, "second"))))
    queue.afterwards(partial(work, "afterwards"))
    assert waiting() == 1
    gate.open()
    await asyncio.gather(first, second)
    await queue.run(partial(work, "next"))
    assert done == ["first", "second", "afterwards", "next"]


async def test_two_workers_work_at_the_same_time() -> None:
    together = threading.Barrier(2, timeout=PATIENCE_S)
    queue = InferenceQueue("test", "pair", waiting_max=0, workers=2)
    assert set(await asyncio.gather(queue.run(together.wait), queue.run(together.wait))) == {0, 1}
    queue.close()


async def test_a_closed_queue_refuses_lets_the_running_call_end_and_tells_those_that_wait(
    queue: InferenceQueue, gate: Gate
) -> None:
    def held() -> str:
        gate("work")
        return "done"

    running = await begun(asyncio.create_task(queue.run(held)))
    await gate.reached()
    in_line = await begun(asyncio.create_task(queue.run(lambda: "never")))
    closing = asyncio.create_task(asyncio.to_thread(queue.close))
    with pytest.raises(NotReady, match="closed"):
        await asyncio.wait_for(in_line, PATIENCE_S)
    assert not closing.done()
    with pytest.raises(NotReady, match="closed"):
        await queue.run(lambda: "never")
    gate.open()
    assert await running == "done"
    await closing
