"""The network policies, seen from pods that may and from pods that may not."""

import json
from collections.abc import Iterator

import pytest

from tests.cluster.conftest import CHART, arguments, route
from tests.cluster.test_installation import COMPONENTS
from tests.support.cluster import Cluster

SERVICES = ("mllm-face", "understanding", "memory", "tts", "video", "orchestrator", "database", "store")
PORTS = {"database": 5432, "store": 8333}
CALLS = {
    "orchestrator": {"understanding", "memory", "tts", "video"},
    "understanding": {"mllm-face"},
    "memory": {"database", "store"},
}
WATCH_THE_TABLE = {"orchestrator", "understanding"}
"""Components that ask the cluster's API for the table of variants."""
SCRIPT = """
import json, socket, sys
from concurrent.futures import ThreadPoolExecutor

def opens(target):
    host, _, port = target.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=3).close()
    except OSError:
        return False
    return True

targets = sys.argv[1:]
with ThreadPoolExecutor() as pool:
    print(json.dumps(dict(zip(targets, pool.map(opens, targets)))))
"""


def reached(cluster: Cluster, release: str, pod: str) -> set[str]:
    """Return the services that a pod can connect to."""
    targets = {f"{release}-{service}:{PORTS.get(service, 50051)}": service for service in SERVICES}
    opened = json.loads(cluster.python(pod, SCRIPT, *targets))
    return {service for target, service in targets.items() if opened[target]}


@pytest.fixture(scope="module")
def strangers(cluster: Cluster, release: str) -> Iterator[dict[str, str]]:
    """Pods of no component: one without labels, one that is taken for each service that calls others."""
    pods = {"": "stranger"} | {service: f"like-{service}" for service in CALLS}
    for service, name in pods.items():
        # Without the component's label it gets no policy of its own, and no call.
        labels = {"app.kubernetes.io/name": "e3rg", "app.kubernetes.io/instance": release, "e3rg/service": service}
        cluster.start_pod(name, labels=labels if service else {})
    yield pods
    cluster.kubectl("delete", "pod", *pods.values())


def test_a_stranger_reaches_the_gateway_only(cluster: Cluster, release: str, strangers: dict[str, str]) -> None:
    assert reached(cluster, release, strangers[""]) == {"orchestrator"}


@pytest.mark.parametrize("service", CALLS)
def test_who_may_call_a_service_reaches_it(
    cluster: Cluster, release: str, strangers: dict[str, str], service: str
) -> None:
    wanted = {"orchestrator"} | CALLS[service]
    cluster.wait("the policy knows the pod", lambda: reached(cluster, release, strangers[service]) == wanted, 60)


@pytest.mark.parametrize("component", ["mllm-face", "tts", "video", "understanding", "memory", "orchestrator"])
def test_a_serving_pod_reaches_whom_it_calls_and_nothing_else(cluster: Cluster, release: str, component: str) -> None:
    (pod, *_) = cluster.pods(release, component)
    # Itself it reaches in any case: that never leaves the pod.
    assert reached(cluster, release, pod) - {component} == CALLS.get(component, set())
    api, elsewhere = "kubernetes.default.svc:443", "192.0.2.1:443"
    opened = json.loads(cluster.python(pod, SCRIPT, api, elsewhere))
    assert opened == {api: component in WATCH_THE_TABLE, elsewhere: False}


@pytest.fixture
def monitoring() -> Iterator[Cluster]:
    """The namespace that tests/cluster/values.yaml names for metrics."""
    there = Cluster("e3rg-test-monitoring")
    there.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": there.namespace}})
    yield there
    there.kubectl("delete", "pods", "--all")
    there.kubectl("delete", "namespace", there.namespace, "--timeout=180s")


def test_metrics_are_read_from_their_namespace_only_and_nothing_else_from_there(
    cluster: Cluster, release: str, strangers: dict[str, str], monitoring: Cluster
) -> None:
    monitoring.start_pod("reader")
    metrics, calls = (
        [f"{release}-{component}.{cluster.namespace}:{port}" for component in COMPONENTS] for port in (9090, 50051)
    )

    def opened(where: Cluster, pod: str) -> set[str]:
        found = json.loads(where.python(pod, SCRIPT, *metrics, *calls))
        return {target for target in found if found[target]}

    gateway = {f"{release}-orchestrator.{cluster.namespace}:50051"}
    cluster.wait("the policy knows the pod", lambda: opened(monitoring, "reader") == {*metrics, *gateway}, 60)
    assert opened(cluster, strangers[""]) == gateway


def test_a_gateway_that_is_closed_refuses_a_stranger(cluster: Cluster, release: str, strangers: dict[str, str]) -> None:
    closed = "gateway.allowFrom[0].podSelector.matchLabels.team=edge"
    cluster.helm("upgrade", release, str(CHART), *arguments(*route(), closed), "--wait", "--timeout=4m")
    try:
        cluster.wait("the stranger is refused", lambda: not reached(cluster, release, strangers[""]), 60)
        cluster.kubectl("label", "pod", strangers[""], "team=edge")
        cluster.wait("a labelled pod gets in", lambda: reached(cluster, release, strangers[""]), 60)
    finally:
        cluster.helm("upgrade", release, str(CHART), *arguments(*route()), "--wait", "--timeout=4m")
    cluster.wait("the gateway is open again", lambda: reached(cluster, release, strangers["memory"]), 60)
