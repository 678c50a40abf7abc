"""Transactions that PostgreSQL breaks off because of each other are tried again, and each takes effect once."""

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg
import pytest
from sqlalchemy import update

from services.common.errors import NotReady
from services.memory.database import translated
from services.memory.schema import identities
from services.memory.session import Session
from tests.fakes import PATIENCE_S
from tests.support.conversations import blocked, connection
from tests.support.memory import TENANT, Clock, header, parts, serving
from tests.support.stacks import Stack


async def test_of_two_that_lock_each_other_out_both_end_and_count_once(clustered: Stack) -> None:
    async with serving(clustered.settings()) as stubs:
        assert stubs.inside
        for name in ("ada", "eve"):
            await stubs.add(parts(header(name)))
        tries = 0
        both_hold_one = asyncio.Barrier(2)

        def crossing(first: str, second: str) -> Callable[[Session], Awaitable[None]]:
            async def work(session: Session) -> None:
                nonlocal tries
                tries += 1
                is_first_try = tries <= 2
                for name in (first, second):
                    mine = session.mine(identities, name=name)
                    version = identities.c.version + 1
                    assert await session.run(update(identities).where(mine).values(version=version)) == 1
                    if name == first and is_first_try:
                        await both_hold_one.wait()

            return work

        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(
                *(stubs.inside.storage.write(TENANT, crossing(*order)) for order in (("ada", "eve"), ("eve", "ada")))
            )
        rows = await stubs.inside.storage.rows(TENANT, identities.select())
        assert [row.version for row in rows] == [3, 3]
        assert tries == 3


async def test_of_replicas_that_sweep_at_once_one_does_an_hourly_task(clustered: Stack) -> None:
    assert clustered.urls
    clock = Clock()
    async with (
        serving(clustered.settings(), clock=clock, orphan_s=0) as stubs,
        connection(clustered.urls.admin) as admin,
    ):
        assert stubs.inside
        assert stubs.upkeep
        await stubs.upkeep.sweep()
        await stubs.inside.storage.media.put("tenants/acme/turns/1", b"orphan")
        clock.now_s += 3600
        async with admin.transaction():  # As another replica does.
            await admin.execute("UPDATE tasks SET taken_at_s = $1 WHERE name = 'orphans'", clock.now_s)
            sweeping = asyncio.create_task(stubs.upkeep.sweep())
            await blocked(admin)
        await sweeping
        assert clustered.objects == ["tenants/acme/turns/1"]
        clock.now_s += 3600
        await stubs.upkeep.sweep()
        assert clustered.objects == []


@pytest.mark.parametrize("error", [asyncpg.SerializationError("read"), asyncpg.DeadlockDetectedError("wait")])
def test_both_ways_to_be_broken_off_are_worth_another_try(error: Exception) -> None:
    problem, is_worth_retrying = translated(error)
    assert isinstance(problem, NotReady)
    assert is_worth_retrying
