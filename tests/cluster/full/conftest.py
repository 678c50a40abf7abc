"""A release of an earlier version, upgraded, and a node that can be lost.

Environment, beside that of the other tests on a cluster:
    E3RG_TEST_PREVIOUS_CHART: Folder of the chart of the earlier version; its images have the tag `previous`.
    E3RG_TEST_ADAPTER: Program of prometheus-adapter; there are images of it and of Prometheus then.
    E3RG_TEST_KILL, E3RG_TEST_REVIVE: Commands that end a node without warning, and bring it back; its name is added.
    E3RG_TEST_STOP_API, E3RG_TEST_RESUME_API: Commands that stop the server of the cluster's API, and let it go on.
"""

import os
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster.conftest import CHART, RELEASE, arguments, reaching, route
from tests.support.cluster import TIMEOUT_S, Cluster

PREVIOUS = Path(os.environ.get("E3RG_TEST_PREVIOUS_CHART", ""))
EARLIER = (
    "image.tag=previous",
    "database.bundled.image=localhost/e3rg-test-postgres:previous",
    "objectStore.bundled.image=localhost/e3rg-test-seaweedfs:previous",
)
"""Values of the earlier version."""


@pytest.fixture(scope="session")
def previous(cluster: Cluster, wheels: str) -> str:
    """The name of a release of the earlier version, all of whose pods are ready."""
    assert wheels
    install = ("upgrade", "--install", RELEASE, str(PREVIOUS), *arguments(*route(), *EARLIER))
    cluster.helm(*install, "--wait", "--wait-for-jobs", "--timeout=8m")
    return RELEASE


@pytest.fixture(scope="session")
def release(cluster: Cluster, previous: str) -> str:
    """The same release, upgraded to this version; its database and object store stay as they were."""
    cluster.helm("upgrade", previous, str(CHART), *arguments(*route(), *EARLIER[1:]), "--wait", "--timeout=8m")
    return previous


@pytest.fixture(scope="session")
def address(cluster: Cluster, previous: str) -> Iterator[str]:
    """Address of the gateway for clients outside, before and after the upgrade."""
    with reaching(cluster, previous) as found:
        yield found


@pytest.fixture
def kill_node() -> Callable[[str], None]:
    return lambda name: _run("E3RG_TEST_KILL", name)


@pytest.fixture
def revive_node() -> Callable[[str], None]:
    return lambda name: _run("E3RG_TEST_REVIVE", name)


@pytest.fixture
def stop_api() -> Callable[[], None]:
    return lambda: _run("E3RG_TEST_STOP_API")


@pytest.fixture
def resume_api() -> Callable[[], None]:
    return lambda: _run("E3RG_TEST_RESUME_API")


def _run(variable: str, *words: str) -> None:
    subprocess.run([*shlex.split(os.environ[variable]), *words], check=True, timeout=TIMEOUT_S)
