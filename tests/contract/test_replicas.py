"""Replicas are found, balanced and left, over real channels; a call that one of them loses is made at another."""

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from prometheus_client import REGISTRY

from e3rg.replica.v1 import replica_pb2, replica_pb2_grpc
from services.common import clients, errors, server
from services.common.channels import REPLAYED_BYTES_MAX, REPLAYED_BYTES_MAX_OF_ALL, BalancedChannel, Replay, near
from services.common.load import Load
from services.common.replica import Choice
from services.common.replicas import RESOLVE_S, Replicas
from services.common.targets import listed
from tests.fakes import PATIENCE_S
from tests.serving import loopback, refused

NAME = "echo"
OPTIONS = clients.CallOptions(timeout=PATIENCE_S, metadata=())


class Echo:
    """A service whose answers are the messages with its name before; `before` may hold or end a call, `between` too.

    Attributes:
        left_s: Seconds that the last call had until its deadline.
    """

    def __init__(self, name: str) -> None:
        self.name, self.asked, self.left_s = name, 0, 0.0
        self.before: Callable[[Any], Awaitable[None]] | None = None
        self.between: Callable[[Any], Awaitable[None]] | None = None
        self.load = Load()
        self._stack = AsyncExitStack()
        self.running: server.Running | None = None

    @property
    def target(self) -> str:
        assert self.running
        return f"ipv4:127.0.0.1:{self.running.port}"

    async def start(self, grace_s: float = 0) -> "Echo":
        self.running = await self._stack.enter_async_context(
            server.running(NAME, NAME, loopback(shutdown_grace_s=grace_s))
        )
        self.running.serve(self._register, lambda: self.load)
        await self.running.set_ready()
        return self

    async def stop(self) -> None:
        await self._stack.aclose()

    def _register(self, to: Any) -> None:
        handlers = {
            "Ask": grpc.unary_unary_rpc_method_handler(self._ask, bytes, bytes),
            "Read": grpc.unary_stream_rpc_method_handler(self._read, bytes, bytes),
            "Send": grpc.stream_unary_rpc_method_handler(self._send, bytes, bytes),
            "Talk": grpc.stream_stream_rpc_method_handler(self._talk, bytes, bytes),
        }
        to.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(NAME, handlers),))

    async def _begin(self) -> None:
        self.asked += 1
        if self.before:
            await self.before(self)

    async def _ask(self, request: bytes, context: Any) -> bytes:
        self.left_s = context.time_remaining()
        await self._begin()
        return self.name.encode() + request

    async def _read(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        await self._begin()
        yield self.name.encode()
        if self.between:
            await self.between(self)
        yield request

    async def _send(self, requests: AsyncIterator[bytes], context: Any) -> bytes:
        messages = [message async for message in requests]
        await self._begin()
        return self.name.encode() + b"".join(messages)

    async def _talk(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        await self._begin()
        yield self.name.encode()
        async for message in requests:
            yield message


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack, asyncio.timeout(2 * PATIENCE_S):
        yield stack


async def echoes(stack: AsyncExitStack, count: int) -> list[Echo]:
    found = [await Echo(f"{number} ").start() for number in range(count)]
    for echo in found:
        stack.push_async_callback(echo.stop)
    return found


async def connected(stack: AsyncExitStack, *replicas: Echo) -> BalancedChannel:
    targets = ",".join(each.target.removeprefix("ipv4:") for each in replicas)
    channel = await stack.enter_async_context(clients.open_channel(f"ipv4:{targets}", NAME))
    await channel.replicas.wait_ready(len(replicas))
    return channel


async def ask(channel: BalancedChannel) -> str:
    answer: bytes = await channel.unary_unary(f"/{NAME}/Ask")(b"?", **OPTIONS)
    return answer.decode()


async def each(*messages: bytes) -> AsyncIterator[bytes]:
    for message in messages:
        yield message


@pytest.mark.parametrize("count", [1, 2, 3])
async def test_calls_are_spread_over_all_replicas_also_when_a_turn_makes_an_even_number_of_them(
    stack: AsyncExitStack, count: int
) -> None:
    replicas = await echoes(stack, count)
    channel = await connected(stack, *replicas)
    for _ in range(60):  # of two calls each, of which the second is of no weight
        await ask(channel)
        await ask(channel)
    states = [
        REGISTRY.get_sample_value("e3rg_replicas", {"service": NAME, "state": state}) for state in ("known", "ready")
    ]
    assert states == [count, count]
    assert sum(echo.asked for echo in replicas) == 120
    assert min(echo.asked for echo in replicas) > 120 / count / 2


async def test_a_replica_that_the_name_lists_anew_is_used_and_one_that_it_lists_no_more_is_left(
    stack: AsyncExitStack,
) -> None:
    old, new = await echoes(stack, 2)
    listed = [old.target]

    async def resolve(name: str) -> list[str]:
        assert name == "echo.test:50051"
        return listed

    channel = BalancedChannel(Replicas(NAME, "dns:///echo.test:50051", grpc.aio.insecure_channel, resolve=resolve))
    await stack.enter_async_context(channel)
    await channel.replicas.wait_ready()
    assert await ask(channel) == "0 ?"
    listed[:] = [new.target]
    async with asyncio.timeout(RESOLVE_S + PATIENCE_S):
        while [each.address for each in channel.replicas.ready] != [new.target]:
            await channel.replicas.changed()
    assert [await ask(channel) for _ in range(10)] == ["1 ?"] * 10


async def test_a_name_that_cannot_be_resolved_for_a_while_loses_nobody(stack: AsyncExitStack) -> None:
    (echo,) = await echoes(stack, 1)
    looked_up = asyncio.Semaphore(0)
    problems: list[OSError] = []

    async def resolve(name: str) -> list[str]:
        looked_up.release()
        if problems:
            raise problems[0]
        return [echo.target]

    channel = BalancedChannel(Replicas(NAME, "echo.test:50051", grpc.aio.insecure_channel, resolve=resolve))
    await stack.enter_async_context(channel)
    await channel.replicas.wait_ready()
    problems.append(OSError("the name server is away"))
    await looked_up.acquire()
    await looked_up.acquire()
    assert await ask(channel) == "0 ?"


async def test_a_name_that_lists_none_is_named(stack: AsyncExitStack) -> None:
    async def resolve(name: str) -> list[str]:
        raise OSError("no such name")

    channel = BalancedChannel(Replicas(NAME, "echo.test:50051", grpc.aio.insecure_channel, resolve=resolve))
    await stack.enter_async_context(channel)
    problem = r"no replica is known at echo.test:50051: echo.test:50051 cannot be resolved \(no such name\)"
    with pytest.raises(errors.NotReady, match=problem):
        await ask(channel)


async def test_a_replica_that_ends_loses_no_call(stack: AsyncExitStack) -> None:
    replicas = await echoes(stack, 2)
    channel = await connected(stack, *replicas)
    answers: Counter[str] = Counter()
    ending = asyncio.create_task(replicas[0].stop())
    while not ending.done() or len(answers) == 0:
        answers[await ask(channel)] += 1
    assert [await ask(channel) for _ in range(10)] == ["1 ?"] * 10


async def test_a_replica_that_drains_finishes_its_call_and_gets_no_more(stack: AsyncExitStack) -> None:
    draining, other = replicas = [await Echo("draining ").start(grace_s=PATIENCE_S), await Echo("other ").start()]
    stack.push_async_callback(other.stop)
    held = asyncio.Event()

    async def hold(echo: Echo) -> None:
        await held.wait()

    draining.before = hold
    channel = await connected(stack, *replicas)
    calls = [asyncio.create_task(ask(channel)) for _ in range(10)]
    while draining.asked + other.asked < 10:
        await channel.replicas.changed()
    begun = draining.asked
    assert begun
    stopping = asyncio.create_task(draining.stop())
    while len(channel.replicas.ready) == 2:
        await channel.replicas.changed()
    assert [await ask(channel) for _ in range(10)] == ["other ?"] * 10
    held.set()
    assert Counter(await asyncio.gather(*calls))["draining ?"] == begun == draining.asked
    await stopping


async def lose(echo: Echo) -> None:
    """Ends the call as when its replica has gone."""
    echo.before = None
    raise errors.NotReady("gone")


async def unary(channel: BalancedChannel) -> bytes:
    return (await ask(channel)).encode()


async def read(channel: BalancedChannel) -> bytes:
    return b"".join([part async for part in channel.unary_stream(f"/{NAME}/Read")(b"?", **OPTIONS)])


async def send(channel: BalancedChannel) -> bytes:
    answer: bytes = await clients.ask_any(channel.stream_unary(f"/{NAME}/Send"), each(b"a", b"b"), OPTIONS)
    return answer


async def talk(channel: BalancedChannel) -> bytes:
    method = channel.stream_stream(f"/{NAME}/Talk")
    return b"".join([part async for part in clients.converse_any(method, each(b"a", b"b"), OPTIONS)])


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


async def test_a_caller_that_watches_does_not_hold_up_a_stop(stack: AsyncExitStack) -> None:
    stopping = await Echo("stopping").start(grace_s=60 * PATIENCE_S)
    await connected(stack, stopping)
    plain = await stack.enter_async_context(grpc.aio.insecure_channel(stopping.target))
    watching = health_pb2_grpc.HealthStub(plain).Watch(health_pb2.HealthCheckRequest(service=server.READINESS))
    assert (await watching.read()).status == health_pb2.HealthCheckResponse.SERVING
    await stopping.stop()


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


async def test_the_replica_with_the_least_backlog_is_chosen(stack: AsyncExitStack) -> None:
    busy, free = replicas = await echoes(stack, 2)
    busy.load = Load(backlog_s=3.0, call_s=0.1)
    channel = await connected(stack, *replicas)
    assert [await ask(channel) for _ in range(10)] == ["1 ?"] * 10
    free.load = Load(backlog_s=9.0, call_s=0.1)
    while channel.replicas.choose(Choice()).address == free.target:
        await channel.replicas.changed()
    assert await ask(channel) == "0 ?"


async def test_calls_of_one_key_meet_one_replica_until_it_is_slower(stack: AsyncExitStack) -> None:
    replicas = await echoes(stack, 3)
    channel = await connected(stack, *replicas)
    homes = {}
    for key in "abcdefghijkl":
        near.set(key)
        (homes[key],) = {await ask(channel) for _ in range(5)}
    assert len(set(homes.values())) > 1
    near.set("a")
    home = replicas[int(homes["a"].split()[0])]
    home.load = Load(backlog_s=5.0, call_s=0.1)
    while channel.replicas.choose(Choice(), "a").address == home.target:
        await channel.replicas.changed()
    assert await ask(channel) != homes["a"]


async def test_a_server_that_reports_no_load_is_used_as_an_idle_one(stack: AsyncExitStack) -> None:
    older = grpc.aio.server()

    async def answer(request: bytes, context: Any) -> bytes:
        return b"older"

    handlers = {"Ask": grpc.unary_unary_rpc_method_handler(answer, bytes, bytes)}
    older.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(NAME, handlers),))
    port = older.add_insecure_port("127.0.0.1:0")
    await older.start()
    stack.push_async_callback(older.stop, None)
    channel = await stack.enter_async_context(clients.open_channel(f"127.0.0.1:{port}"))
    await channel.channel_ready()
    assert await ask(channel) == "older"


