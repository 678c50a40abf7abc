"""Scaling: HorizontalPodAutoscaler and ScaledObject ask for the same, of metrics that the adapter's rules make."""

import re
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from cloudcoil.models.keda.v1alpha1 import ScaledObject
from pydantic import ValidationError

from tests.chart.conftest import CHART, PROFILES, Manifest, Refused, Rendered, rendered

RULES = yaml.safe_load((CHART / "files/prometheus-adapter.yaml").read_text("utf-8"))["rules"]
SCALED = ("mllm-voice", "video")


def _is_known(manifest: Manifest) -> bool:
    """Tell whether KEDA's schema has all that the manifest says."""
    try:
        read = ScaledObject.model_validate(manifest)
    except ValidationError:
        return False
    return read.model_dump(mode="json", by_alias=True, exclude_unset=True) == manifest


def _asked(release: Rendered, component: str) -> Mapping[str, Any]:
    """Return what a component's scaling asks for, whoever scales."""
    name = f"e3rg-{component}"
    if found := release.of("HorizontalPodAutoscaler").get(component):
        spec = found["spec"]
        assert spec["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
        metrics = {}
        for metric in spec["metrics"]:
            external = metric["external"]
            assert external["metric"]["selector"] == {"matchLabels": {"service": name}}
            assert external["target"]["type"] == "AverageValue"
            metrics[external["metric"]["name"]] = external["target"]["averageValue"]
        return {"range": (spec["minReplicas"], spec["maxReplicas"]), "pace": spec["behavior"], "metrics": metrics}
    spec = release.of("ScaledObject")[component]["spec"]
    assert spec["scaleTargetRef"] == {"name": name}
    assert {trigger["metricType"] for trigger in spec["triggers"]} == {"AverageValue"}
    return {
        "range": (spec["minReplicaCount"], spec["maxReplicaCount"]),
        "pace": spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"],
        "metrics": {trigger["name"]: trigger["metadata"]["threshold"] for trigger in spec["triggers"]},
    }


@pytest.mark.parametrize("component", SCALED)
@pytest.mark.parametrize("more", [(), ("-f", str(CHART / "values-gpu.yaml"))], ids=["cpu", "gpu"])
def test_both_ways_to_scale_ask_for_the_same(component: str, more: tuple[str, ...]) -> None:
    hpa, keda = rendered(*PROFILES["hpa"], *more), rendered(*PROFILES["keda"], *more)
    assert _asked(hpa, component) == _asked(keda, component)


def test_a_scaled_object_is_one_that_keda_knows() -> None:
    for one in rendered(*PROFILES["keda"]).of("ScaledObject").values():
        assert _is_known(one)


@pytest.mark.parametrize("change", [{"minReplicas": 2}, {"triggers": None}, {"pollingInterval": "soon"}])
def test_a_scaled_object_that_keda_does_not_know_is_told_apart(change: dict[str, Any]) -> None:
    (one, *_) = rendered(*PROFILES["keda"]).of("ScaledObject").values()
    assert not _is_known({**one, "spec": {**one["spec"], **change}})


@pytest.mark.parametrize("kind", ["hpa", "keda"])
def test_only_the_components_that_ask_for_it_are_scaled_and_they_alone_have_no_replicas(kind: str) -> None:
    release = rendered(*PROFILES[kind])
    assert {*release.of("HorizontalPodAutoscaler"), *release.of("ScaledObject")} == set(SCALED)
    without = {name for name, one in release.of("Deployment").items() if "replicas" not in one["spec"]}
    assert without == set(SCALED)
    assert all(one["spec"]["maxUnavailable"] == 1 for one in release.of("PodDisruptionBudget").values())


def test_nothing_is_scaled_unless_it_is_asked_for() -> None:
    for name in set(PROFILES) - {"hpa", "keda"}:
        release = rendered(*PROFILES[name])
        assert not release.of("HorizontalPodAutoscaler")
        assert not release.of("ScaledObject")


def test_each_metric_is_one_that_the_adapter_makes_and_keda_queries_it_alike() -> None:
    made = {rule["name"]["as"]: rule["metricsQuery"] for rule in RULES["external"]}
    labels = 'namespace="avatars",service="e3rg-video"'
    spec = rendered(*PROFILES["keda"]).of("ScaledObject")["video"]["spec"]
    assert set(_asked(rendered(*PROFILES["hpa"]), "video")["metrics"]) == made.keys()
    queries = {trigger["name"]: trigger["metadata"]["query"] for trigger in spec["triggers"]}
    assert queries == {name: query.replace("<<.LabelMatchers>>", labels) for name, query in made.items()}


def test_a_metric_that_is_missing_is_an_error_and_not_zero() -> None:
    # An error keeps the pods; 0 would remove them.
    spec = rendered(*PROFILES["keda"]).of("ScaledObject")["video"]["spec"]
    assert all(trigger["metadata"]["ignoreNullValues"] == "false" for trigger in spec["triggers"])
    # A fallback to a number of pods would overrule the metric that is there.
    assert "fallback" not in spec
    # No refusals are 0 only as long as the pods tell their backlog.
    assert not any("vector(0)" in rule["metricsQuery"] for rule in RULES["external"])
    (refusals,) = (rule for rule in RULES["external"] if rule["name"]["as"] == "e3rg_refusals_per_second")
    assert re.search(r" or 0 \* sum\(last_over_time\(e3rg_backlog_seconds", refusals["metricsQuery"])


@pytest.mark.parametrize("target", ["45", "0.05", "12.5"])
def test_a_target_may_be_a_fraction_on_the_command_line(target: str) -> None:
    values = ("--set", f"components.video.scaling.targetBacklogS={target}")
    for kind in ("hpa", "keda"):
        assert _asked(rendered(*PROFILES[kind], *values), "video")["metrics"]["e3rg_backlog_seconds"] == target


def test_pods_are_added_at_once_and_removed_slowly() -> None:
    pace = _asked(rendered(*PROFILES["hpa"], "--set", "components.video.scaling.scaleDownAfterS=900"), "video")["pace"]
    assert pace["scaleUp"]["stabilizationWindowSeconds"] == 0
    assert {"type": "Percent", "value": 100, "periodSeconds": 15} in pace["scaleUp"]["policies"]
    assert pace["scaleDown"]["stabilizationWindowSeconds"] == 900
    assert {"type": "Pods", "value": 1, "periodSeconds": 60} in pace["scaleDown"]["policies"]


def test_a_cluster_without_keda_refuses_what_it_cannot_make() -> None:
    cluster = (*PROFILES["keda"], "--api-versions", "apiregistration.k8s.io/v1")
    with pytest.raises(Refused, match=r"kind=keda: this cluster does not know .*ScaledObject; install KEDA first"):
        rendered(*cluster)
    assert rendered(*cluster, "--api-versions", "keda.sh/v1alpha1/ScaledObject").of("ScaledObject")
