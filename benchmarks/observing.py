"""Measures what metrics and traces cost: turns a second without them, with metrics, and with traces too.

    python -m benchmarks.observing [--rounds N] [--seconds S]

Every service runs in one process over loopback, with models that answer at once, so that nothing is measured but the
services themselves. Each round runs all modes one after the other; "without" makes all metrics do nothing.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
from typing import Any

from prometheus_client import Counter, Gauge, Histogram

from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from e3rg.orchestrator.v1 import orchestrator_pb2_grpc
from tests.deployment import Cast, deployed
from tests.support.spans import collecting

MODES = ("without", "metrics", "traces")
CALLERS = 4
WARM_TURNS = 20


def without_metrics() -> None:
    """Make all metrics do nothing."""

    def nothing(*_: object, **__: object) -> None:
        return None

    for kind, names in ((Counter, ("inc",)), (Gauge, ("inc", "dec", "set")), (Histogram, ("observe",))):
        for name in names:
            setattr(kind, name, nothing)


async def rate(duration_s: float) -> float:
    """Return the turns a second of a few callers who make one after the other."""
    actors = Cast()
    actors.add_identity()
    async with deployed(actors) as deployment:
        channel = deployment.served["orchestrator"].channel
        stub: Any = orchestrator_pb2_grpc.OrchestratorServiceStub(channel)

        async def turn() -> None:
            header = pb.RespondHeader(text="I lost my job.", identity="ada")
            events = [event async for event in stub.Respond(iter([pb.RespondRequest(header=header)]))]
            assert events[-1].HasField("done")

        for _ in range(WARM_TURNS):
            await turn()
        count, start_s = 0, time.monotonic()

        async def caller() -> None:
            nonlocal count
            while time.monotonic() < start_s + duration_s:
                await turn()
                count += 1

        await asyncio.gather(*(caller() for _ in range(CALLERS)))
        return count / (time.monotonic() - start_s)


def measured(mode: str, duration_s: float, collector: str) -> float:
    """Return the turns a second of a process of its own in a mode."""
    command = [sys.executable, "-m", "benchmarks.observing", "--mode", mode, "--seconds", str(duration_s)]
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{collector}"} if mode == "traces" else {}
    result = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **variables})
    return float(result.stdout)


def main() -> int:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="rounds of all modes")
    parser.add_argument("--seconds", type=float, default=8.0, help="seconds of each mode in a round")
    parser.add_argument("--mode", choices=MODES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.mode:
        if options.mode == "without":
            without_metrics()
        print(asyncio.run(rate(options.seconds)))
        return 0
    rates: dict[str, list[float]] = {mode: [] for mode in MODES}
    with collecting() as collector:
        for _ in range(options.rounds):
            for mode in MODES:
                rates[mode].append(measured(mode, options.seconds, collector.address))
        spans = collector.count
    print(f"turns a second, all services in one process; median of {options.rounds} rounds (least and most)")
    for mode in MODES:
        ratios = [mine / base for mine, base in zip(rates[mode], rates["without"], strict=True)]
        row = f"{statistics.median(rates[mode]):7.1f} ({min(rates[mode]):.1f} to {max(rates[mode]):.1f})"
        print(f"  {mode:8} {row:28} {statistics.median(ratios):5.2f} of without")
    print(f"{spans} spans came to the collector")
    return 0


if __name__ == "__main__":
    sys.exit(main())
