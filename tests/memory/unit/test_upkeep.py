"""A replica's maintenance goes on whatever fails."""

import asyncio
import contextlib
from collections.abc import Iterator

import pytest

from services.common.errors import NotReady
from services.memory import metrics
from services.memory.blobs import Entry, FolderBlobs
from services.memory.memory import Memory
from services.memory.upkeep import Upkeep
from tests.fakes import PATIENCE_S
from tests.support.memory import Clock, WordEmbedder
from tests.support.stacks import Stack


def swept(outcome: str) -> float:
    """The number of sweeps, as it is scraped."""
    (family,) = metrics.SWEEPS.collect()
    found = [each.value for each in family.samples if each.labels == {"outcome": outcome} and "total" in each.name]
    return sum(found)


class Failing(FolderBlobs):
    """Cannot be listed: the sweep's look for orphans fails."""

    error: Exception = NotReady("the media are away")

    def list(self, prefix: str) -> Iterator[Entry]:
        raise self.error


@pytest.mark.parametrize("error", [NotReady("the media are away"), ZeroDivisionError("a mistake")])
async def test_a_sweep_that_fails_is_counted_and_does_not_end_the_upkeep(embedded: Stack, error: Exception) -> None:
    settings = embedded.settings()
    memory = Memory(settings, WordEmbedder(), clock=Clock())
    upkeep = Upkeep(settings, memory)
    await upkeep.open_once()
    whole, failing = memory.storage.media.blobs, Failing(settings.folder / "media")
    failing.error = error
    try:
        for blobs, outcome in ((failing, "failed"), (whole, "ok")):
            memory.storage.media.blobs = blobs
            before = swept(outcome)
            running = asyncio.create_task(upkeep.run())
            async with asyncio.timeout(PATIENCE_S):
                while swept(outcome) == before:
                    await asyncio.sleep(0.01)
            assert not running.done()
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
    finally:
        await memory.close()


async def test_orphans_are_deleted_once_an_hour_by_whichever_replica(embedded: Stack) -> None:
    settings, clock = embedded.settings(), Clock()
    memories = [Memory(settings, WordEmbedder(), clock=clock) for _ in range(2)]
    replicas = [Upkeep(settings, memory, orphan_s=0) for memory in memories]
    try:
        for upkeep in replicas:
            await upkeep.open_once()
        for hours, left in ((0.0, 0), (0.9, 1), (0.2, 0)):
            await memories[0].storage.media.put(f"tenants/acme/turns/{hours}", b"orphan")
            clock.now_s += hours * 3600
            await asyncio.gather(*(upkeep.sweep() for upkeep in replicas))
            assert len(embedded.objects) == left
    finally:
        for memory in memories:
            await memory.close()
