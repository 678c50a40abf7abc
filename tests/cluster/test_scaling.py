"""Replicas that are added get calls, replicas that are taken away lose none, and nothing is restarted."""

import re

import pytest

from client import Client
from tests.support.cluster import Cluster
from tests.support.turns_under_load import CALLERS, under_load

SCRIPT = "import urllib.request; print(urllib.request.urlopen('http://localhost:9090/metrics').read().decode())"


def served(cluster: Cluster, pod: str, method: str) -> int:
    """Return how many calls of a method a pod has answered."""
    line = rf'e3rg_call_seconds_count{{component="\w+",method="{method}",status="OK"}} (\d+)'
    return sum(int(float(found)) for found in re.findall(line, cluster.python(pod, SCRIPT)))


def ready(client: Client, component: str) -> int:
    """Return how many replicas of a component the gateway has found ready."""
    return next(status.replicas_ready for status in client.status() if status.name == component)


@pytest.mark.parametrize(("component", "method"), [("tts", "Speak"), ("video", "Animate"), ("memory", "Recall")])
def test_three_replicas_share_the_calls_and_two_of_them_go_without_a_loss(
    cluster: Cluster, release: str, address: str, client: Client, component: str, method: str
) -> None:
    deployment = f"deployment/{release}-{component}"
    with under_load(address) as load:
        cluster.kubectl("scale", deployment, "--replicas=3")
        cluster.kubectl("rollout", "status", deployment, "--timeout=240s")
        # Each call of the status may meet another gateway.
        cluster.wait("the gateways find three", lambda: [ready(client, component) for _ in range(4)] == [3] * 4, 60)
        pods = cluster.pods(release, component)
        before = {pod: served(cluster, pod, method) for pod in pods}
        load.wait_for(4 * CALLERS)
        after = {pod: served(cluster, pod, method) for pod in pods}
        cluster.kubectl("scale", deployment, "--replicas=1")
        cluster.wait("one is left", lambda: len(cluster.pods(release, component)) == 1)
        load.wait_for(CALLERS)
    cluster.kubectl("scale", deployment, "--replicas=2")
    cluster.kubectl("rollout", "status", deployment, "--timeout=240s")
    assert load.lost == []
    assert len(pods) == 3
    assert all(after[pod] > before[pod] for pod in pods), (before, after)
