"""Runs a blocking model on threads of its own behind a bounded line."""

import asyncio
import contextvars
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from typing import TypeVar

from services.common import metrics, tracing
from services.common.errors import NotReady, Overloaded
from services.common.load import Load

Result = TypeVar("Result")


class _End:
    """End of an iterator, as its thread sends it."""


class InferenceQueue:
    """A line before a model.

    A call that is cancelled while it waits leaves the line at once; one that is running is stopped at the
    iterator's next item, and the line moves on.

    Args:
        stage: Stage of a turn that its work is for, unless a call names another; for metrics.
        model: Name of the back-end, for metrics.
        waiting_max: Calls that may wait; one more is refused.
        workers: Threads; more than one only for a model that allows it.
        variant: Name of the variant that this process belongs to, for metrics.
    """

    def __init__(
        self, stage: str, model: str, waiting_max: int, workers: int = 1, variant: str = metrics.VARIANT
    ) -> None:
        self.variant = variant
        self._stage, self._model = stage, model
        self._waiting_max = waiting_max
        self._workers = workers
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix=f"{stage}-model")
        self._lock = threading.Lock()
        self._pending = 0
        self._compute_mean_s = 0.1
        self._closed = False
        metrics.REFUSALS.labels(stage, model, variant, "queue_full")  # A rate needs the 0 before the first.

    async def run(self, function: Callable[[], Result], stage: str = "") -> Result:
        """Returns what `function` returns, run on a thread of the model for a stage.

        Raises:
            Overloaded: The line is full.
            NotReady: The queue is closed.
        """

        def once() -> Iterator[Result]:
            yield function()

        async with aclosing(self.stream(once, stage=stage)) as results:
            (result,) = [result async for result in results]  # to its end: the place in line is free then
        return result

    async def stream(
        self,
        iterate: Callable[[], Iterator[Result]],
        placed: Result | None = None,
        *,
        begun: bool = False,
        stage: str = "",
    ) -> AsyncGenerator[Result]:
        """Yields what the iterator yields, run on a thread of the model. Closing this closes the iterator.

        Args:
            iterate: Makes the iterator, on that thread.
            placed: Is yielded before, as soon as the place in the line is taken, which is at once.
            begun: The caller was answered in part already: it gets a place also where the line is full.
            stage: Stage of a turn that it is for; that of the queue when empty.

        Raises:
            Overloaded: The line is full.
            NotReady: The queue is closed.
        """
        labels = (stage or self._stage, self._model, self.variant)
        self._enter(labels, begun)
        loop = asyncio.get_running_loop()
        items: asyncio.Queue[Result | _End | BaseException] = asyncio.Queue()
        cancelled = threading.Event()
        queued_s = time.monotonic()

        def send(item: Result | _End | BaseException) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(items.put_nowait, item)

        def work() -> None:
            started_s, outcome = time.monotonic(), "ok"
            metrics.QUEUE_LENGTH.labels(*labels).dec()
            metrics.observe(metrics.QUEUE_SECONDS.labels(*labels), started_s - queued_s)
            tracing.add(f"{labels[0]} waits", queued_s, started_s, {"model": self._model})
            last: _End | BaseException = _End()
            try:
                iterator = iterate()
                for item in iterator:
                    if cancelled.is_set():
                        outcome = "cancelled"
                        break
                    send(item)
                if close := getattr(iterator, "close", None):
                    close()
            except BaseException as error:  # handed to the caller, whatever it is
                outcome, last = "failed", error
            # Before the caller hears of the end: what it asks for next must find the place free.
            ended_s = time.monotonic()
            self._leave(labels, ended_s - started_s)
            metrics.observe(metrics.COMPUTE_SECONDS.labels(*labels, outcome), ended_s - started_s)
            tracing.add(f"{labels[0]} computes", started_s, ended_s, {"model": self._model, "outcome": outcome})
            send(last)

        # With the caller's context, so that what the model logs carries the trace id.
        future = self._threads.submit(contextvars.copy_context().run, work)
        # Closing the queue takes waiting calls off the line; without a word they would wait for ever.
        future.add_done_callback(lambda ended: send(_closed()) if ended.cancelled() else None)
        try:
            if placed is not None:
                yield placed
            while not isinstance(item := await items.get(), _End):
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            cancelled.set()
            if future.cancel():
                metrics.QUEUE_LENGTH.labels(*labels).dec()
                self._leave(labels)

    def load(self) -> Load:
        """Return the wait of a new call, and what a call adds to it, by the mean of the last calls."""
        with self._lock:
            call_s = self._compute_mean_s / self._workers
            return Load(self._pending * call_s, call_s)

    def check(self) -> None:
        """Refuses what could not take a place now for the queue's own stage.

        Raises:
            Overloaded: The line is full.
            NotReady: The queue is closed.
        """
        with self._lock:
            self._check((self._stage, self._model, self.variant))

    def afterwards(self, function: Callable[[], object]) -> None:
        """Runs something short on a thread of the model, behind all that waits; takes no place, and none waits for it.

        A queue that is closed does nothing: the process ends, and all that is to be tidied with it.
        """
        with suppress(RuntimeError):
            self._threads.submit(function)

    async def repeat(self, function: Callable[[], object], period_s: float) -> None:
        """Runs something short on a thread of the model again and again, `afterwards` each time, until cancelled."""
        while True:
            await asyncio.sleep(period_s)
            self.afterwards(function)

    def close(self) -> None:
        """Refuses new calls and those that wait, and waits for the running ones."""
        with self._lock:
            self._closed = True
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _check(self, labels: tuple[str, ...], begun: bool = False) -> None:
        if self._closed:
            raise _closed()
        waiting = self._pending - self._workers
        if waiting >= self._waiting_max and not begun:
            wait_s = self._compute_mean_s * (waiting + 1) / self._workers
            metrics.REFUSALS.labels(*labels, "queue_full").inc()
            problem = f"{labels[0]}: {waiting} requests wait for {self._model}, the limit; retry in {wait_s:.1f} s"
            raise Overloaded(problem, wait_s)

    def _enter(self, labels: tuple[str, ...], begun: bool) -> None:
        with self._lock:
            self._check(labels, begun)
            self._pending += 1
        metrics.QUEUE_LENGTH.labels(*labels).inc()
        metrics.IN_FLIGHT.labels(*labels).inc()

    def _leave(self, labels: tuple[str, ...], compute_s: float | None = None) -> None:
        with self._lock:
            self._pending -= 1
            if compute_s is not None:
                self._compute_mean_s += 0.2 * (compute_s - self._compute_mean_s)
        metrics.IN_FLIGHT.labels(*labels).dec()


def _closed() -> NotReady:
    return NotReady("the model is being closed; retry")
