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
from tests.support.memory import TENANT, header, parts, serving
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


@pytest.mark.parametrize("error", [asyncpg.SerializationError("read"), asyncpg.DeadlockDetectedError("wait")])
def test_both_ways_to_be_broken_off_are_worth_another_try(error: Exception) -> None:
    problem, is_worth_retrying = translated(error)
    assert isinstance(problem, NotReady)
    assert is_worth_retrying
