"""Runs a gRPC server: health, reflection, metrics, and a stop that is the start in reverse."""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import ExitStack, asynccontextmanager
from threading import Thread
from typing import Any, Protocol, TypeVar
from wsgiref.simple_server import WSGIServer

import grpc
from google.protobuf.message import Message
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from prometheus_client import start_http_server

from e3rg.replica.v1 import replica_pb2, replica_pb2_grpc
from services.common import metrics, tracing
from services.common.errors import NotReady
from services.common.health import Health
from services.common.load import Load, LoadReporter
from services.common.media import CHUNK_BYTES_MAX
from services.common.rpc import Interceptor
from services.common.settings import ServiceSettings
from services.common.start import STOPPED
from services.common.tls import TlsFiles, server_credentials

log = logging.getLogger(__name__)

READINESS = "readiness"
"""Health service name that is green only while the service can work."""

KEEPALIVE_S = 5
"""A connection on which nothing arrives for so long is asked whether it lives."""

MESSAGE_BYTES_MAX = 2 * CHUNK_BYTES_MAX

Result = TypeVar("Result")


class Closes(Protocol):
    """Something that is closed when it is needed no more."""

    def close(self) -> None:
        """Free what it holds."""


Model = TypeVar("Model", bound=Closes)


class Running:
    """A server that accepts calls, and refuses those of its service until it is given one.

    Attributes:
        port: The one that it really listens on.
    """

    def __init__(self, port: int, lights: Sequence[Health], reporter: LoadReporter) -> None:
        self.port = port
        self._lights, self._reporter = lights, reporter
        self.handlers = _Handlers()

    async def loaded(self, load: Callable[[], Result]) -> Result:
        """Return what `load` returns, which takes its time on a thread of its own while health is red."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[Result] = loop.create_future()

        def work() -> None:
            try:
                loop.call_soon_threadsafe(_settle, result, load(), None)
            except BaseException as error:
                loop.call_soon_threadsafe(_settle, result, None, error)

        # A daemon: a process that is stopped while its model loads does not wait for it.
        Thread(target=work, name="load", daemon=True).start()
        return await result

    def serve(
        self, register: Callable[[Any], None], load: Callable[[], Load] = Load, model: Message | None = None
    ) -> None:
        """Answer calls from now on.

        Args:
            register: Adds the servicer to the server that it is given.
            load: Tells how much work is promised, for callers that choose among replicas.
            model: What the service says of its model, for callers that watch it; None without a model.
        """
        register(self.handlers)
        self._reporter.load = load
        if model is not None:
            self._reporter.set_model(model)

    async def set_ready(self, ready: bool = True) -> None:
        """Turns the readiness light green, or red."""
        self._reporter.set_ready(ready)
        status = health_pb2.HealthCheckResponse.SERVING if ready else health_pb2.HealthCheckResponse.NOT_SERVING
        for light in self._lights:
            await light.set(READINESS, status)


class _Handlers(grpc.GenericRpcHandler):
    """Handlers that may come when the server runs already; takes the place of the server where they are added."""

    def __init__(self) -> None:
        self._handlers: list[grpc.GenericRpcHandler] = []

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        """Add handlers."""
        self._handlers += handlers

    def add_registered_method_handlers(self, service: str, handlers: object) -> None:
        """Do nothing: these are among the generic ones too."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Return the handler of a call; None when there is none."""
        found = (each.service(handler_call_details) for each in self._handlers)
        handler = next((each for each in found if each), None)
        if handler or self._handlers:
            return handler
        return grpc.unary_unary_rpc_method_handler(_refuse, bytes, bytes)


