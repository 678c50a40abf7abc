"""Generated certificates are replaced while turns are made."""

from tests.cluster.conftest import CHART, arguments, route
from tests.cluster.full.conftest import EARLIER
from tests.cluster.test_installation import COMPONENTS
from tests.support.cluster import Cluster
from tests.support.turns_under_load import CALLERS, under_load

SCRIPT = """
import ssl
shown = ssl.get_server_certificate(("127.0.0.1", 50051))
print(shown.strip() == open("/tls/tls.crt").read().strip(), end=" ")
print(shown)
"""


def shown(cluster: Cluster, release: str) -> dict[str, str]:
    """Return the certificates that the servers of all pods show; empty for one that is not that of its file."""
    found = {}
    for component in COMPONENTS:
        for pod in cluster.pods(release, component):
            is_of_file, _, certificate = cluster.python(pod, SCRIPT).partition(" ")
            found[pod] = certificate if is_of_file == "True" else ""
    return found


def test_new_certificates_are_shown_without_a_restart_and_no_turn_fails(
    cluster: Cluster, release: str, address: str
) -> None:
    before = shown(cluster, release)
    assert all(before.values())
    with under_load(address) as load:
        load.wait_for(CALLERS)
        cluster.kubectl("delete", "secret", *(f"{release}-{component}-tls" for component in COMPONENTS))
        cluster.helm("upgrade", release, str(CHART), *arguments(*route(), *EARLIER[1:]), "--wait", "--timeout=6m")

        def are_replaced() -> bool:
            now = shown(cluster, release)
            return now.keys() == before.keys() and all(now[pod] not in ("", old) for pod, old in before.items())

        cluster.wait("all pods show new certificates", are_replaced)
        load.wait_for(CALLERS)
    print(f"{len(load.outcomes)} turns; lost: {load.lost}")
    assert load.lost == []
