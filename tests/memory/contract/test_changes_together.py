"""Servers of one stack change an identity at the same time; no change is lost, and none comes after an erasure."""

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest

from e3rg.common.v1 import common_pb2
from e3rg.memory.v1 import identities_pb2
from tests.serving import refused
from tests.support.conversations import erase_identity, rows
from tests.support.memory import TENANT, VOICE, Stubs, header, parts, serving
from tests.support.stacks import Stack


@pytest.fixture
async def servers(stack: Stack) -> AsyncIterator[tuple[Stubs, Stubs]]:
    """Two servers of one stack; `ada` is known."""
    async with serving(stack.settings()) as one, serving(stack.settings()) as other:
        await one.add(parts(header()))
        yield one, other


def change(version: int, about: str = "") -> identities_pb2.ChangeIdentityHeader:
    profile = header().profile
    return identities_pb2.ChangeIdentityHeader(
        tenant=TENANT,
        id="ada",
        if_version=version,
        profile=common_pb2.Profile(
            name=profile.name,
            age=profile.age,
            gender=profile.gender,
            timbre=profile.timbre,
            language=profile.language,
            about=about,
        ),
    )


async def test_a_change_of_a_version_that_is_gone_is_refused_and_names_both(servers: tuple[Stubs, Stubs]) -> None:
    await servers[0].change(change(1, "first"))
    with refused(grpc.StatusCode.ABORTED, "is at version 2, not 1; read it again"):
        await servers[1].change(change(1, "second"))
    assert (await servers[1].recall()).identity.profile.about == "first"


async def test_of_many_who_change_a_version_at_once_one_wins_and_nothing_of_the_others_stays(
    servers: tuple[Stubs, Stubs], stack: Stack
) -> None:
    objects = len(stack.objects)
    changes = [servers[at % 2].change(change(1, str(at)), VOICE + bytes([at])) for at in range(8)]
    outcomes = await asyncio.gather(*changes, return_exceptions=True)
    (won,) = [each for each in outcomes if isinstance(each, identities_pb2.Identity)]
    assert {each.code() for each in outcomes if isinstance(each, grpc.aio.AioRpcError)} == {grpc.StatusCode.ABORTED}
    assert (await servers[0].recall()).identity == won
    assert (won.version, len(won.references)) == (2, 3)
    assert servers[0].inside
    await servers[0].inside.erasure.drain()
    assert len(stack.objects) == objects + 1


async def test_writers_that_read_again_after_a_conflict_lose_no_change(servers: tuple[Stubs, Stubs]) -> None:
    async def append(stubs: Stubs, letter: str) -> None:
        while True:
            now = (await stubs.recall()).identity
            try:
                await stubs.change(change(now.version, now.profile.about + letter))
            except grpc.aio.AioRpcError as error:
                assert error.code() == grpc.StatusCode.ABORTED, error
            else:
                return

    await servers[0].change(change(1, "a"))
    await asyncio.gather(*(append(servers[at % 2], letter) for at, letter in enumerate("bcdef")))
    now = (await servers[0].recall()).identity
    assert (now.version, sorted(now.profile.about)) == (7, list("abcdef"))


async def test_a_change_and_an_erasure_at_once_leave_nothing(servers: tuple[Stubs, Stubs], stack: Stack) -> None:
    changes = [servers[at % 2].change(change(1, str(at)), VOICE + bytes([at])) for at in range(4)]
    outcomes = await asyncio.gather(*changes[:2], erase_identity(servers[1]), *changes[2:], return_exceptions=True)
    codes = {each.code() for each in outcomes if isinstance(each, grpc.aio.AioRpcError)}
    assert codes <= {grpc.StatusCode.ABORTED, grpc.StatusCode.NOT_FOUND}, outcomes
    assert servers[0].inside
    await servers[0].inside.erasure.drain()
    assert stack.objects == []
    assert await rows(stack) == {"tenants": 1}
