"""What gateway and panel may do in the cluster, and whom a variant reaches."""

import json

import pytest

from tests.cluster.test_policies import SCRIPT as OPENS
from tests.cluster.test_policies import reached
from tests.support.cluster import Cluster

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
