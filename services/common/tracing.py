"""Traces: the spans of a call through all services, sent by OTLP where the environment names an endpoint.

The variables are OpenTelemetry's own: `OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_TRACES_SAMPLER` and the others.
Without an endpoint no span is recorded, but every call has a trace id, for the log and the caller.
"""

import os
import time
from collections.abc import Iterable, Mapping
from threading import Thread

from opentelemetry import context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import (
    Span,
    SpanKind,
    Status,
    StatusCode,
    format_trace_id,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from services.common import __version__

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""Variables that name the endpoint."""
FLUSH_S = 2.0
"""Longest time that a stop waits for the last spans to be sent."""

_NAME = "e3rg"
_propagator = TraceContextTextMapPropagator()
_provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
_tracer = _provider.get_tracer(_NAME)


def configure(component: str, exporter: SpanExporter | None = None) -> None:
    """Record the spans of this process, where there is an endpoint.

    Args:
        component: Name of the service.
        exporter: Where to send them instead.
    """
    global _provider, _tracer  # noqa: PLW0603  # one for the process, as the logs and the metrics
    if not (exporter or any(os.environ.get(name) for name in ENDPOINTS)):
        return
    if not exporter:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

        exporter = OTLPSpanExporter()
    name = os.environ.get("OTEL_SERVICE_NAME") or f"e3rg-{component}"
    resource = Resource.create({"service.name": name, "service.version": __version__})
    _provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    _provider.add_span_processor(BatchSpanProcessor(exporter))
    _tracer = _provider.get_tracer(_NAME, __version__)


def close() -> None:
    """Send the last spans; blocks for `FLUSH_S` at most."""
    # On a thread: the exporter's own time limit does not count its retries.
    flushing = Thread(target=_provider.force_flush, name="flush", daemon=True)
    flushing.start()
    flushing.join(FLUSH_S)


def trace_id() -> str:
    """Return the trace id (32 hex digits) of the call being served; empty outside of one."""
    found = get_current_span().get_span_context()
    return format_trace_id(found.trace_id) if found.is_valid else ""


def recorded_trace_id() -> str:
    """Return the same where the trace is recorded, else the empty string."""
    span = get_current_span()
    return trace_id() if span.is_recording() else ""


def begin(method: str, metadata: Iterable[tuple[str, str | bytes]]) -> Span:
    """Begin the span of a call that is served, a child of the caller's, and return it.

    Args:
        method: Its full name, `/package.Service/Method`.
        metadata: What the caller sent.
    """
    carrier = {key: value for key, value in metadata if isinstance(value, str)}
    parent = _propagator.extract(carrier, context.Context())
    service, _, name = method.strip("/").partition("/")
    attributes = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": name}
    span = _tracer.start_span(f"{service}/{name}", parent, SpanKind.SERVER, attributes)
    # Never detached: a call is served by a task with a context of its own, and may be closed from another one.
    context.attach(set_span_in_context(span))
    return span


def end(span: Span, status: str, problem: str) -> None:
    """End the span of a call.

    Args:
        span: What `begin` returned.
        status: Name of the call's gRPC status.
        problem: What was wrong; empty when nothing was.
    """
    span.set_attribute("rpc.grpc.status", status)
    if problem:
        span.set_status(Status(StatusCode.ERROR, problem))
    span.end()


def headers() -> tuple[tuple[str, str], ...]:
    """Return the metadata that make a call part of this trace; none outside of a call."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier)
    return tuple(carrier.items())


def add(name: str, start_s: float, end_s: float, attributes: Mapping[str, str | float] | None = None) -> None:
    """Add a span that has ended to the one of the call being served.

    Args:
        name: Its name.
        start_s: When it began (monotonic).
        end_s: When it ended.
        attributes: More of it.
    """
    if get_current_span().is_recording():
        offset_s = time.time() - time.monotonic()
        span = _tracer.start_span(name, attributes=attributes, start_time=_nanoseconds(start_s + offset_s))
        span.end(_nanoseconds(end_s + offset_s))


def _nanoseconds(time_s: float) -> int:
    return round(time_s * 1e9)
