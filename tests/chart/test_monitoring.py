"""Monitor, rules and dashboard of the chart."""

import json

import pytest

from tests.chart.conftest import CHART, PROFILES, Refused, rendered

CLUSTER = ("--api-versions", "apiregistration.k8s.io/v1")
MONITORED = PROFILES["monitored"]
KINDS = {"ServiceMonitor": "metrics.serviceMonitor.enabled", "PrometheusRule": "metrics.rules.enabled"}


def test_nothing_is_made_unless_it_is_asked_for() -> None:
    kinds = {one["kind"] for one in rendered().objects}
    assert not kinds & KINDS.keys()
    assert "dashboard" not in rendered().of("ConfigMap")


def test_the_monitor_finds_the_page_of_every_service_of_this_release_only() -> None:
    release = rendered(*MONITORED)
    (monitor,) = release.of("ServiceMonitor").values()
    wanted = monitor["spec"]["selector"]["matchLabels"]
    assert wanted["app.kubernetes.io/instance"] == "e3rg"
    (endpoint,) = monitor["spec"]["endpoints"]
    found = set()
    for name, service in release.of("Service").items():
        ports = {port["name"]: port["targetPort"] for port in service["spec"]["ports"]}
        if wanted.items() <= service["metadata"]["labels"].items() and endpoint["port"] in ports:
            (container,) = release.of("Deployment")[name]["spec"]["template"]["spec"]["containers"]
            assert ports[endpoint["port"]] in {port["name"] for port in container["ports"]}
            found.add(name)
    assert found == release.of("Deployment").keys()


def test_the_operator_and_the_sidecar_of_grafana_find_their_objects_by_labels() -> None:
    release = rendered(*MONITORED)
    for kind in KINDS:
        (one,) = release.of(kind).values()
        assert one["metadata"]["labels"]["release"] == "prometheus"
    dashboard = release.of("ConfigMap")["dashboard"]
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(dashboard["data"]["e3rg.json"]) == json.loads((CHART / "files/dashboard.json").read_text("utf-8"))


def test_the_rules_are_those_of_the_file_but_for_those_that_are_left_out() -> None:
    every = ("--set", "metrics.rules.enabled=true")
    names = [
        {rule["alert"] for group in rule_object["spec"]["groups"] for rule in group["rules"]}
        for values in (every, MONITORED)
        for rule_object in rendered(*values).of("PrometheusRule").values()
    ]
    assert names[0] - names[1] == {"E3rgFirstVideoLate"}
    assert all(rule in (CHART / "files/alerts.yaml").read_text("utf-8") for rule in names[0])


@pytest.mark.parametrize(("kind", "value"), KINDS.items())
def test_a_cluster_without_the_operator_refuses_what_it_cannot_make(kind: str, value: str) -> None:
    with pytest.raises(
        Refused, match=f"{value}: this cluster does not know .*/{kind}; install the Prometheus Operator"
    ):
        rendered("--set", f"{value}=true", *CLUSTER)
    assert rendered("--set", f"{value}=true", *CLUSTER, "--api-versions", f"monitoring.coreos.com/v1/{kind}").of(kind)
