"""Election of the one gateway that acts by itself."""

import asyncio
import contextlib
import fcntl
import logging
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Protocol

from prometheus_client import Gauge

from orchestrator.settings import OrchestratorSettings

log = logging.getLogger(__name__)

ELECTED = Gauge("e3rg_variants_elected", "Whether this gateway judges guardrails and steps ramps: 1 in one of all.")

RENEW_S = 5.0
"""Time between two tries to be, or to stay, the elected one."""
ACTS_S = 10.0
"""Time for which a renewal counts. A Lease lasts longer: before another one acts, this one has stopped."""


class Lock(Protocol):
    """Object that one process at a time holds."""

    def hold(self) -> bool:
        """Take or renew it; return whether it is held. Blocks.

        Raises:
            OSError: That is not known now.
        """

    def release(self) -> None:
        """Give it back if it is held. Blocks."""


class Election:
    """Candidate for acting by itself.

    Args:
        lock: Held by the elected one; without it, nobody is elected.
        clock: Tells monotonic seconds.
    """

    def __init__(self, lock: Lock | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock, self._clock = lock, clock
        self._until_s: float | None = None
        self._problem = ""
        self._trying = asyncio.Lock()

    @property
    def is_elected(self) -> bool:
        """Whether this is the elected one."""
        return self._until_s is not None and self._clock() < self._until_s

    async def attempt(self) -> None:
        """Try once to be, or to stay, the elected one."""
        async with self._trying:
            await self._attempt()

    async def _attempt(self) -> None:
        if not self._lock:
            return
        was, asked_s = self.is_elected, self._clock()
        try:
            held, problem = await asyncio.to_thread(self._lock.hold), ""
            # The time of the question: the answer may have taken long.
            self._until_s = asked_s + ACTS_S if held else None
        except OSError as error:  # Whoever was elected stays so until the time is over.
            problem = str(error)
        if problem and problem != self._problem:
            log.warning("the election of a gateway cannot go on", extra={"why": problem})
        self._problem = problem
        ELECTED.set(self.is_elected)
        if self.is_elected != was:
            log.info("guardrails and ramps", extra={"acts": self.is_elected})

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Election"]:
        """Stand for election while the block runs; then another one may follow at once."""
        standing = asyncio.create_task(self._stand())
        try:
            yield self
        finally:
            async with self._trying:  # A thread that is cut off would take the lock after it was given back.
                standing.cancel()
            await asyncio.gather(standing, return_exceptions=True)
            self._until_s = None
            ELECTED.set(0)
            if self._lock:
                with contextlib.suppress(OSError):
                    await asyncio.to_thread(self._lock.release)

    async def _stand(self) -> None:
        while True:
            try:
                await self.attempt()
            except Exception:  # As a Lease that somebody made without its fields: without elections nobody guards.
                log.exception("the election failed; it is tried again")
            await asyncio.sleep(RENEW_S)


def lock_of(settings: OrchestratorSettings) -> Lock | None:
    """Return what the elected one holds: a Lease in a cluster, else a file; None without a table of variants."""
    if settings.variants_configmap:
        # The client takes 60 MiB and half a second.
        from orchestrator.variants.lease import LeaseLock

        namespace, _, name = settings.variants_configmap.partition("/")
        identity = f"{socket.gethostname()}_{secrets.token_hex(4)}"
        return LeaseLock(f"{namespace}/{settings.variants_lease or name}", identity, time.monotonic)
    path = settings.variants_file
    return FileLock(path.with_name(f".{path.name}.lock-leader")) if path else None


class FileLock:
    """Lock of the gateways of one machine that share a file: the kernel gives it back when its process ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: IO[str] | None = None

    def hold(self) -> bool:
        """Take it if it is free."""
        if self._held:
            return True
        file = self._path.open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        self._held = file
        return True

    def release(self) -> None:
        """Give it back."""
        if self._held:
            self._held.close()
            self._held = None
