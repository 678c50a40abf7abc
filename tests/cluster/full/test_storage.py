"""The bundled database and object store are upgraded and keep what is on their volumes."""

from client import Client
from e3rg.memory.v1.memory_pb2 import CLIP_KIND_SPEECH
from e3rg.orchestrator.v1 import orchestrator_pb2 as pb
from tests.cluster.conftest import CHART, arguments, route
from tests.cluster.full.conftest import EARLIER
from tests.cluster.test_restore import run_job, start_memory, stop_memory
from tests.support.cluster import Cluster

COMMANDS = {"database": ("postgres", "--version"), "store": ("weed", "version")}


def versions(cluster: Cluster, release: str) -> dict[str, str]:
    """Return the versions that the servers print."""
    pods = {server: cluster.pods(release, server)[0] for server in COMMANDS}
    return {server: cluster.kubectl("exec", pods[server], "--", *COMMANDS[server]).strip() for server in COMMANDS}


def kept(client: Client) -> list[tuple[str, int]]:
    """Return the texts of the kept turns, with the bytes of their speech."""
    return [
        (turn.user_text, len(b"".join(client.turns.clip("anna", "kept", turn.id, CLIP_KIND_SPEECH))))
        for turn in client.turns.all("anna", "kept")
    ]


def test_new_versions_of_database_and_store_serve_what_the_old_ones_kept(
    cluster: Cluster, release: str, client: Client
) -> None:
    header = pb.RespondHeader(text="Keep this.", identity="anna", conversation="kept", keep_clips=True)
    assert list(client.respond(header))
    before, found = versions(cluster, release), kept(client)
    assert found
    assert all(size for _, size in found)
    images = ("database.bundled.image=localhost/e3rg-test-postgres:later", EARLIER[2].replace("previous", "test"))
    cluster.helm("upgrade", release, str(CHART), *arguments(*route(), *images), "--wait", "--timeout=6m")
    cluster.wait("the memory serves again", lambda: all(status.ready for status in client.status()))
    after = versions(cluster, release)
    print(before, after)
    assert all(before[server] != after[server] for server in COMMANDS)
    assert kept(client) == found


def test_another_major_version_of_the_database_starts_empty_and_restores_a_dump(
    cluster: Cluster, release: str, client: Client
) -> None:
    found = kept(client)
    assert found
    stop_memory(cluster, release)
    run_job(cluster, release, "backup")
    database = f"statefulset/{release}-database"
    cluster.helm("upgrade", release, str(CHART), *arguments(*route()))
    cluster.kubectl("scale", database, "--replicas=0")
    cluster.kubectl("wait", "--for=delete", f"pod/{release}-database-0", "--timeout=120s")
    cluster.kubectl("delete", "persistentvolumeclaim", f"data-{release}-database-0")
    cluster.kubectl("scale", database, "--replicas=1")
    cluster.kubectl("rollout", "status", database, "--timeout=120s")
    assert "restored" in run_job(cluster, release, "restore")
    start_memory(cluster, release, client)
    print(versions(cluster, release)["database"])
    assert kept(client) == found
