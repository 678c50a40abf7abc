"""Variants of a release in a cluster: the commands that change them, and what each gateway uses."""

import base64
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from client import Client
from tests.support.cluster import Cluster

PATIENCE_S = 30.0
LOOK_S = 0.02
PAGE = "import urllib.request; print(urllib.request.urlopen('http://localhost:9090/metrics').read().decode())"


@dataclass(frozen=True)
class Ran:
    """A command that has ended: its status, and what it printed."""

    status: int
    output: str
    problem: str


def run(address: str, *words: str) -> Ran:
    """Run `e3rg variants`."""
    return command(address, "variants", *words)


def command(address: str, *words: str) -> Ran:
    """Run `e3rg`."""
    program = [sys.executable, "-m", "client.command", "--address", address]
    done = subprocess.run([*program, *words], capture_output=True, text=True, check=False, timeout=120)
    return Ran(done.returncode, done.stdout, done.stderr)


def change(address: str, *words: str) -> int:
    """Change the table; return its version."""
    ran = run(address, *words)
    assert ran.status == 0, ran
    found = re.match(r"version (\d+)", ran.output)
    assert found, ran
    return int(found[1])


def metric(cluster: Cluster, pod: str, line: str) -> float:
    """Return the value of a line of a pod's metrics."""
    found = _metrics(cluster, pod)
    assert line in found, f"{pod} has no metric {line}"
    return found[line]


def total(cluster: Cluster, release: str, line: str) -> float:
    """Return the sum of a line over the metrics of all gateways, some of which may not have counted it yet."""
    return sum(_metrics(cluster, pod).get(line, 0.0) for pod in cluster.pods(release, "orchestrator"))


@contextmanager
def each_gateway(cluster: Cluster, release: str, folder: Path) -> Iterator[dict[str, Client]]:
    """Yield a client of each gateway, by the name of its pod."""
    authority = folder / "ca.crt"
    authority.write_bytes(base64.b64decode(cluster.get("secret", f"{release}-orchestrator-tls")["data"]["ca.crt"]))
    with ExitStack() as stack:
        yield {
            pod: stack.enter_context(
                Client(stack.enter_context(cluster.forwarded(f"pod/{pod}", 50051)), ca_file=authority)
            )
            for pod in cluster.pods(release, "orchestrator")
        }


def until_used(gateways: Sequence[Client], version: int) -> None:
    """Wait until each gateway uses a table."""
    end_s = time.monotonic() + PATIENCE_S
    while any(gateway.variants.get().version != version for gateway in gateways):
        assert time.monotonic() < end_s, [gateway.variants.get().version for gateway in gateways]
        time.sleep(LOOK_S)


def _metrics(cluster: Cluster, pod: str) -> dict[str, float]:
    lines = (each.rpartition(" ") for each in cluster.python(pod, PAGE).splitlines() if each[:1] not in ("", "#"))
    return {name: float(value) for name, _, value in lines}
