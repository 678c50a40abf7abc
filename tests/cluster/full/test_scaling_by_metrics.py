"""The video is scaled by its backlog: real metrics, Prometheus, prometheus-adapter and HorizontalPodAutoscaler."""

import json
import os
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from benchmarks.load import Profile, in_background
from tests.cluster.conftest import CHART
from tests.support.cluster import Cluster

HERE = Path(__file__).parent
MONITORING = "e3rg-test-monitoring"
SCALING = "components.video.scaling"
WINDOW_S = 60
TARGET_S = 0.6
"""Promised seconds for each pod. With `CORES`, a stretch of speech takes a pod half a second."""
CORES = "300m"
"""Limit of a pod's processor, so that renderers are where turns wait, as GPUs would be."""
MANY, FEW = 6, 1
"""Callers that keep more than one renderer busy, and that do not."""
LOAD_S, DEADLINE_S = 1200.0, 90.0
"""Longest load, which ends earlier, and deadline of its turns."""


@pytest.fixture(scope="module")
def monitoring(cluster: Cluster, release: str) -> Iterator[Cluster]:
    """The namespace of a running Prometheus and its adapter, with the rules that come with the chart."""
    if "E3RG_TEST_ADAPTER" not in os.environ:
        pytest.skip("E3RG_TEST_ADAPTER names no program of prometheus-adapter, so there is no image of it")
    assert release
    objects = list(yaml.safe_load_all((HERE / "monitoring.yaml").read_text("utf-8")))
    for name, files in _configurations(cluster.namespace).items():
        objects.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": files})
    for one in objects:
        Cluster(one["metadata"].get("namespace", MONITORING)).apply(one)
    there = Cluster(MONITORING)
    for name in ("prometheus", "adapter"):
        there.kubectl("rollout", "status", f"deployment/{name}", "--timeout=120s")
    yield there
    for one in reversed(objects):
        about = (f"{one['kind']}.{one['apiVersion'].rpartition('/')[0]}", one["metadata"]["name"])
        Cluster(one["metadata"].get("namespace", MONITORING)).kubectl("delete", *about, "--timeout=180s")


@pytest.fixture
def scaled(cluster: Cluster, release: str, monitoring: Cluster) -> Iterator[str]:
    """The name of the video's Deployment, which the release scales between one pod and three."""
    assert monitoring
    name = f"{release}-video"
    values = {
        f"{SCALING}.kind": "hpa",
        f"{SCALING}.maxReplicas": 3,
        f"{SCALING}.targetBacklogS": TARGET_S,
        f"{SCALING}.scaleDownAfterS": WINDOW_S,
        "components.video.resources.limits.cpu": CORES,
    }
    # Changed by somebody else, the number is not Helm's any more, and stays when Helm names none.
    cluster.kubectl("scale", f"deployment/{name}", "--replicas=3")
    settings = [f"--set={key}={value}" for key, value in values.items()]
    cluster.helm("upgrade", release, str(CHART), "--reset-then-reuse-values", *settings)
    assert cluster.get("deployment", name)["spec"]["replicas"] == 3
    cluster.kubectl("rollout", "status", f"deployment/{name}", "--timeout=240s")
    yield name
    # The number is the HorizontalPodAutoscaler's now; Helm takes it back only when told to.
    cluster.helm("rollback", release, "--force-conflicts", "--wait", "--timeout=6m")


def test_pods_come_and_go_with_the_backlog_and_stay_without_the_metric_and_no_turn_is_lost(
    cluster: Cluster, release: str, address: str, monitoring: Cluster, scaled: str
) -> None:
    began_s = time.monotonic()

    def tell(what: str) -> None:
        print(f"{time.monotonic() - began_s:6.1f} s: {what}; {_describe(cluster, scaled)}")

    def pods() -> int:
        return len(cluster.pods(release, "video"))

    cluster.wait("the metrics are there", lambda: _active(cluster, scaled).get("status") == "True", 120)
    tell("scaling is on")
    cluster.wait("one pod is left", lambda: pods() == 1, 400)
    tell("nobody calls")
    with in_background(Profile(address, users=MANY, duration_s=LOAD_S, deadline_s=DEADLINE_S)) as many:
        cluster.wait("three pods", lambda: pods() == 3)
        tell(f"{MANY} callers")
        monitoring.kubectl("scale", "deployment/adapter", "--replicas=0")
        tell("the adapter is gone")
        many.wait_for(MANY)
    # Nobody calls any more, and nobody knows.
    cluster.wait("the metric is missing for long", lambda: _missing_s(cluster, scaled) > 2 * WINDOW_S, 400)
    tell("nobody calls, the metric is missing")
    assert pods() == 3
    with in_background(Profile(address, users=FEW, duration_s=LOAD_S, deadline_s=DEADLINE_S)) as few:
        monitoring.kubectl("scale", "deployment/adapter", "--replicas=1")
        cluster.wait("one pod is left", lambda: pods() == 1, 400)
        tell(f"the adapter is back, {FEW} caller")
        few.wait_for(2)
    results = many.result(), few.result()
    for result in results:
        figures = ("answered", "lost", "degraded", "first_video_p50_s", "first_video_p95_s")
        print({name: result.figures[name] for name in figures})
    assert [result.problems() for result in results] == [[], []]


def _configurations(namespace: str) -> dict[str, dict[str, str]]:
    """Return the files of Prometheus, as the document for operators has them, and of the adapter, from the chart."""
    document = (CHART.parent / "docs/operate.md").read_text("utf-8")
    (found,) = re.findall(r"```yaml\n(rule_files.*?)```", document, re.DOTALL)
    rules = yaml.safe_load((CHART / "files/prometheus-adapter.yaml").read_text("utf-8"))["rules"]["external"]
    return {
        "prometheus": {
            "prometheus.yaml": found.replace(".default.svc", f".{namespace}.svc"),
            "alerts.yaml": (CHART / "files/alerts.yaml").read_text("utf-8"),
        },
        "adapter": {"adapter.yaml": yaml.safe_dump({"externalRules": rules})},
    }


def _describe(cluster: Cluster, name: str) -> str:
    """Return replicas, and the metrics that the HorizontalPodAutoscaler saw last."""
    status = cluster.get("hpa", name)["status"]
    metrics = {
        one["external"]["metric"]["name"]: one["external"]["current"].get("averageValue")
        for one in status.get("currentMetrics") or ()
        if one.get("external")
    }
    replicas = f"{status.get('currentReplicas')} replicas, wants {status.get('desiredReplicas')}"
    return f"{replicas}; for each: {json.dumps(metrics)}"


def _active(cluster: Cluster, name: str) -> dict[str, str]:
    """Return the condition ScalingActive of the HorizontalPodAutoscaler: whether it has its metrics."""
    conditions: list[dict[str, str]] = cluster.get("hpa", name)["status"].get("conditions") or []
    return next((one for one in conditions if one["type"] == "ScalingActive"), {})


def _missing_s(cluster: Cluster, name: str) -> float:
    """Return for how long it has been without its metrics; 0 when it has them."""
    active = _active(cluster, name)
    if active.get("status") != "False":
        return 0.0
    return (datetime.now(UTC) - datetime.fromisoformat(active["lastTransitionTime"])).total_seconds()
