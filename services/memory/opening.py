"""Opens the store: a memory whose store is away starts all the same, says why it is not ready, and becomes it."""

import asyncio
import logging

from services.common import deadline
from services.common.errors import DeadlineExceeded, NotReady
from services.common.inference import InferenceQueue
from services.memory.memory import Memory
from services.memory.store import Store

log = logging.getLogger(__name__)

CHECK_S_MAX = 10.0
"""A store that takes longer to be tried counts as away."""

RETRY_S_MIN, RETRY_S_MAX = 0.5, 10.0
"""Wait before the next try: it doubles from one to the other."""


class Opening:
    """Tries the store and makes the memory whole, until both succeed.

    Args:
        store: Which.
        memory: What is in it.
        queue: Runs the blocking calls.
    """

    def __init__(self, store: Store, memory: Memory, queue: InferenceQueue) -> None:
        self._store = store
        self._memory = memory
        self._queue = queue
        self._problem = "the memory's store is being opened; retry"

    async def run(self) -> None:
        """Returns when the memory can be used."""
        retry_s = RETRY_S_MIN
        while self._problem:
            try:
                await self._queue.run(self._open)
            except (NotReady, DeadlineExceeded) as error:
                if str(error) != self._problem:
                    log.warning("not ready", extra={"why": str(error)})
                self._problem = str(error)
                await asyncio.sleep(retry_s)
                retry_s = min(2 * retry_s, RETRY_S_MAX)
            else:
                self._problem = ""
        log.info("ready")

    def check(self) -> None:
        """Refuses calls that come too early.

        Raises:
            NotReady: The memory cannot be used yet; the message says why.
        """
        if self._problem:
            raise NotReady(self._problem)

    def _open(self) -> None:
        with deadline.within(CHECK_S_MAX):
            self._store.check()
        self._memory.prepare()
