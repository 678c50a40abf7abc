"""What a replica does without being asked."""

import asyncio

from services.common.errors import NotReady
from services.common.inference import InferenceQueue
from services.memory import metrics
from services.memory.forgetting.expiring import Expired
from services.memory.forgetting.upkeep import Upkeep
from services.memory.memory import Memory
from tests.fake_store import FakeStore
from tests.fakes import PATIENCE_S
from tests.talking import WordEmbedder


class Watched(Memory):
    """A memory that tells how often it was swept and tidied, and fails at the first sweeps."""

    def __init__(self, *failures: Exception) -> None:
        super().__init__(FakeStore(), WordEmbedder())
        self.failures = list(failures)
        self.sweeps = asyncio.Semaphore(0)
        self.tidyings = asyncio.Semaphore(0)
        self._loop = asyncio.get_running_loop()

    def sweep(self) -> Expired:
        self._loop.call_soon_threadsafe(self.sweeps.release)
        if self.failures:
            raise self.failures.pop(0)
        return Expired(3, 0)

    def tidy(self) -> None:
        super().tidy()
        self.tidyings.release()


def counted(outcome: str) -> float:
    return float(metrics.SWEEPS.labels(outcome)._value.get())


async def test_a_memory_is_swept_and_tidied_again_and_again_whatever_fails() -> None:
    memory = Watched(NotReady("the store is away"), ZeroDivisionError("a mistake"))
    queue = InferenceQueue("memory", "sweeper", 0)
    failed, done, expired = counted("failed"), counted("ok"), metrics.EXPIRED_OBJECTS._value.get()
    task = asyncio.create_task(Upkeep(memory, queue, tidy_s=0.001, sweep_s=0.001).run())
    async with asyncio.timeout(PATIENCE_S):
        for _ in range(5):
            await memory.sweeps.acquire()
            await memory.tidyings.acquire()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await asyncio.to_thread(queue.close)
    assert counted("failed") - failed == 2
    assert counted("ok") - done >= 2
    assert metrics.EXPIRED_OBJECTS._value.get() - expired == 3 * (counted("ok") - done)