@asynccontextmanager
async def running(service: str | tuple[str, ...], component: str, settings: ServiceSettings) -> AsyncIterator[Running]:
    """Serves until the block ends; then health goes red, running calls drain, and the port closes.

    Args:
        service: Full name of the gRPC service, or of several, for reflection.
        component: Name of the service in metrics, logs and traces.
        settings: Where to listen, and how.

    Raises:
        OSError: A port is taken, or a file of TLS cannot be read.
    """
    tracing.configure(component)
    metrics.show_build(component)
    interceptor = Interceptor(component)
    server = _server(interceptor)
    reporter = LoadReporter(lambda: interceptor.calls)
    replica_pb2_grpc.add_ReplicaServiceServicer_to_server(reporter, server)
    lights = [Health()]
    health_pb2_grpc.add_HealthServicer_to_server(lights[0], server)
    own = replica_pb2.DESCRIPTOR.services_by_name["ReplicaService"].full_name
    services = (service,) if isinstance(service, str) else service
    reflection.enable_server_reflection((*services, own, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    probed = None
    if settings.health_port:
        probed = _server()
        lights.append(Health())
        health_pb2_grpc.add_HealthServicer_to_server(lights[1], probed)
        _listen(probed, settings.host, settings.health_port, None)
    state = Running(_listen(server, settings.host, settings.port, settings.server_tls), lights, reporter)
    server.add_generic_rpc_handlers((state.handlers,))
    await state.set_ready(False)
    for each in (server, probed):
        if each:
            await each.start()
    page = None
    try:
        page = _metrics_page(settings.host, settings.metrics_port) if settings.metrics_port else None
        log.info("listening", extra={"port": state.port})
        yield state
    finally:
        await state.set_ready(False)
        reporter.stop()
        for light in lights:
            light.stop()
        log.info("draining")
        await server.stop(settings.shutdown_grace_s)
        if probed:
            await probed.stop(None)
        await asyncio.to_thread(tracing.close)
        if page:
            page[0].shutdown()
            page[0].server_close()
            page[1].join()
        log.info("stopped")


def _server(*interceptors: grpc.aio.ServerInterceptor) -> grpc.aio.Server:
    return grpc.aio.server(
        interceptors=interceptors,
        options=[
            ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
            ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
            ("grpc.so_reuseport", 0),
            # Callers ask a silent connection whether it lives, and shall not be sent away for it.
            ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_S * 500),
            ("grpc.keepalive_permit_without_calls", 1),
        ],
    )


def _listen(server: grpc.aio.Server, host: str, port: int, tls: TlsFiles | None) -> int:
    try:
        if tls:
            return server.add_secure_port(f"{host}:{port}", server_credentials(tls))
        return server.add_insecure_port(f"{host}:{port}")
    except RuntimeError as error:
        raise OSError(f"cannot listen on {host}:{port}: {error}") from error


def _settle(result: "asyncio.Future[Any]", value: Any, error: BaseException | None) -> None:
    if result.cancelled():
        return
    if error:
        result.set_exception(error)
    else:
        result.set_result(value)


async def _refuse(request: Any, context: Any) -> Any:
    raise NotReady("the model is being loaded; retry")


def _metrics_page(host: str, port: int) -> tuple[WSGIServer, Thread]:
    try:
        return start_http_server(port, host)
    except OSError as error:
        problem = f"cannot serve the metrics page on {host}:{port}: {error}"
        raise OSError(f"{problem}; choose another METRICS_PORT") from error


async def until_stopped(state: Running, started: asyncio.Event, opening: Coroutine[Any, Any, object]) -> None:
    """Turn readiness green when `opening` has ended, and wait for SIGTERM or SIGINT.

    Raises:
        SystemExit: The signal came before the start was over.
    """
    stopped = asyncio.create_task(stop_signal())
    opened = asyncio.create_task(opening)
    try:
        await asyncio.wait({stopped, opened}, return_when=asyncio.FIRST_COMPLETED)
        if opened.done():
            await opened  # Raises what went wrong.
            await state.set_ready()
            started.set()
            await stopped
        else:
            raise SystemExit(STOPPED)
    finally:
        stopped.cancel()
        opened.cancel()
        await asyncio.gather(stopped, opened, return_exceptions=True)


async def serve_model(
    service: str,
    component: str,
    settings: ServiceSettings,
    started: asyncio.Event,
    load: Callable[[], Model],
    make: Callable[[Model, ExitStack], tuple[Callable[[Any], None], Callable[[], Load], Message]],
) -> None:
    """Serve one model until SIGTERM: the port opens at once, the model is loaded, and closed after the last call.

    Args:
        service: See `running`.
        component: See `running`.
        settings: See `running`.
        started: Set once the service is ready.
        load: Loads the model; blocks.
        make: Makes the arguments of `Running.serve` for the model; what it pushes is closed before the model.
    """
    with ExitStack() as closing:
        async with running(service, component, settings) as state:

            async def open_() -> None:
                model = await state.loaded(load)
                closing.callback(model.close)
                state.serve(*make(model, closing))

            await until_stopped(state, started, open_())


async def stop_signal() -> None:
    """Waits for SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await stop.wait()
