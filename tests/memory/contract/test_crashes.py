"""The service and its database are killed in the middle of 500 writes: nothing acknowledged is lost or doubled."""

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from services.memory.consistency import Findings, check
from services.memory.memory import Memory
from tests.support.memory import WordEmbedder, green, process_of, serving
from tests.support.postgres import Postgres
from tests.support.stacks import Stack
from tests.support.writer import Service, Writer

WRITERS = 5
WRITES = 500
KILLS = 4
SEED = 20_260_731


async def written(service: Service, kill: Callable[[], Awaitable[None]]) -> list[Writer]:
    """Returns the writers that have written, while something was killed at random moments."""
    writers = [Writer(service, f"ada-{number}", SEED + number) for number in range(WRITERS)]
    moments = random.Random(SEED)
    async with asyncio.TaskGroup() as tasks:
        for writer in writers:
            tasks.create_task(writer.write(WRITES // WRITERS))
        for number in range(KILLS):
            await service.reach(round((number + moments.random()) * WRITES * 0.9 / KILLS))
            await service.wait_within(moments.uniform(0, 0.03))
            service.up.clear()
            await kill()
    assert service.acknowledged >= WRITES
    return writers


async def check_objects(stack: Stack) -> None:
    """Checks that no row lacks its object, before anybody has retried."""
    memory = Memory(stack.settings(), WordEmbedder())
    try:
        findings = await check(memory, False, None)
    finally:
        await memory.close()
    assert (findings.rows, findings.files, findings.erased) == ([], [], 0)


async def check_all(stack: Stack, writers: list[Writer]) -> None:
    """Checks that rows and objects are those of what was acknowledged."""
    async with serving(stack.settings(), orphan_s=0) as stubs:
        assert stubs.inside
        assert stubs.upkeep
        await stubs.inside.erasure.drain()
        await stubs.upkeep.delete_orphans()
        assert await check(stubs.inside, False, None) == Findings()
        for writer in writers:
            await writer.check(stubs)


async def test_a_service_that_is_killed_again_and_again_loses_nothing_that_it_acknowledged(stack: Stack) -> None:
    service = Service()
    async with AsyncExitStack() as life:

        async def start() -> asyncio.subprocess.Process:
            stubs, process = await life.enter_async_context(process_of(stack.variables))
            await green(stubs)
            service.start(stubs)
            return process

        running = [await start()]

        async def kill() -> None:
            running[-1].kill()
            await running[-1].wait()
            await service.end_calls()
            await check_objects(stack)
            running.append(await start())

        writers = await written(service, kill)
        assert [process.returncode for process in running] == [*[-signal.SIGKILL] * KILLS, None]
    assert service.refusals >= KILLS
    await check_all(stack, writers)


async def test_a_database_that_is_killed_again_and_again_loses_nothing_that_was_acknowledged(
    postgres: Postgres, clustered: Stack
) -> None:
    service = Service()

    async def kill() -> None:
        await asyncio.to_thread(postgres.kill)
        await asyncio.to_thread(postgres.restart)
        service.up.set()

    async with process_of(clustered.variables) as (stubs, process):
        await green(stubs)
        service.start(stubs)
        writers = await written(service, kill)
        assert process.returncode is None
    assert postgres.log.read_text().count("automatic recovery in progress") >= KILLS
    await check_all(clustered, writers)
