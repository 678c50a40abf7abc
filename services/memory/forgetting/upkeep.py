"""What a replica does without being asked: it forgets what it holds, and ends and repeats erasures."""

import asyncio
import logging
import random

from services.common.errors import ServiceError
from services.common.inference import InferenceQueue
from services.memory import metrics
from services.memory.memory import Memory

log = logging.getLogger(__name__)

TIDY_S = 5.0
"""Time between two looks for what was not used of late."""

SWEEP_S = 60.0
"""Time between two sweeps, give or take a fifth: replicas that start at once shall not sweep at once."""


class Upkeep:
    """Looks after a memory.

    Args:
        memory: Which.
        queue: Runs the sweeps.
        tidy_s: Time between two looks for what was not used.
        sweep_s: Time between two sweeps.
    """

    def __init__(self, memory: Memory, queue: InferenceQueue, tidy_s: float = TIDY_S, sweep_s: float = SWEEP_S) -> None:
        self._memory = memory
        self._queue = queue
        self._tidy_s = tidy_s
        self._sweep_s = sweep_s

    async def run(self) -> None:
        """Does so until it is cancelled. A sweep that fails is logged, and made again the next time."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._tidy())
            tasks.create_task(self._sweep())

    async def _tidy(self) -> None:
        while True:
            await asyncio.sleep(self._tidy_s)
            self._memory.tidy()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(self._sweep_s * random.uniform(0.8, 1.2))
            try:
                expired = await self._queue.run(self._memory.sweep)
            except Exception as error:
                metrics.SWEEPS.labels("failed").inc()
                log.warning("no sweep", extra={"why": str(error)}, exc_info=not isinstance(error, ServiceError))
            else:
                metrics.SWEEPS.labels("ok").inc()
                metrics.EXPIRED_OBJECTS.inc(expired.objects)
