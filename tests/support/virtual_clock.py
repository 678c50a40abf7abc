"""Time that passes only while everybody waits for it."""

import asyncio
import heapq
import math
from collections.abc import Coroutine
from itertools import count
from typing import Any, TypeVar

BEGIN_S = 1000.0
STEPS = 20
"""Steps of the event loop after which every task waits: none hands on to more others between two times."""

Result = TypeVar("Result")


class VirtualClock:
    """`benchmarks.load.clock.Clock` that jumps from one awaited time to the next."""

    def __init__(self) -> None:
        self._now_s = BEGIN_S
        self._numbers = count()
        self._awaited: list[tuple[float, int, asyncio.Future[None]]] = []

    def now_s(self) -> float:
        return self._now_s

    async def until(self, at_s: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._awaited, (at_s, next(self._numbers), future))
        await future

    async def complete(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Do some work; time passes when it waits."""
        task = asyncio.create_task(work)
        await self.pass_until(math.inf)
        return await task

    async def pass_until(self, at_s: float) -> None:
        """Let time pass while anybody waits for a time, up to `at_s` after the begin."""
        while True:
            for _ in range(STEPS):
                await asyncio.sleep(0)
            if not self._awaited or self._awaited[0][0] > BEGIN_S + at_s:
                return
            awaited_s, _, future = heapq.heappop(self._awaited)
            self._now_s = max(self._now_s, awaited_s)
            if not future.done():
                future.set_result(None)
