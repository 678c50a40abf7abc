"""One release in the cluster for all tests, and a client that reaches it from outside.

Environment:
    KUBECONFIG: The cluster; any.
    E3RG_TEST_REGISTRY, E3RG_TEST_TAG: Where the cluster finds the images (`localhost`, `test`).
    E3RG_TEST_GATEWAY: `NAMESPACE/NAME=HOST:PORT`, a Gateway and where its HTTP listener answers; without it the tests
        forward a port.
    E3RG_TEST_VALUES: More values files, separated by spaces.
    E3RG_TEST_KEEP: Leave the release and its namespace for the next run.
"""

import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from client import Client
from tests.cluster.wheels import pack
from tests.support.cluster import REGISTRY, TAG, Cluster

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm"
NAMESPACE, RELEASE = "e3rg-test", "e3rg"
TWO_VOICES = f"--values={ROOT / 'tests/cluster/voices.yaml'}"
GATEWAY, _, ADDRESS = os.environ.get("E3RG_TEST_GATEWAY", "").partition("=")


def arguments(*values: str) -> list[str]:
    """Return the arguments of `helm install` that every release has."""
    files = [ROOT / "tests/cluster/values.yaml", *os.environ.get("E3RG_TEST_VALUES", "").split()]
    settings = [f"image.registry={REGISTRY}", f"image.tag={TAG}", *values]
    return [f"--values={file}" for file in files] + [f"--set={one}" for one in settings]


def route() -> list[str]:
    """Return the values that attach a release to the Gateway, where there is one."""
    namespace, _, name = GATEWAY.partition("/")
    parent = "gateway.route.parentRefs[0]"
    return ["gateway.route.enabled=true", f"{parent}.name={name}", f"{parent}.namespace={namespace}"] if GATEWAY else []


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A namespace that admits restricted pods only; everything in it goes at the end."""
    here = Cluster(NAMESPACE)
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    here.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}})
    yield here
    if os.environ.get("E3RG_TEST_KEEP"):
        return
    # First: while pods have time to stop, a namespace is looked at again after half of that time only.
    here.kubectl("delete", "cronjobs,jobs,deployments,statefulsets,pods", "--all", "--timeout=180s")
    here.kubectl("delete", "namespace", NAMESPACE, "--timeout=180s")


@pytest.fixture(scope="session")
def wheels(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A claim with the packages of the weights: a test needs no registry."""
    resources = {"requests": {"storage": "1Gi"}}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": resources}
    cluster.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "wheels"}, "spec": claim})
    folder = tmp_path_factory.mktemp("wheels")
    pack(ROOT / ".models", folder)
    archive = folder.with_suffix(".tar")
    with tarfile.open(archive, "w") as tar:
        for wheel in folder.iterdir():
            tar.add(wheel, wheel.name)
    cluster.start_pod("wheels", image="weights", claims={"/wheels": "wheels"})
    unpack = ("tar", "--extract", "--directory=/wheels", "--no-same-permissions")
    cluster.kubectl("exec", "--stdin", "wheels", "--", *unpack, content=archive.read_bytes())
    cluster.kubectl("delete", "pod", "wheels")
    return "wheels"


@pytest.fixture(scope="session")
def release(cluster: Cluster, wheels: str) -> str:
    """The name of a release, all of whose pods are ready."""
    assert wheels
    install = ("upgrade", "--install", RELEASE, str(CHART), *arguments(*route()))
    cluster.helm(*install, "--wait", "--wait-for-jobs", "--timeout=8m")
    return RELEASE


@pytest.fixture(scope="session")
def address(cluster: Cluster, release: str) -> Iterator[str]:
    """Address of the gateway for clients outside."""
    with reaching(cluster, release) as found:
        yield found


@contextmanager
def reaching(cluster: Cluster, release: str) -> Iterator[str]:
    """Yield the address of a release's gateway for clients outside."""
    if ADDRESS:
        yield ADDRESS
        return
    with cluster.forwarded(f"service/{release}-orchestrator", 50051) as found:
        yield found


@pytest.fixture(scope="session")
def voices(cluster: Cluster, release: str) -> Iterator[str]:
    """The release with Kokoro beside its voice, an administered table, and a writer that is soon done.

    It stays so: the tests of variants are the last ones by name.
    """
    cluster.helm("upgrade", release, str(CHART), *arguments(*route()), TWO_VOICES, "--wait", "--timeout=6m")
    yield release
    # For a release that is left for the next run: without a table nothing goes to a voice that is gone.
    cluster.kubectl("patch", "configmap", f"{release}-variants", "--type=merge", '--patch={"data": null}')


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    with Client(address) as connected:
        yield connected
