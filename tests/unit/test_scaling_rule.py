"""The HorizontalPodAutoscaler of the benchmark, against the examples of Kubernetes' documentation and of KEP-853."""

from collections.abc import Mapping
from typing import Any

import pytest

from benchmarks.scaling.rule import SYNC_S, Autoscaler, Pods, Rule, quantity


def _manifest(*metrics: dict[str, Any], replicas: tuple[int, int] = (1, 1000), **behavior: Any) -> dict[str, Any]:
    least, most = replicas
    return {"spec": {"minReplicas": least, "maxReplicas": most, "metrics": list(metrics), "behavior": behavior}}


def _external(name: str, value: str) -> dict[str, Any]:
    target = {"type": "AverageValue", "averageValue": value}
    return {"type": "External", "external": {"metric": {"name": name}, "target": target}}


def _cpu(percent: int) -> dict[str, Any]:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _policies(*written: tuple[str, int, int], **more: Any) -> dict[str, Any]:
    return {"policies": [{"type": kind, "value": value, "periodSeconds": s} for kind, value, s in written], **more}


def _once(manifest: Mapping[str, Any], pods: Pods, **metrics: float | None) -> int:
    return Autoscaler(Rule.read(manifest)).replicas(0.0, pods.all, pods, metrics)


def _run(manifest: Mapping[str, Any], replicas: int, metrics: Mapping[float, float], until_s: float) -> list[int]:
    """Return the replicas after each sync; the sum of the metric `m` is the last of `metrics` by its time."""
    autoscaler, found = Autoscaler(Rule.read(manifest)), []
    for sync in range(round(until_s / SYNC_S) + 1):
        now_s = sync * SYNC_S
        value = metrics[max(time_s for time_s in metrics if time_s <= now_s)]
        replicas = autoscaler.replicas(now_s, replicas, Pods(replicas, replicas), {"m": value})
        found.append(replicas)
    return found


AT_ONCE: dict[str, Any] = {"scaleDown": {"stabilizationWindowSeconds": 0}}


@pytest.mark.parametrize(("found", "replicas"), [(2 * 0.2, 4), (2 * 0.1, 2), (2 * 0.05, 1)])
def test_twice_the_target_doubles_the_replicas_and_half_of_it_halves_them(found: float, replicas: int) -> None:
    assert _once(_manifest(_external("m", "100m"), **AT_ONCE), Pods(2, 2), m=found) == replicas


@pytest.mark.parametrize(("found", "replicas"), [(109, 10), (111, 12), (91, 10), (89, 9)])
def test_a_tenth_more_or_less_than_the_target_changes_nothing(found: float, replicas: int) -> None:
    assert _once(_manifest(_external("m", "10"), **AT_ONCE), Pods(10, 10), m=found) == replicas


def test_of_several_metrics_the_one_that_wants_most_counts() -> None:
    manifest = _manifest(_external("m", "10"), _external("n", "1"))
    assert _once(manifest, Pods(3, 3), m=20, n=5) == 5


def test_a_missing_metric_lets_pods_be_added_and_none_be_removed() -> None:
    manifest = _manifest(_external("m", "10"), _external("n", "1"), **AT_ONCE)
    assert _once(manifest, Pods(3, 3), m=None, n=None) == 3
    assert _once(manifest, Pods(3, 3), m=None, n=0) == 3
    assert _once(manifest, Pods(3, 3), m=None, n=5) == 5
    assert _once(manifest, Pods(3, 3), m=0, n=0) == 1


def test_replicas_outside_of_the_range_are_brought_into_it_whatever_the_metrics_are() -> None:
    manifest = _manifest(_external("m", "10"), replicas=(2, 4))
    assert _once(manifest, Pods(1, 1), m=None) == 2
    assert _once(manifest, Pods(6, 6), m=None) == 4


def test_eighty_pods_become_fewer_by_a_tenth_and_below_forty_by_four() -> None:
    # "If there are 80 replicas … 8 replicas will be reduced. In the next iteration … 72 … rounded up to 8."
    down = _policies(("Pods", 4, 60), ("Percent", 10, 60), stabilizationWindowSeconds=0)
    found = _run(_manifest(_external("m", "1"), scaleDown=down), 80, {0: 10}, 15 * 60)
    by_minute = found[::4]
    assert by_minute[:3] == [72, 64, 57]
    assert by_minute[5:10] == [40, 36, 32, 28, 24]


def test_by_default_pods_are_doubled_each_quarter_of_a_minute_or_four_are_added() -> None:
    assert _run(_manifest(_external("m", "1")), 1, {0: 100}, 75) == [5, 10, 20, 40, 80, 100]


@pytest.mark.parametrize(
    ("up", "by_minute"),
    [
        (_policies(("Percent", 900, 60)), [10, 100, 1000]),
        (_policies(("Pods", 1, 60)), [2, 3, 4]),
        (_policies(("Percent", 900, 60), ("Pods", 1, 60), selectPolicy="Min"), [2, 3, 4]),
        ({"selectPolicy": "Disabled"}, [1, 1, 1]),
    ],
)
def test_pods_are_added_at_the_pace_of_the_policies(up: dict[str, Any], by_minute: list[int]) -> None:
    assert _run(_manifest(_external("m", "1"), scaleUp=up), 1, {0: 10_000}, 120)[::4] == by_minute


def test_no_pod_is_removed_before_fewer_were_enough_for_the_whole_window() -> None:
    manifest = _manifest(_external("m", "1"), scaleDown={"stabilizationWindowSeconds": 300})
    found = _run(manifest, 10, {0: 10, 60: 2, 240: 6, 255: 2}, 900)
    # The last ten was said at 45 s, the six at 240 s.
    assert found[: 345 // 15] == [10] * 23
    assert found[23:36] == [6] * 13
    assert found[36:] == [2] * (len(found) - 36)


def test_a_stabilization_of_growth_takes_the_least_of_its_window() -> None:
    manifest = _manifest(_external("m", "1"), scaleUp={"stabilizationWindowSeconds": 60})
    assert _run(manifest, 2, {0: 2, 15: 8, 30: 4, 45: 8}, 105) == [2, 2, 2, 2, 4, 4, 8, 8]


@pytest.mark.parametrize(
    ("pods", "share", "replicas"),
    [
        (Pods(4, 4), 1.0, 5),
        (Pods(4, 4), 0.4, 2),
        # Pods that are not ready count as idle ones: four busy ones with six that start want none more, nor fewer.
        (Pods(10, 4), 1.0, 10),
        (Pods(5, 4), 1.0, 5),
        (Pods(4, 0), 1.0, 4),
    ],
)
def test_a_resource_counts_for_the_pods_that_are_ready(pods: Pods, share: float, replicas: int) -> None:
    assert _once(_manifest(_cpu(80), **AT_ONCE), pods, cpu=share) == replicas


@pytest.mark.parametrize(("text", "value"), [("45", 45), ("0.05", 0.05), ("50m", 0.05)])
def test_a_quantity_is_read_as_kubernetes_writes_it(text: str, value: float) -> None:
    assert quantity(text) == pytest.approx(value)
