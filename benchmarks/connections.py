"""Measures what a connection to a replica costs: opening it, and its report of readiness and load.

    python -m benchmarks.connections [--calls 200]

A server and its caller run in one process on the loopback. A row is a call of GetHealth on an open connection, on a new
one, and on a new one with mutual TLS and the chart's kind of certificates (ECDSA, P-256). The last line is the
processor time of both sides of one idle replica: its name looked up, its reports sent and read.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from services.common import clients, server
from services.common.settings import ServiceSettings
from services.common.tls import TlsFiles, channel_credentials

IDLE_S = 10.0
OPTIONS = [("grpc.use_local_subchannel_pool", 1)]  # Without it, channels to one address share a connection.


def make_certificate(folder: Path) -> TlsFiles:
    """Make a certificate that certifies itself, for server and caller."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    about = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "1",
        *about,
    ]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return TlsFiles(certificate, certificate, key)


@asynccontextmanager
async def serving(files: TlsFiles | None) -> AsyncIterator[int]:
    """Serve health and reports on a free port until the block ends; yield the port."""
    settings = ServiceSettings(
        port=0,
        metrics_port=0,
        tls_certificate_file=files.certificate if files else None,
        tls_key_file=files.key if files else None,
        tls_client_ca_file=files.authorities if files else None,
    )
    async with server.running((), "benchmark", settings) as running:
        await running.set_ready()
        yield running.port


async def ask(channel: grpc.aio.Channel) -> None:
    """Call once."""
    await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())


async def measured(call: Callable[[], Awaitable[None]], count: int) -> float:
    """Return the median time of a call, ms."""
    times_s = []
    for _ in range(count):
        began_s = time.perf_counter()
        await call()
        times_s.append(time.perf_counter() - began_s)
    return 1000 * median(times_s)


async def row(name: str, files: TlsFiles | None, calls: int) -> None:
    """Print the times of calls on an open and on a new connection."""
    async with serving(files) as port:
        address = f"127.0.0.1:{port}"

        def connect() -> grpc.aio.Channel:
            if not files:
                return grpc.aio.insecure_channel(address, options=OPTIONS)
            return grpc.aio.secure_channel(address, channel_credentials(files)[0](), options=OPTIONS)

        async def anew() -> None:
            async with connect() as channel:
                await ask(channel)

        async with connect() as channel:
            await ask(channel)
            warm_ms = await measured(lambda: ask(channel), calls)
        new_ms = await measured(anew, calls)
        print(f"{name:12} {warm_ms:8.2f} {new_ms:8.2f} {new_ms / warm_ms:8.1f}")


async def idle() -> None:
    """Print the processor time of one replica that is known and has nothing to do."""
    async with serving(None) as port, clients.open_channel(f"localhost:{port}", "benchmark") as channel:
        await channel.channel_ready()
        began_s = time.process_time()
        await asyncio.sleep(IDLE_S)
        share = (time.process_time() - began_s) / IDLE_S
    print(f"{1000 * share:.2f} ms of processor a second for an idle replica")


async def measure(calls: int) -> None:
    """Print the table."""
    print(f"{'ms, median':12} {'open':>8} {'new':>8} {'ratio':>8}")
    await row("plaintext", None, calls)
    with tempfile.TemporaryDirectory() as folder:
        await row("mutual TLS", make_certificate(Path(folder)), calls)
    await idle()


def main() -> int:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--calls", type=int, default=200, help="calls for each figure (200)")
    asyncio.run(measure(parser.parse_args().calls))
    return 0


if __name__ == "__main__":
    sys.exit(main())
