"""An upgrade changes what it is told, a rollback undoes it, and secrets outlive both."""

from tests.cluster.conftest import CHART, arguments, route
from tests.support.cluster import Cluster
from tests.support.turns_under_load import CALLERS, under_load


def deadline(cluster: Cluster, release: str) -> str:
    """Return the deadline of a turn that the gateway's pods run with."""
    (pod, *_) = cluster.pods(release, "orchestrator")
    return cluster.python(pod, "import os; print(os.environ['E3RG_ORCHESTRATOR_TURN_DEADLINE_S'])").strip()


def secrets(cluster: Cluster, release: str) -> dict[str, dict[str, str]]:
    """Return what the release's Secrets hold."""
    found = cluster.get("secrets", f"--selector=app.kubernetes.io/instance={release}")["items"]
    return {secret["metadata"]["name"]: secret["data"] for secret in found}


def test_a_value_is_changed_and_changed_back_under_load_and_no_turn_fails(
    cluster: Cluster, release: str, address: str
) -> None:
    before, kept = deadline(cluster, release), secrets(cluster, release)
    with under_load(address) as load:
        load.wait_for(CALLERS)
        changed = arguments(*route(), "turn.deadlineS=45")
        cluster.helm("upgrade", release, str(CHART), *changed, "--wait", "--timeout=6m")
        assert deadline(cluster, release) == "45" != before
        load.wait_for(CALLERS)
        assert secrets(cluster, release) == kept
        cluster.helm("rollback", release, "--wait", "--timeout=6m")
        assert deadline(cluster, release) == before
        load.wait_for(CALLERS)
    assert secrets(cluster, release) == kept
    assert load.lost == []
