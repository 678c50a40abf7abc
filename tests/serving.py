"""Servicers on real channels, as a test needs them."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message

from services.common import rpc, server, tracing
from services.common.load import Load
from services.common.settings import ServiceSettings
from tests.fakes import PATIENCE_S


@dataclass(frozen=True)
class Served:
    """A running server and a channel to it."""

    running: server.Running
    channel: grpc.aio.Channel

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.running.port}"


def plain_channel(address: str) -> grpc.aio.Channel:
    """Opens a channel that retries nothing, as a user's own."""
    # gRPC's own pool would give it the retry backoff of an earlier test's channel, when a server gets the same port.
    return grpc.aio.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])


def loopback(**fields: Any) -> ServiceSettings:
    """Settings of a service on a free port."""
    return ServiceSettings(**{"host": "127.0.0.1", "port": 0, "metrics_port": 0, **fields})


@asynccontextmanager
async def serving(
    service: str,
    register: Callable[[grpc.aio.Server], None],
    grace_s: float = 1,
    load: Callable[[], Load] = Load,
    model: Message | None = None,
) -> AsyncIterator[Served]:
    """Serves on a free port, as the service's `__main__` does, and opens a channel to it."""
    stage = service.split(".")[1]
    async with (
        server.running(service, stage, loopback(shutdown_grace_s=grace_s)) as running,
        plain_channel(f"127.0.0.1:{running.port}") as channel,
    ):
        running.serve(register, load, model)
        await running.set_ready()
        yield Served(running, channel)


@contextmanager
def refused(code: grpc.StatusCode, text: str = "") -> Iterator["pytest.ExceptionInfo[grpc.aio.AioRpcError]"]:
    """Expects the call within to end with a status, and with `text` in what is said about it."""
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        yield failure
    assert (failure.value.code(), text) == (code, text), failure.value.details()
    assert text in (failure.value.details() or "")


@dataclass(frozen=True)
class Call:
    """A call that a service has ended: what its log says of it, and under which trace and deadline it ran."""

    method: str
    status: str
    trace_id: str
    remaining_s: float | None


class CallLog(logging.Handler):
    """Gathers the calls of all services of this process as they end."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.calls: list[Call] = []
        self._news = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        found = vars(record)
        if record.getMessage() == "call":
            self.calls.append(Call(found["method"], found["status"], tracing.trace_id(), rpc.remaining_s()))
            self._news.set()

    async def ended(self, method: str, times: int = 1) -> list[Call]:
        """Waits until so many calls of `method` have ended; returns them."""
        async with asyncio.timeout(PATIENCE_S):
            while len(found := [call for call in self.calls if call.method == method]) < times:
                self._news.clear()
                await self._news.wait()
        return found
