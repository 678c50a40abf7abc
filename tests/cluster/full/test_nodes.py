"""Everything is restarted at once, a node is drained, a node is lost."""

import base64
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster.test_installation import COMPONENTS
from tests.support.cluster import Cluster
from tests.support.turns_under_load import CALLERS, under_load

LEFT_S = 15.0
"""A lost node's replicas are left after so long."""


def node_of(cluster: Cluster, pod: str) -> str:
    return str(cluster.get("pod", pod)["spec"]["nodeName"])


def pods_on(cluster: Cluster, release: str, node: str) -> set[str]:
    return {
        pod for component in COMPONENTS for pod in cluster.pods(release, component) if node_of(cluster, pod) == node
    }


def deployments(release: str) -> list[str]:
    return [f"deployment/{release}-{component}" for component in COMPONENTS]


def settle(cluster: Cluster, release: str) -> None:
    """Wait until every replica is there and ready."""
    for deployment in deployments(release):
        cluster.kubectl("rollout", "status", deployment, "--timeout=240s")


@pytest.fixture
def node(cluster: Cluster, release: str) -> Iterator[str]:
    """A node with a replica of everything, without the database and the object store, which have one pod each."""
    *_, name = sorted(node["metadata"]["name"] for node in cluster.get("nodes")["items"])
    cluster.kubectl("cordon", name)
    for server in ("database", "store"):
        (pod,) = cluster.pods(release, server)
        if node_of(cluster, pod) == name:
            cluster.kubectl("delete", "pod", pod)
            cluster.kubectl("rollout", "status", f"statefulset/{release}-{server}", "--timeout=120s")
    cluster.kubectl("uncordon", name)
    cluster.kubectl("rollout", "restart", *deployments(release))
    settle(cluster, release)
    yield name
    cluster.kubectl("uncordon", name)


def test_all_deployments_are_restarted_at_once_and_no_turn_fails(cluster: Cluster, release: str, address: str) -> None:
    with under_load(address) as load:
        load.wait_for(CALLERS)
        cluster.kubectl("rollout", "restart", *deployments(release))
        settle(cluster, release)
        load.wait_for(CALLERS)
    print(f"{len(load.outcomes)} turns; lost: {load.lost}")
    assert load.lost == []


def test_a_node_is_drained_and_no_turn_fails(cluster: Cluster, release: str, address: str, node: str) -> None:
    assert any(node_of(cluster, pod) == node for pod in cluster.pods(release, "video"))
    with under_load(address) as load:
        load.wait_for(CALLERS)
        began_s = time.monotonic()
        cluster.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=230s")
        print(f"{node} was drained within {time.monotonic() - began_s:.0f} s")
        assert not pods_on(cluster, release, node)
        load.wait_for(CALLERS)
    print(f"{len(load.outcomes)} turns; lost: {load.lost}")
    assert load.lost == []


def test_a_node_is_lost_and_the_other_gateway_loses_no_turn(
    cluster: Cluster,
    release: str,
    node: str,
    kill_node: Callable[[str], None],
    revive_node: Callable[[str], None],
    tmp_path: Path,
) -> None:
    (gateway,) = (pod for pod in cluster.pods(release, "orchestrator") if node_of(cluster, pod) != node)
    assert len(pods_on(cluster, release, node)) == len(COMPONENTS)
    authority = tmp_path / "ca.crt"
    authority.write_bytes(base64.b64decode(cluster.get("secret", f"{release}-orchestrator-tls")["data"]["ca.crt"]))
    with (
        cluster.forwarded(f"pod/{gateway}", 50051) as forwarded,
        under_load(forwarded, ca_file=authority) as load,
    ):
        load.wait_for(CALLERS)
        before = len(load.outcomes)
        kill_node(node)
        lost_s = time.monotonic()
        load.wait_for_one_after(lost_s + LEFT_S)
    for outcome in load.outcomes[before:]:
        took = f"{outcome.began_s - lost_s:6.1f} s after the loss, for {outcome.ended_s - outcome.began_s:4.1f} s"
        print(f"{took}: {outcome.error or outcome.degraded or 'whole'}")
    revive_node(node)
    cluster.kubectl("wait", f"node/{node}", "--for=condition=Ready", "--timeout=120s")
    settle(cluster, release)
    assert load.lost == []
    after = [outcome for outcome in load.outcomes if outcome.began_s > lost_s + LEFT_S]
    assert after
    # A writer's words that no gate lets pass are no loss.
    dropped = [one for outcome in after for one in outcome.degraded if not one.startswith("reply: ")]
    assert dropped == []
