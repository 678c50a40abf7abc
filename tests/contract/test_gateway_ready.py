"""The gateway is ready once understanding and memory were, and stays so; its status counts replicas."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.orchestrator.v1 import orchestrator_pb2_grpc
from services.common import server
from tests.fakes import PATIENCE_S
from tests.ports import HeldPort
from tests.serving import loopback, plain_channel

NEEDED = ("understanding", "memory")
SERVING, RED = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING


class Gateway:
    """The process, and services at its addresses that report their readiness and nothing else."""

    def __init__(self, stack: AsyncExitStack, ports: dict[str, HeldPort]) -> None:
        self._stacks = {name: AsyncExitStack() for name in NEEDED}
        self._ports = ports
        for each in self._stacks.values():
            stack.push_async_callback(each.aclose)
        channel = plain_channel(f"127.0.0.1:{ports['orchestrator'].number}")
        stack.push_async_callback(channel.close)
        self.health: Any = health_pb2_grpc.HealthStub(channel)
        self._stub: Any = orchestrator_pb2_grpc.OrchestratorServiceStub(channel)

    async def start(self, name: str) -> None:
        settings = loopback(port=self._ports[name].number, shutdown_grace_s=0)
        running = await self._stacks[name].enter_async_context(server.running("x", name, settings))
        running.serve(lambda to: to.add_generic_rpc_handlers(()))
        await running.set_ready()

    async def stop(self, name: str) -> None:
        await self._stacks[name].aclose()

    async def light(self) -> int:
        request = health_pb2.HealthCheckRequest(service=server.READINESS)
        return int((await self.health.Check(request, wait_for_ready=True, timeout=PATIENCE_S)).status)

    async def replicas(self, name: str) -> tuple[int, int]:
        """Return how many of a service are listed, and how many take calls."""
        found = (await self._stub.GetStatus(pb.GetStatusRequest(), timeout=PATIENCE_S)).services
        (status,) = [each for each in found if each.name == name]
        return status.replicas, status.replicas_ready

    async def until(self, name: str, replicas: tuple[int, int]) -> None:
        while await self.replicas(name) != replicas:
            pass


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    async with AsyncExitStack() as stack, asyncio.timeout(3 * PATIENCE_S):
        names = (*NEEDED, "tts", "video", "orchestrator")
        ports = {name: stack.enter_context(HeldPort()) for name in names}
        settings = {
            "HOST": "127.0.0.1",
            "PORT": str(ports["orchestrator"].number),
            "METRICS_PORT": "0",
            **{f"{name.upper()}_ADDRESS": f"127.0.0.1:{ports[name].number}" for name in names[:-1]},
        }
        environment = os.environ | {f"E3RG_ORCHESTRATOR_{name}": value for name, value in settings.items()}
        process = await asyncio.create_subprocess_exec(sys.executable, "-m", "orchestrator", env=environment)
        yield Gateway(stack, ports)
        process.terminate()
        await process.wait()


async def test_the_gateway_waits_for_understanding_and_memory_and_bears_their_loss(gateway: Gateway) -> None:
    assert await gateway.light() == RED
    await gateway.start("understanding")
    await gateway.until("understanding", (1, 1))
    assert await gateway.light() == RED
    watch = gateway.health.Watch(health_pb2.HealthCheckRequest(service=server.READINESS))
    assert (await watch.read()).status == RED
    await gateway.start("memory")
    assert (await watch.read()).status == SERVING
    watch.cancel()
    assert await gateway.replicas("tts") == (1, 0)
    for name in NEEDED:
        await gateway.stop(name)
        await gateway.until(name, (1, 0))
    assert await gateway.light() == SERVING