class Hanging(Echo):
    """Reports that it is idle, once, and answers nothing; its connection lives on."""

    async def start(self, grace_s: float = 0) -> "Echo":
        silent = grpc.aio.server()
        replica_pb2_grpc.add_ReplicaServiceServicer_to_server(_Silent(), silent)
        self.before = self._hang
        self._register(silent)
        self._port = silent.add_insecure_port("127.0.0.1:0")
        await silent.start()
        self._stack.push_async_callback(silent.stop, None)
        return self

    @property
    def target(self) -> str:
        return f"ipv4:127.0.0.1:{self._port}"

    async def _hang(self, echo: Echo) -> None:
        await asyncio.Event().wait()


class _Silent(replica_pb2_grpc.ReplicaServiceServicer):
    async def WatchReplica(  # noqa: N802
        self, request: replica_pb2.WatchReplicaRequest, context: Any
    ) -> AsyncIterator[replica_pb2.WatchReplicaResponse]:
        yield replica_pb2.WatchReplicaResponse(ready=True)
        await asyncio.Event().wait()


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


async def test_a_call_to_the_only_replica_is_waited_for_though_it_reports_nothing(stack: AsyncExitStack) -> None:
    hanging = await Hanging("hanging").start()
    stack.push_async_callback(hanging.stop)
    channel = await connected(stack, hanging)
    call = asyncio.create_task(ask(channel))
    while channel.replicas.ready:
        await channel.replicas.changed()
    assert "reported nothing" in channel.replicas.choose(Choice()).problem
    assert not call.done()
    call.cancel()


