"""A collector of traces: OTLP over gRPC, as services send it."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc


@dataclass(frozen=True)
class Span:
    """A span, with the name of the service that sent it."""

    service: str
    name: str
    id: bytes
    parent: bytes
    start_ns: int
    end_ns: int
    attributes: dict[str, str]
    problem: str


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Takes spans, and gives those of a trace."""

    def __init__(self) -> None:
        self.address = ""
        self._spans: dict[str, list[Span]] = {}
        self._news = threading.Condition()

    def Export(  # noqa: N802  # the contract's name
        self, request: pb.ExportTraceServiceRequest, context: Any
    ) -> pb.ExportTraceServiceResponse:
        """Take spans."""
        with self._news:
            for resource in request.resource_spans:
                service = _texts(resource.resource.attributes)["service.name"]
                for scope in resource.scope_spans:
                    for each in scope.spans:
                        span = Span(
                            service,
                            each.name,
                            each.span_id,
                            each.parent_span_id,
                            each.start_time_unix_nano,
                            each.end_time_unix_nano,
                            _texts(each.attributes),
                            each.status.message,
                        )
                        self._spans.setdefault(each.trace_id.hex(), []).append(span)
            self._news.notify_all()
        return pb.ExportTraceServiceResponse()

    @property
    def count(self) -> int:
        """Number of spans so far."""
        return sum(len(spans) for spans in self._spans.values())

    def saw_problem(self, name: str, named: str) -> bool:
        """Tell whether a call whose span has this name failed with a reason that names something, now or soon."""

        def is_seen() -> bool:
            spans = (each for spans in self._spans.values() for each in spans if each.name == name)
            return any(named in each.problem for each in spans)

        with self._news:
            return self._news.wait_for(is_seen, timeout=60)

    def of(self, trace_id: str, services: set[str]) -> list[Span]:
        """Return the spans of a trace, once the parents of all have come, and some of so many services."""
        with self._news:
            assert self._news.wait_for(lambda: self._is_whole(trace_id, services), timeout=60), self._spans
            return list(self._spans[trace_id])

    def _is_whole(self, trace_id: str, services: set[str]) -> bool:
        spans = self._spans.get(trace_id, [])
        parents = {each.parent for each in spans} - {each.id for each in spans}
        return services <= {each.service for each in spans} and parents == {b""}


@contextmanager
def collecting() -> Iterator[Collector]:
    """Serve a collector on a free port."""
    collector = Collector()
    server = grpc.server(ThreadPoolExecutor(2))
    add: Any = trace_service_pb2_grpc.add_TraceServiceServicer_to_server
    add(collector, server)
    collector.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield collector
    finally:
        server.stop(None).wait()


def _texts(attributes: Any) -> dict[str, str]:
    return {each.key: each.value.string_value for each in attributes}
