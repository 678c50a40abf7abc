"""A replica that hangs: its connection stays open, and nothing comes of it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest

from e3rg.mllm.v1 import mllm_pb2 as pb
from e3rg.mllm.v1 import mllm_pb2_grpc
from emotions import Wheel
from services.common import clients
from services.common.clients import KEEPALIVE_TIMEOUT_S
from services.common.server import KEEPALIVE_S
from tests.fake_voters import FakeLead
from tests.fakes import PATIENCE_S
from tests.model_services import serving_mllm
from tests.support.s3_proxy import Hold, S3Proxy

if TYPE_CHECKING:
    from e3rg.mllm.v1.mllm_pb2_grpc import MllmServiceAsyncStub as Stub

ONE, OTHER = "the one that will hang", "the other"


def replica(name: str) -> FakeLead:
    lead = FakeLead({})
    lead.card = replace(lead.card, model=name)
    return lead


@pytest.fixture
async def ports(wheel: Wheel) -> AsyncIterator[list[int]]:
    async with AsyncExitStack() as stack:
        both = [await stack.enter_async_context(serving_mllm("fake", replica(name), wheel)) for name in (ONE, OTHER)]
        yield [each.running.port for each in both]


@pytest.fixture
def proxy(ports: list[int]) -> Iterator[S3Proxy]:
    """Stands before the one."""
    proxy = S3Proxy(ports[0])
    yield proxy
    proxy.close()


async def test_a_replica_that_hangs_leaves_the_round_and_the_call_that_it_holds_is_made_again(
    ports: list[int], proxy: S3Proxy
) -> None:
    async with clients.open_channel(f"ipv4:{proxy.endpoint},127.0.0.1:{ports[1]}") as channel:
        stub = cast("Stub", mllm_pb2_grpc.MllmServiceStub(channel))

        async def asked(timeout_s: float) -> str:
            return (await stub.GetModel(pb.GetModelRequest(), timeout=timeout_s)).card.model

        await channel.replicas.wait_ready(2)
        met: set[str] = set()
        async with asyncio.timeout(PATIENCE_S):
            while met != {ONE, OTHER}:
                met.add(await asked(PATIENCE_S))
        proxy.responses = held = Hold()
        alive_s = KEEPALIVE_S + KEEPALIVE_TIMEOUT_S + PATIENCE_S
        assert await asyncio.gather(*(asked(alive_s) for _ in range(4))) == [OTHER] * 4
        assert held.reached.is_set()
        # Nobody is sent there any more: these would not be answered in time.
        assert [await asked(KEEPALIVE_TIMEOUT_S / 2) for _ in range(8)] == [OTHER] * 8
