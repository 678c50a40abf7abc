"""What gateway and panel may do in the cluster, whom a variant reaches, and who owns the table of variants."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cluster.conftest import CHART, TWO_VOICES, arguments, route
from tests.cluster.test_policies import SCRIPT as OPENS
from tests.cluster.test_policies import reached
from tests.support.cluster import Cluster
from tests.support.variant_commands import change, each_gateway, run, until_used

ASKED = """
import json
from kubernetes import client, config

config.load_incluster_config()
core, leases = client.CoreV1Api(), client.CoordinationV1Api()
namespace = open("/var/run/secrets/kubernetes.io/serviceaccount/namespace").read()


def status(call, *arguments):
    try:
        call(*arguments)
    except client.ApiException as error:
        return error.status
    return 200


mine, other = "{release}-variants", "kube-root-ca.crt"
print(json.dumps({{
    "read": status(core.read_namespaced_config_map, mine, namespace),
    "write": status(core.patch_namespaced_config_map, mine, namespace, {{}}),
    "delete": status(core.delete_namespaced_config_map, mine, namespace),
    "make another": status(core.create_namespaced_config_map, namespace, {{"metadata": {{"name": "another"}}}}),
    "read another": status(core.read_namespaced_config_map, other, namespace),
    "write another": status(core.patch_namespaced_config_map, other, namespace, {{}}),
    "list all": status(core.list_namespaced_config_map, namespace),
    "read elsewhere": status(core.read_namespaced_config_map, mine, "default"),
    "read secrets": status(core.list_namespaced_secret, namespace),
    "read pods": status(core.list_namespaced_pod, namespace),
    "read leases": status(leases.list_namespaced_lease, namespace),
}}))
"""
"""Asks for what nobody shall have too; printed are the statuses of the answers."""
FORBIDDEN = 403


@pytest.mark.parametrize(("component", "allowed"), [("orchestrator", {"read", "write"}), ("understanding", {"read"})])
def test_gateway_and_panel_may_read_the_table_the_gateway_write_it_and_neither_anything_else(
    cluster: Cluster, release: str, component: str, allowed: set[str]
) -> None:
    (pod, *_) = cluster.pods(release, component)
    answers = json.loads(cluster.python(pod, ASKED.format(release=release)))
    assert answers == {what: 200 if what in allowed else FORBIDDEN for what in answers}


@pytest.mark.parametrize("component", ["understanding", "memory", "video", "mllm-face"])
def test_a_variant_is_reached_by_the_gateway_and_by_no_other_service(
    cluster: Cluster, voices: str, component: str
) -> None:
    target = f"{voices}-tts-kokoro:50051"

    def opens(name: str) -> bool:
        (pod, *_) = cluster.pods(voices, name)
        return bool(json.loads(cluster.python(pod, OPENS, target))[target])

    assert opens("orchestrator")
    assert not opens(component)


def test_a_variant_reaches_nobody(cluster: Cluster, voices: str) -> None:
    (pod,) = cluster.pods(voices, "tts-kokoro")
    assert reached(cluster, voices, pod) == set()


@pytest.fixture
def upgrade(cluster: Cluster, voices: str) -> Iterator[None]:
    yield
    cluster.helm("upgrade", voices, str(CHART), *arguments(*route()), TWO_VOICES, "--wait", "--timeout=4m")


def test_an_upgrade_leaves_the_table_alone_until_the_values_own_it(
    cluster: Cluster, voices: str, address: str, upgrade: None, tmp_path: Path
) -> None:
    def upgraded(*values: str) -> None:
        settings = (*arguments(*route()), TWO_VOICES, *values)
        cluster.helm("upgrade", voices, str(CHART), *settings, "--wait", "--timeout=4m")

    def table() -> str:
        return str(cluster.get("configmap", f"{voices}-variants").get("data", {}).get("variants.json", ""))

    change(address, "put", "tts", "kokoro", f"dns:///{voices}-tts-kokoro:50051")
    change(address, "set", "tts", "kokoro=10")
    before, pods = table(), cluster.pods(voices, "orchestrator")
    upgraded()
    assert table() == before

    owned = ("--set=variants.owner=helm", "--set=variants.stages.tts.weights.default=80")
    upgraded(*owned, "--set=variants.stages.tts.weights.kokoro=20", "--force-conflicts")
    with each_gateway(cluster, voices, tmp_path) as gateways:
        cluster.wait("the values count", lambda: {each.variants.get().owner for each in gateways.values()} == {"helm"})
        (version,) = {each.variants.get().version for each in gateways.values()}
        refused = run(address, "set", "tts", "kokoro=40")
        assert refused.status == 1
        assert "the chart's values own the table of variants" in refused.problem
        committed = tmp_path / "committed.yaml"
        committed.write_text(refused.output, "utf-8")
        assert yaml.safe_load(refused.output)["variants"]["stages"]["tts"]
        assert {each.variants.get().version for each in gateways.values()} == {version}

        upgraded("--set=variants.owner=helm", f"--values={committed}")
        cluster.wait("it is another", lambda: all(each.variants.get().version != version for each in gateways.values()))
        for gateway in gateways.values():
            (stage,) = (each for each in gateway.variants.get().stages if each.name == "tts")
            assert {each.name: each.weight for each in stage.variants} == {"default": 60, "kokoro": 40}

        upgraded()
        assert table() == ""
        until_used([*gateways.values()], 0)
        assert run(address, "show").output.count("kokoro") == 0
    assert cluster.pods(voices, "orchestrator") == pods
