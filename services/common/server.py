"""Runs a gRPC server: health, reflection, metrics, and a stop that is the start in reverse."""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from threading import Thread
from wsgiref.simple_server import WSGIServer

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from prometheus_client import start_http_server

from services.common.media import CHUNK_BYTES_MAX
from services.common.rpc import Interceptor

log = logging.getLogger(__name__)

READINESS = "readiness"
"""Health service name that is green only while the service can work."""

KEEPALIVE_S = 5
"""A connection on which nothing arrives for so long is asked whether it lives."""

MESSAGE_BYTES_MAX = 2 * CHUNK_BYTES_MAX


@dataclass(frozen=True)
class Running:
    """A server that accepts calls. `port` is the one that it really listens on."""

    port: int
    health: health.aio.HealthServicer

    async def set_ready(self, ready: bool = True) -> None:
        """Turns the readiness light green, or red."""
        await self.health.set(
            READINESS, health_pb2.HealthCheckResponse.SERVING if ready else health_pb2.HealthCheckResponse.NOT_SERVING
        )


@asynccontextmanager
async def running(
    service: str | tuple[str, ...],
    stage: str,
    register: Callable[[grpc.aio.Server], None],
    *,
    host: str,
    port: int,
    metrics_port: int = 0,
    grace_s: float = 20,
) -> AsyncIterator[Running]:
    """Serves until the block ends; then health goes red, running calls drain, and the port closes.

    Args:
        service: Full name of the gRPC service, or of several, for reflection.
        stage: Name of the service in metrics and logs.
        register: Adds the servicer to the server.
        host: Address to listen on.
        port: 0 takes a free one.
        metrics_port: 0 switches the Prometheus page off.
        grace_s: Seconds that running calls get to finish.

    Raises:
        OSError: The port is taken.
    """
    server = grpc.aio.server(
        interceptors=[Interceptor(stage)],
        options=[
            ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
            ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
            ("grpc.so_reuseport", 0),
            # Callers ask a silent connection whether it lives, and shall not be sent away for it.
            ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_S * 500),
            ("grpc.keepalive_permit_without_calls", 1),
        ],
    )
    register(server)
    lights = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(lights, server)
    services = (service,) if isinstance(service, str) else service
    names = (*services, health.SERVICE_NAME, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server)
    try:
        bound = server.add_insecure_port(f"{host}:{port}")
    except RuntimeError as error:
        raise OSError(f"cannot listen on {host}:{port}: {error}") from error
    await server.start()
    state = Running(bound, lights)
    await state.set_ready(False)
    page = _metrics_page(host, metrics_port) if metrics_port else None
    log.info("listening", extra={"port": bound})
    try:
        yield state
    finally:
        await state.set_ready(False)
        log.info("draining")
        await server.stop(grace_s)
        if page:
            page[0].shutdown()
            page[0].server_close()
            page[1].join()
        log.info("stopped")


def _metrics_page(host: str, port: int) -> tuple[WSGIServer, Thread]:
    try:
        return start_http_server(port, host)
    except OSError as error:
        problem = f"cannot serve the metrics page on {host}:{port}: {error}"
        raise OSError(f"{problem}; choose another METRICS_PORT") from error


async def stop_signal() -> None:
    """Waits for SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await stop.wait()
