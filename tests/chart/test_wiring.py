"""Network policies of the chart, and addresses of its components."""

import json
from typing import Any

import pytest

from local.deployment import TRANSCRIBER, VOTERS, WRITER
from tests.chart.conftest import PROFILES, rendered

DNS = {"kubernetes.io/metadata.name": "kube-system"}
CLUSTERS_API = {"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}], "ports": [{"port": 443}, {"port": 6443}]}
CALLS = {
    "orchestrator": {"understanding", "memory", "tts", "video", "orchestrator"},
    "understanding": {"mllm"},
    "memory": {"database", "store"},
    "migrate": {"database"},
    "backup": {"database"},
    "restore": {"database"},
    "bucket": {"store"},
    "turn": {"orchestrator"},
}
"""The requirement, written down a second time."""


def _services(peers: list[dict[str, Any]]) -> set[str]:
    """Return the services of the release that a rule names."""
    found = set()
    for peer in peers:
        labels = peer.get("podSelector", {}).get("matchLabels", {})
        if "e3rg/service" in labels:
            assert labels["app.kubernetes.io/instance"] == "e3rg"
            assert "namespaceSelector" not in peer
            found.add(labels["e3rg/service"])
    return found


def _service(name: str) -> str:
    return name.split("-", maxsplit=1)[0]


def test_each_pod_calls_whom_it_needs_and_nobody_else() -> None:
    for name, policy in rendered().of("NetworkPolicy").items():
        called = set()
        for rule in policy["spec"]["egress"]:
            if not rule:
                assert name == "weights"
                continue
            if rule == CLUSTERS_API:
                assert name in ("orchestrator", "understanding")
                continue
            called |= _services(rule["to"])
            others = [peer for peer in rule["to"] if not _services([peer])]
            assert all(peer["namespaceSelector"]["matchLabels"] == DNS for peer in others), name
        assert called == CALLS.get(_service(name), set()), name


def test_each_pod_is_called_by_those_that_need_it_and_nobody_else() -> None:
    for name, policy in rendered().of("NetworkPolicy").items():
        service = _service(name)
        callers = {caller for caller, called in CALLS.items() if service in called}
        found: set[str] = set()
        for rule in policy["spec"]["ingress"] or ():
            if service == "orchestrator" and "from" not in rule:
                found |= {"turn", "orchestrator"}
                continue
            if metrics := [peer for peer in rule["from"] if "namespaceSelector" in peer]:
                assert metrics == [
                    {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
                ]
                assert rule["ports"] == [{"port": 9090}]
            found |= _services(rule["from"])
        assert found == callers, name


def test_every_pod_has_a_policy() -> None:
    for profile in PROFILES.values():
        release = rendered(*profile)
        selectors = [
            set(one["spec"]["podSelector"]["matchLabels"].items()) for one in release.of("NetworkPolicy").values()
        ]
        for name, template in release.pods():
            labels = set(template["metadata"]["labels"].items())
            assert sum(selector <= labels for selector in selectors) == 1, name


def test_a_gateway_that_is_closed_opens_to_the_peers_that_are_named_and_to_the_test() -> None:
    peer = "gateway.allowFrom[0].namespaceSelector.matchLabels.team=edge"
    (rule, _) = rendered("--set", peer).of("NetworkPolicy")["orchestrator"]["spec"]["ingress"]
    assert _services(rule["from"]) == {"turn", "orchestrator"}
    assert {"namespaceSelector": {"matchLabels": {"team": "edge"}}} in rule["from"]


def test_an_external_database_is_reached_in_its_network_only() -> None:
    values = ("--set", "database.external.cidrs[0]=10.1.2.0/24")
    policies = rendered(*PROFILES["external"], *values).of("NetworkPolicy")
    assert {"to": [{"ipBlock": {"cidr": "10.1.2.0/24"}}], "ports": [{"port": 5432}]} in policies["memory"]["spec"][
        "egress"
    ]
    assert {"to": [{"ipBlock": {"cidr": "10.1.2.0/24"}}], "ports": [{"port": 5432}]} in policies["migrate"]["spec"][
        "egress"
    ]
    assert "database" not in policies


def test_the_clusters_api_is_reached_in_its_network_only() -> None:
    values = ("--set", "networkPolicy.apiServer.cidrs[0]=10.1.2.3/32,networkPolicy.apiServer.ports[0]=16443")
    policies = rendered(*values).of("NetworkPolicy")
    api = {"to": [{"ipBlock": {"cidr": "10.1.2.3/32"}}], "ports": [{"port": 16443}]}
    reached = {name for name, policy in policies.items() if api in policy["spec"]["egress"]}
    assert reached == {"orchestrator", "understanding"}


def test_the_panel_is_that_of_the_deployment_on_one_machine_in_the_same_order() -> None:
    release = rendered()
    environment = release.environment("understanding")
    voters = json.loads(environment["E3RG_UNDERSTANDING_VOTERS"])
    assert list(voters) == list(VOTERS)
    for name, address in voters.items():
        component = address.removeprefix("dns:///e3rg-").removesuffix(":50051")
        assert release.environment(component)["E3RG_MLLM_BACKEND"] == VOTERS[name]
    assert environment["E3RG_UNDERSTANDING_WRITER"] == WRITER
    assert environment["E3RG_UNDERSTANDING_TRANSCRIBER"] == TRANSCRIBER


def test_a_voter_may_be_served_elsewhere() -> None:
    theirs = {"name": "theirs", "address": "models.example.org:50051"}
    ours = [{"name": name, "component": f"mllm-{name}"} for name in ("voice", "smollm2")]
    values = ("--set-json", f"panel.voters={json.dumps([*ours, theirs])}")
    voters = json.loads(rendered(*values).environment("understanding")["E3RG_UNDERSTANDING_VOTERS"])
    assert voters["theirs"] == "models.example.org:50051"


@pytest.mark.parametrize("component", ["memory", "mllm-face", "tts", "video", "understanding"])
def test_a_service_demands_certificates_and_the_gateway_does_not(component: str) -> None:
    release = rendered()
    prefix = f"E3RG_{_service(component).upper()}_"
    assert release.environment(component)[f"{prefix}TLS_CLIENT_CA_FILE"] == "/tls/ca.crt"
    assert "E3RG_ORCHESTRATOR_TLS_CLIENT_CA_FILE" not in release.environment("orchestrator")
    closed = rendered("--set", "gateway.clientCertificates=true").environment("orchestrator")
    assert closed["E3RG_ORCHESTRATOR_TLS_CLIENT_CA_FILE"] == "/tls/ca.crt"


def test_a_key_is_mounted_where_it_is_needed_only() -> None:
    release = rendered()
    for name, template in release.pods():
        secrets = {one["secret"]["secretName"]: one["secret"] for one in template["spec"]["volumes"] if "secret" in one}
        assert "e3rg-authority" not in secrets, name
        if name == "Deployment e3rg-memory":
            assert secrets["e3rg-database"]["items"] == [{"key": "password", "path": "password"}]
        elif name.startswith("Deployment"):
            component = name.removeprefix("Deployment e3rg-")
            assert set(secrets) == {f"e3rg-{component}-tls"}, name


def test_migrations_run_before_the_new_replicas_of_an_upgrade_and_at_once_with_an_installation() -> None:
    upgrade = rendered("--is-upgrade").of("Job")
    assert upgrade["migrate"]["metadata"]["annotations"]["helm.sh/hook"] == "pre-upgrade"
    (installation,) = (job for name, job in rendered().of("Job").items() if name.startswith("migrate-"))
    assert "annotations" not in installation["metadata"]


def test_the_videos_gpus_are_the_videos_alone() -> None:
    taint = {"key": "e3rg/dedicated", "operator": "Equal", "value": "video", "effect": "NoSchedule"}
    for name, deployment in rendered(*PROFILES["gpu"]).of("Deployment").items():
        pod = deployment["spec"]["template"]["spec"]
        limits = pod["containers"][0]["resources"]["limits"]
        assert (taint in pod.get("tolerations", [])) == (name == "video"), name
        assert (pod.get("nodeSelector") == {"e3rg/dedicated": "video"}) == (name == "video"), name
        uses_gpu = name in ("tts", "video") or (name.startswith("mllm-") and name != "mllm-voice")
        assert ("nvidia.com/gpu" in limits) == uses_gpu, name
        # Where there is no spare GPU a new pod would wait for ever for that of the old one.
        surge = deployment["spec"]["strategy"]["rollingUpdate"]
        assert (surge["maxSurge"], surge["maxUnavailable"]) == ((0, 1) if uses_gpu else (1, 0)), name


def test_every_component_sends_its_share_of_the_traces_under_its_own_name() -> None:
    traced = rendered(*PROFILES["everything"], "--set", "telemetry.sampledShare=0.25")
    for name in traced.of("Deployment"):
        found = {key: value for key, value in traced.environment(name).items() if key.startswith("OTEL")}
        assert found == {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector.observability:4317",
            "OTEL_SERVICE_NAME": f"e3rg-{name}",
            "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
            "OTEL_TRACES_SAMPLER_ARG": "0.25",
        }
    plain = rendered()
    for name in plain.of("Deployment"):
        assert not [key for key in plain.environment(name) if key.startswith("OTEL")]
