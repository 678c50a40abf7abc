"""A second release lives beside the first, on MinIO; uninstalling it keeps its volumes."""

from tests.cluster.conftest import CHART, arguments
from tests.support.cluster import Cluster

SECOND = "second"


def test_a_second_release_answers_on_minio_and_goes_without_its_volumes(cluster: Cluster, release: str) -> None:
    values = (
        *("componentDefaults.replicas=1", "objectStore.bundled.image=localhost/e3rg-test-minio:test"),
        *(f"weights.existingClaim={release}-weights", "gateway.route.enabled=false"),
    )
    minio = f"--values={CHART / 'values-minio.yaml'}"
    cluster.helm("install", SECOND, str(CHART), *arguments(*values), minio, "--wait", "--timeout=6m")
    assert "without: nothing" in cluster.helm("test", SECOND, "--logs", "--timeout=3m")
    assert "without: nothing" in cluster.helm("test", release, "--logs", "--timeout=3m")
    cluster.helm("uninstall", SECOND, "--wait", "--timeout=4m")
    selector = f"--selector=app.kubernetes.io/instance={SECOND}"
    kept = {one["metadata"]["name"] for one in cluster.get("persistentvolumeclaims,secrets", selector)["items"]}
    assert kept == {
        f"data-{SECOND}-database-0",
        f"data-{SECOND}-store-0",
        f"{SECOND}-backup",
        f"{SECOND}-database",
        f"{SECOND}-store",
    }
    assert cluster.get("deployments,statefulsets,services,networkpolicies", selector)["items"] == []
