"""A Kubernetes cluster for tests, by Helm and kubectl: a namespace, releases in it, pods that look around."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.support.kubernetes_programs import helm, kubectl
from tests.support.ports import free_ports

TIMEOUT_S = 240.0
POLL_S = 0.5
REGISTRY = os.environ.get("E3RG_TEST_REGISTRY", "localhost")
TAG = os.environ.get("E3RG_TEST_TAG", "test")


class CommandFailed(Exception):
    """A program ended with another status than 0; the message is what it wrote."""


@dataclass(frozen=True)
class Cluster:
    """One namespace of the cluster that KUBECONFIG names."""

    namespace: str

    def kubectl(self, *arguments: str, content: bytes | None = None, timeout_s: float = TIMEOUT_S) -> str:
        """Run kubectl in the namespace; return what it prints."""
        return _run([str(kubectl()), "--namespace", self.namespace, *arguments], content, timeout_s)

    def helm(self, *arguments: str, timeout_s: float = 2 * TIMEOUT_S) -> str:
        """Run Helm in the namespace; return what it prints."""
        return _run([str(helm()), "--namespace", self.namespace, *arguments], None, timeout_s)

    def get(self, *arguments: str) -> Any:
        """Return what `kubectl get` finds."""
        return json.loads(self.kubectl("get", *arguments, "--output=json"))

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Make objects, or change them."""
        self.kubectl("apply", "--filename=-", content=b"\n---\n".join(json.dumps(one).encode() for one in objects))

    def pods(self, release: str, component: str) -> list[str]:
        """Return the names of a component's pods that are ready and not stopping."""
        selector = f"app.kubernetes.io/instance={release},app.kubernetes.io/component={component}"
        return [
            pod["metadata"]["name"] for pod in self.get("pods", f"--selector={selector}")["items"] if _is_ready(pod)
        ]

    def wait(self, what: str, done: Callable[[], object], timeout_s: float = TIMEOUT_S) -> None:
        """Ask again and again until it is so."""
        end_s = time.monotonic() + timeout_s
        while not done():
            assert time.monotonic() < end_s, f"{what}: not after {timeout_s:g} s"
            time.sleep(POLL_S)

    def start_pod(self, name: str, *, image: str = "orchestrator", **options: Any) -> None:
        """Start a pod that does nothing, as restricted as the release's, and wait until it runs.

        Args:
            name: Its name.
            image: The component whose image it has.
            options: `labels`, and `claims` by the folder that they are mounted at.
        """
        claims: Mapping[str, str] = options.get("claims", {})
        container = {
            "name": "main",
            "image": f"{REGISTRY}/e3rg-{image}:{TAG}",
            "command": ["sleep", "3600"],
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            "volumeMounts": [{"name": claim, "mountPath": folder} for folder, claim in claims.items()],
        }
        security = {"runAsNonRoot": True, "runAsUser": 10001, "fsGroup": 10001}
        specification = {
            "containers": [container],
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "securityContext": security | {"seccompProfile": {"type": "RuntimeDefault"}},
            "volumes": [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims.values()],
        }
        about = {"name": name, "labels": dict(options.get("labels", {}))}
        self.apply({"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": specification})
        self.kubectl("wait", f"pod/{name}", "--for=condition=Ready", "--timeout=120s")

    @contextmanager
    def forwarded(self, target: str, port: int) -> Iterator[str]:
        """Yield an address on this machine for a port of a Service or a pod."""
        (mine,) = free_ports(1)
        command = [str(kubectl()), "--namespace", self.namespace, "port-forward", target, f"{mine}:{port}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as forwarding:
            assert forwarding.stdout
            assert forwarding.stdout.readline()
            try:
                yield f"127.0.0.1:{mine}"
            finally:
                forwarding.terminate()

    def python(self, pod: str, script: str, *arguments: str) -> str:
        """Run a script in a pod; return what it prints."""
        return self.kubectl("exec", "--stdin", pod, "--", "python", "-", *arguments, content=script.encode())


def _run(command: list[str], content: bytes | None, timeout_s: float) -> str:
    done = subprocess.run(command, input=content, capture_output=True, check=False, timeout=timeout_s)
    if done.returncode:
        output = (done.stdout + done.stderr).decode("utf-8", "replace")
        raise CommandFailed(f"{' '.join(command[1:])}: {output}")
    return done.stdout.decode()


def _is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = {one["type"]: one["status"] for one in pod["status"].get("conditions", ())}
    return conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]
