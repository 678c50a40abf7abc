"""A call that a replica loses, refuses or hangs over is made at another one, whole and once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import grpc
import pytest

from services.common import clients, errors
from services.common.channels import REPLAYED_BYTES_MAX, REPLAYED_BYTES_MAX_OF_ALL, BalancedChannel, Replay
from services.common.load import Load
from services.common.replica import Choice
from tests.echoes import NAME, OPTIONS, Echo, Hanging, ask, connected, each, echoes, lose, read, send, talk, unary
from tests.serving import refused


@pytest.mark.parametrize(("way", "answer"), [(unary, b"?"), (read, b"?"), (send, b"ab"), (talk, b"ab")])
async def test_a_call_that_its_replica_loses_before_an_answer_is_made_at_another_whole(
    stack: AsyncExitStack, way: Callable[[BalancedChannel], Awaitable[bytes]], answer: bytes
) -> None:
    replicas = await echoes(stack, 2)
    channel = await connected(stack, *replicas)
    for echo in replicas:
        echo.before = lose
    assert (await way(channel))[2:] == answer
    assert sorted(echo.asked for echo in replicas) in ([1, 1], [1, 2])
    assert sum(echo.asked for echo in replicas) == 2 + (replicas[0].before is replicas[1].before)


async def test_what_was_answered_in_part_is_not_made_again(stack: AsyncExitStack) -> None:
    replicas = await echoes(stack, 2)
    channel = await connected(stack, *replicas)
    came = asyncio.Event()

    async def messages() -> AsyncIterator[bytes]:
        yield b"a"
        await came.wait()
        stopping.extend([asyncio.create_task(echo.stop()) for echo in replicas])
        await asyncio.Event().wait()

    stopping: list[asyncio.Task[None]] = []
    method = channel.stream_stream(f"/{NAME}/Talk")

    async def note() -> None:
        async for part in clients.converse_any(method, messages(), OPTIONS):
            assert part
            came.set()

    with pytest.raises(grpc.aio.AioRpcError):
        await note()
    assert sum(echo.asked for echo in replicas) == 1
    await asyncio.gather(*stopping)


async def test_what_was_read_in_part_is_not_read_again(stack: AsyncExitStack) -> None:
    replicas = await echoes(stack, 2)
    channel = await connected(stack, *replicas)
    for echo in replicas:
        echo.between = lose
    with refused(grpc.StatusCode.UNAVAILABLE, "gone"):
        await read(channel)
    assert sum(echo.asked for echo in replicas) == 1


async def test_a_replica_that_refuses_is_avoided_though_it_waits_least(stack: AsyncExitStack) -> None:
    refusing, busy = replicas = await echoes(stack, 2)
    busy.load = Load(backlog_s=60.0, call_s=0.1)

    async def refuse(echo: Echo) -> None:
        raise errors.NotReady("not now")

    refusing.before = refuse
    channel = await connected(stack, *replicas)
    assert [await ask(channel) for _ in range(5)] == ["1 ?"] * 5
    assert refusing.asked == 5


async def test_all_attempts_of_a_call_share_its_deadline(stack: AsyncExitStack) -> None:
    replicas = await echoes(stack, 2)
    channel = await connected(stack, *replicas)
    for echo in replicas:
        echo.before = lose
    timeout_s = 5.0
    await channel.unary_unary(f"/{NAME}/Ask")(b"?", timeout=timeout_s)
    # gRPC rounds what is left when it sends it.
    assert all(0 < echo.left_s < 1.1 * timeout_s for echo in replicas if echo.asked)


async def test_messages_that_are_too_large_to_keep_are_not_sent_again(stack: AsyncExitStack) -> None:
    replicas = await echoes(stack, 2)
    channel = await connected(stack, *replicas)
    for echo in replicas:
        echo.before = lose
    large = [bytes(1 << 20)] * (REPLAYED_BYTES_MAX // (1 << 20) + 1)
    with refused(grpc.StatusCode.UNAVAILABLE, "gone"):
        await clients.ask_any(channel.stream_unary(f"/{NAME}/Send"), each(*large), OPTIONS)
    assert sum(echo.asked for echo in replicas) == 1


async def test_many_large_calls_at_once_keep_no_more_than_one_bound_for_all_and_nothing_in_the_end(
    stack: AsyncExitStack,
) -> None:
    (echo,) = await echoes(stack, 1)
    channel = await connected(stack, echo)
    kept = []

    async def messages() -> AsyncIterator[bytes]:
        for _ in range(REPLAYED_BYTES_MAX // (1 << 20) - 1):
            yield bytes(1 << 20)
            kept.append(Replay.bytes_of_all)

    sending: Any = channel.stream_unary(f"/{NAME}/Send")
    count = 2 * REPLAYED_BYTES_MAX_OF_ALL // REPLAYED_BYTES_MAX
    sent = (clients.ask_any(sending, messages(), OPTIONS) for _ in range(count))
    await asyncio.gather(*sent, return_exceptions=True)  # The answers are too large.
    assert REPLAYED_BYTES_MAX_OF_ALL / 2 < max(kept) <= REPLAYED_BYTES_MAX_OF_ALL
    assert Replay.bytes_of_all == 0


async def test_what_the_messages_raise_is_raised_and_not_sent_again(stack: AsyncExitStack) -> None:
    replicas = await echoes(stack, 2)
    channel = await connected(stack, *replicas)

    async def broken() -> AsyncIterator[bytes]:
        yield b"a"
        raise errors.NotReady("the recall is away")

    with pytest.raises(errors.NotReady, match="the recall is away"):
        await clients.ask_any(channel.stream_unary(f"/{NAME}/Send"), broken(), OPTIONS)


@pytest.mark.parametrize(("way", "answer"), [(unary, b"?"), (read, b"?"), (send, b"ab"), (talk, b"ab")])
async def test_a_call_to_a_replica_that_hangs_is_made_at_another_one_and_the_replica_is_left(
    stack: AsyncExitStack, way: Callable[[BalancedChannel], Awaitable[bytes]], answer: bytes
) -> None:
    hanging, busy = [await Hanging("hanging").start(), await Echo("busy").start()]
    for echo in (hanging, busy):
        stack.push_async_callback(echo.stop)
    busy.load = Load(backlog_s=60.0, call_s=0.1)
    channel = await connected(stack, hanging, busy)
    assert await way(channel) == b"busy" + answer
    assert [echo.asked for echo in (hanging, busy)] == [1, 1]
    assert channel.replicas.ready == [channel.replicas.choose(Choice())]


async def test_a_call_to_the_only_replica_is_waited_for_though_it_hangs_and_can_be_cancelled(
    stack: AsyncExitStack,
) -> None:
    hanging = await Hanging("hanging").start()
    stack.push_async_callback(hanging.stop)
    channel = await connected(stack, hanging)
    call = asyncio.create_task(ask(channel))
    while channel.replicas.ready:
        await channel.replicas.changed()
    assert "reported nothing" in channel.replicas.choose(Choice()).problem
    await channel.replicas.changed()  # It is silent for twice as long.
    assert (call.done(), hanging.asked) == (False, 1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert hanging.asked == 1
