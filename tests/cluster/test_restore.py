"""A dump brings back what was lost after it."""

from client import Client
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from tests.support.cluster import Cluster


def run_job(cluster: Cluster, release: str, name: str) -> str:
    """Run a CronJob of the release once; return what it prints."""
    cluster.kubectl("create", "job", f"{name}-now", f"--from=cronjob/{release}-{name}")
    cluster.kubectl("wait", f"job/{name}-now", "--for=condition=Complete", "--timeout=120s")
    # Of all its pods: the first may have come before the name of a database that has just started.
    output = cluster.kubectl("logs", f"--selector=batch.kubernetes.io/job-name={name}-now", "--tail=-1")
    cluster.kubectl("delete", "job", f"{name}-now")
    return output


def stop_memory(cluster: Cluster, release: str) -> None:
    """Stop all replicas of the memory."""
    cluster.kubectl("scale", f"deployment/{release}-memory", "--replicas=0")
    selector = f"app.kubernetes.io/instance={release},app.kubernetes.io/component=memory"
    cluster.kubectl("wait", "--for=delete", "pod", f"--selector={selector}", "--timeout=180s")


def start_memory(cluster: Cluster, release: str, client: Client) -> None:
    """Start two replicas of the memory, and wait until the gateway has found them."""
    memory = f"deployment/{release}-memory"
    cluster.kubectl("scale", memory, "--replicas=2")
    cluster.kubectl("rollout", "status", memory, "--timeout=240s")
    cluster.wait("the gateway finds the memory", lambda: all(status.ready for status in client.status()))


def _turns(client: Client) -> list[str]:
    return [turn.user_text for turn in client.turns.all("anna", "backup")]


def test_a_restored_dump_has_what_was_erased_after_it(cluster: Cluster, release: str, client: Client) -> None:
    header = pb.RespondHeader(text="Remember this.", identity="anna", conversation="backup", output=pb.OUTPUT_TEXT)
    assert list(client.respond(header))
    assert "Remember this." in _turns(client)
    assert ".dump" in run_job(cluster, release, "backup")
    (database,) = cluster.pods(release, "database")
    psql = ("psql", "--host=/var/run/postgresql", "--username=postgres", "--dbname=e3rg")
    cluster.kubectl("exec", database, "--", *psql, "--command=DELETE FROM turns")
    assert _turns(client) == []
    stop_memory(cluster, release)
    assert "restored" in run_job(cluster, release, "restore")
    start_memory(cluster, release, client)
    assert "Remember this." in _turns(client)
