"""Replicas are found, balanced and left, over real channels."""

import asyncio
import socket
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from prometheus_client import REGISTRY

from services.common import clients, errors, server
from services.common.channels import BalancedChannel, near
from services.common.load import Load
from services.common.replica import Choice
from services.common.replicas import RESOLVE_S, Replicas
from services.common.targets import listed
from tests.echoes import NAME, Echo, ask, connected, echoes
from tests.fakes import PATIENCE_S
from tests.serving import loopback, refused


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
        REGISTRY.get_sample_value("e3rg_replicas", {"component": NAME, "state": state}) for state in ("known", "ready")
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


async def test_a_caller_that_watches_does_not_hold_up_a_stop(stack: AsyncExitStack) -> None:
    stopping = await Echo("stopping").start(grace_s=60 * PATIENCE_S)
    await connected(stack, stopping)
    plain = await stack.enter_async_context(grpc.aio.insecure_channel(stopping.target))
    watching = health_pb2_grpc.HealthStub(plain).Watch(health_pb2.HealthCheckRequest(service=server.READINESS))
    assert (await watching.read()).status == health_pb2.HealthCheckResponse.SERVING
    await stopping.stop()


async def test_the_replica_with_the_least_backlog_is_chosen(stack: AsyncExitStack) -> None:
    busy, free = replicas = await echoes(stack, 2)
    busy.load = Load(backlog_s=3.0, call_s=0.1)
    channel = await connected(stack, *replicas)
    assert [await ask(channel) for _ in range(10)] == ["1 ?"] * 10
    free.load = Load(backlog_s=9.0, call_s=0.1)
    while channel.replicas.choose(Choice()).address == free.target:
        await channel.replicas.changed()
    assert await ask(channel) == "0 ?"


async def test_a_call_that_has_ended_makes_nobody_wait(stack: AsyncExitStack) -> None:
    (echo,) = await echoes(stack, 1)
    echo.load = Load(call_s=60.0)
    channel = await connected(stack, echo)
    waits_s = []
    for _ in range(5):
        await ask(channel)
        await asyncio.sleep(0)
        waits_s.append(channel.replicas.choose(Choice()).wait_s)
    assert waits_s == [0.0] * 5


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
