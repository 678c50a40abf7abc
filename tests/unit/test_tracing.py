"""Traces of a process whose collector is away."""

import os
import subprocess
import sys

from services.common import tracing

HANGING = """
import threading
from opentelemetry.sdk.trace.export import SpanExporter
from services.common import tracing

class Hanging(SpanExporter):
    def export(self, spans):
        threading.Event().wait()

tracing.configure("test", Hanging())
span = tracing.begin("/e3rg.test.v1.Service/Call", ())
print(tracing.recorded_trace_id(), tracing.headers())
tracing.end(span, "OK", "")
tracing.close()
print("closed")
"""


def test_a_stop_does_not_wait_for_a_collector_that_hangs() -> None:
    done = subprocess.run([sys.executable, "-c", HANGING], capture_output=True, text=True, timeout=120, check=True)
    trace, closed = done.stdout.splitlines()
    assert len(trace.split()[0]) == 32
    assert trace.split()[0] in trace.split(maxsplit=1)[1]
    assert closed == "closed"


def test_without_an_endpoint_nothing_is_recorded_and_a_call_has_a_trace_all_the_same() -> None:
    program = """
from services.common import tracing
tracing.configure("test")
sent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
tracing.begin("/e3rg.test.v1.Service/Call", (("traceparent", sent),))
print(tracing.trace_id(), tracing.recorded_trace_id() or "not recorded")
"""
    environment = {name: value for name, value in os.environ.items() if name not in tracing.ENDPOINTS}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, env=environment)
    assert done.stdout == "0af7651916cd43dd8448eb211c80319c not recorded\n"
