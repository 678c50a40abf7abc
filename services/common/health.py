"""Health of a server, whose watchers do not hold up a stop."""

import asyncio
from typing import Any

from grpc_health.v1 import health


class Health(health.aio.HealthServicer):  # type: ignore[misc]  # The package has no types.
    """Serves `grpc.health`. gRPC's own never ends a Watch, so a stop would wait its whole grace for one."""

    def __init__(self) -> None:
        super().__init__()
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        """End all streams."""
        self._stopped.set()

    async def Watch(self, request: Any, context: Any) -> None:  # noqa: N802, D102  # gRPC names and documents it
        tasks = [asyncio.ensure_future(super().Watch(request, context)), asyncio.ensure_future(self._stopped.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