async def test_a_call_that_is_cancelled_while_its_replica_hangs_is_cancelled(stack: AsyncExitStack) -> None:
    hanging, busy = [await Hanging("hanging").start(), await Echo("busy").start()]
    for echo in (hanging, busy):
        stack.push_async_callback(echo.stop)
    busy.load = Load(backlog_s=60.0, call_s=0.1)
    channel = await connected(stack, hanging, busy)
    call = asyncio.create_task(ask(channel))
    while len(channel.replicas.ready) == 2:
        await channel.replicas.changed()
        call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert busy.asked == 0


async def test_a_service_whose_model_loads_says_so(stack: AsyncExitStack) -> None:
    running = await stack.enter_async_context(server.running(NAME, NAME, loopback()))
    channel = await stack.enter_async_context(clients.open_channel(f"127.0.0.1:{running.port}"))
    with refused(grpc.StatusCode.UNAVAILABLE, "the model is being loaded; retry"):
        await ask(channel)


def test_a_name_of_both_families_of_addresses_lists_each_replica_once() -> None:
    first, second = (socket.AF_INET, ("10.0.0.1", 1)), (socket.AF_INET6, ("fd00::1", 1, 0, 0))
    both = [(family, 1, 6, "", where) for family, where in (first, second)]
    assert listed(both, "1") == ["ipv4:10.0.0.1:1"]
    assert listed(both[::-1], "1") == ["ipv6:[fd00::1]:1"]
