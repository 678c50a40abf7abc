"""Measures what a turn waits for: recall of a warm identity with its last turns, over gRPC from a process."""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path

from services.memory.store import Store
from tests.memory_service import Stubs, green, header, parts, process_of
from tests.s3_server import S3Server, environment, open_store

WARM, CALLS, TURNS = 50, 500, 4
"""Calls that are not counted, those that are, and turns that each recalls out of three times as many."""


def recalls_ms(folder: Path, server: S3Server | None) -> list[float]:
    """Milliseconds of each recall from a folder, or from a bucket of `server`."""
    variables = {"E3RG_MEMORY_BACKEND": "filesystem", "E3RG_MEMORY_FOLDER": str(folder)}
    if server:
        variables = {"E3RG_MEMORY_BACKEND": "s3", **environment(server.endpoint, bucket="recalled")}
    return asyncio.run(_recalls_ms(variables))


def gets_ms(server: S3Server) -> list[float]:
    """Milliseconds of each reading of a small object, in this process: what one way to the server takes."""
    store: Store = open_store(server.endpoint)
    store.put("probe/small", b"x" * 500)
    times_ms = []
    for _ in range(CALLS):
        start_s = time.perf_counter()
        store.get("probe/small")
        times_ms.append((time.perf_counter() - start_s) * 1000)
    store.delete(["probe/small"])
    store.close()
    return times_ms


async def _recalls_ms(variables: Mapping[str, str]) -> list[float]:
    async with process_of(variables) as (stubs, _):
        await green(stubs)
        await stubs.add(parts(header()))
        for number in range(3 * TURNS):
            await stubs.say(number, person="bob")
        return [await _recall_ms(stubs) for _ in range(WARM + CALLS)][WARM:]


async def _recall_ms(stubs: Stubs) -> float:
    start_s = time.perf_counter()
    recalled = await stubs.recall(person="bob")
    taken_ms = (time.perf_counter() - start_s) * 1000
    if len(recalled.turns) != TURNS:
        raise ValueError(f"{len(recalled.turns)} turns were recalled, and not {TURNS}")
    return taken_ms
