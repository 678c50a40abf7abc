"""Two processes on one database: one of two writers wins, and what one has written the other sees at its next call."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import grpc
import pytest

from e3rg.memory.v1 import erasure_pb2, identities_pb2, memory_pb2
from tests.serving import refused
from tests.support.memory import TENANT, VOICE, Stubs, green, header, parts, process_of
from tests.support.stacks import Stack

PORTRAIT = b"\x89PNG\r\n\x1a\nface"
ROUNDS = 10


@pytest.fixture
async def pair(stack: Stack) -> AsyncIterator[tuple[Stubs, Stubs]]:
    async with AsyncExitStack() as both:
        started = [both.enter_async_context(process_of(stack.variables)) for _ in range(2)]
        one, other = [stubs for stubs, _ in await asyncio.gather(*started)]
        await asyncio.gather(green(one), green(other))
        yield one, other


def louder(version: int) -> identities_pb2.ChangeIdentityHeader:
    change = identities_pb2.ChangeIdentityHeader(tenant=TENANT, id="ada", if_version=version)
    change.profile.CopyFrom(header().profile)
    change.profile.speaking_style = f"louder by {version}"
    return change


async def test_of_two_who_add_or_change_an_identity_at_once_one_wins_and_the_other_is_told(
    pair: tuple[Stubs, Stubs],
) -> None:
    for number in range(ROUNDS):
        name = f"eve-{number}"
        ended = await asyncio.gather(
            *(stubs.add(parts(header(name), PORTRAIT, VOICE)) for stubs in pair), return_exceptions=True
        )
        (lost,) = [each for each in ended if isinstance(each, grpc.aio.AioRpcError)]
        assert lost.code() == grpc.StatusCode.ALREADY_EXISTS
        assert f"identity {name!r} exists" in str(lost.details())
    await pair[0].add(parts(header(), PORTRAIT, VOICE))
    for version in range(1, ROUNDS + 1):
        films = (b"\0\0\0\x18ftypisom" + bytes([version, place]) for place in range(2))
        changes = (stubs.change(louder(version), film) for stubs, film in zip(pair, films, strict=True))
        ended = await asyncio.gather(*changes, return_exceptions=True)
        (lost,) = [each for each in ended if isinstance(each, grpc.aio.AioRpcError)]
        (won,) = [each for each in ended if isinstance(each, identities_pb2.Identity)]
        text = f"identity 'ada' is at version {version + 1}, not {version}; read it again, then change it"
        assert (lost.code(), lost.details()) == (grpc.StatusCode.ABORTED, text)
        found = [(await stubs.recall()).identity for stubs in pair]
        assert found == [won, won]
        assert len(won.references) == 2 + version


async def test_turns_that_two_keep_at_once_are_there_once_in_one_order(pair: tuple[Stubs, Stubs]) -> None:
    await pair[0].add(parts(header(), PORTRAIT, VOICE))
    calls = [stubs.say(number, person="bob") for number in range(2 * ROUNDS) for stubs in pair]
    await asyncio.gather(*calls)
    request = memory_pb2.ListTurnsRequest(tenant=TENANT, identity="ada", person="bob", conversation="talk")
    found = [[turn.id for turn in (await stubs.memory.ListTurns(request)).turns] for stubs in pair]
    assert sorted(found[0]) == sorted(f"turn-{number}" for number in range(2 * ROUNDS))
    assert found[0] == found[1]


async def test_what_one_changes_or_erases_the_other_sees_at_its_next_call(pair: tuple[Stubs, Stubs]) -> None:
    one, other = pair
    await one.add(parts(header(), PORTRAIT, VOICE))
    await one.say(1, person="bob")
    for number in range(2, 5):
        recalled = await other.recall(person="bob")
        assert (recalled.identity.version, recalled.turns[-1].id) == (number - 1, f"turn-{number - 1}")
        await one.change(louder(number - 1))
        await one.say(number, person="bob")
    await one.erasure.ErasePerson(erasure_pb2.ErasePersonRequest(tenant=TENANT, person="bob", asked_by="Bob"))
    assert not (await other.recall(person="bob")).turns
    await one.erasure.EraseIdentity(
        erasure_pb2.EraseIdentityRequest(tenant=TENANT, identity="ada", asked_by="the test")
    )
    with refused(grpc.StatusCode.NOT_FOUND, "'ada'"):
        await other.recall(person="bob")
    await one.add(parts(header(uses=["clone_voice"]), PORTRAIT, VOICE))
    assert (await other.recall(person="bob")).identity.version == 1
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "keep_turns"):
        await other.say(1, person="bob")
