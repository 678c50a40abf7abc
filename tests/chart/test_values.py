"""Values: each is documented, each mistake is refused with words that help."""

import re
from collections.abc import Iterator

import pytest
import yaml

from helm.readme import fresh
from tests.chart.conftest import CHART, Refused, rendered

VALUES = (CHART / "values.yaml").read_text("utf-8")


def test_the_registry_is_demanded_and_the_error_says_how_to_push() -> None:
    with pytest.raises(Refused, match=r"(?s)/image/registry.*make images push REGISTRY=.*--set image.registry="):
        rendered(registry="")


EXTERNAL_STORE = "objectStore.mode=external,objectStore.external.secretName=s3,objectStore.external.endpoint"
VOTER, VOTER_TWO = "panel.voters[0].name", "panel.voters[1].name"
FACES = "panel.voters[0].component=mllm-face,panel.voters[1].component=mllm-face"
VOLUME = "components.tts.volumes[0]"
SCALING = "components.video.scaling"
KOKORO = "components.tts.variants.kokoro"
BY_VALUES = f"variants.owner=helm,{KOKORO}.replicas=1,variants.stages.tts"
SPLIT = "weights.default=90,variants.stages.tts.weights.kokoro=10"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("tls.modes=insecure", "'modes' not allowed"),
        ("components.tts.replica=3", "'replica' not allowed"),
        ("components.speech.replicas=3", "'speech' not allowed"),
        ("tls.mode=plain", "/tls/mode"),
        ("components.tts.replicas=-1", "/components/tts/replicas"),
        ("weights.size=2GB", "/weights/size"),
        ("weights.accessModes={ReadWriteOncePod}", "/weights/accessModes"),
        ("database.external.cidrs[0]=10.0.0.1", "/database/external/cidrs"),
        ("production=true", "refuses the bundled database"),
        ("production=true,database.mode=external", "refuses the bundled object store"),
        (
            "production=true,database.mode=external,objectStore.mode=external,tls.mode=insecure",
            "refuses tls.mode=insecure",
        ),
        ("database.mode=external", "set database.external.host"),
        ("objectStore.mode=external", "set objectStore.external.endpoint"),
        ("tls.mode=secret", "set tls.secretName"),
        ("tls.mode=certManager", "set tls.issuer.name"),
        ("health.port=0", "probes cannot speak TLS"),
        ("panel.writer=nobody", "must be one of panel.voters: mpnet, text, face, voice, smollm2"),
        ("components.mllm-face=null", "face asks component mllm-face, which is not in components"),
        ("components.tts=null", "components.tts is missing"),
        ("turn.deadlineS=121", "turn.deadlineS is 121, more than turn.deadlineMaxS, 120"),
        ("health.port=9090", "health.port is 9090"),
        ("health.port=50051", "health.port is 50051"),
        (f"{EXTERNAL_STORE}=https://s3.example.org", "leave out https:// and set objectStore.external.tls"),
        (f"{EXTERNAL_STORE}=s3.example.org:9000", "set objectStore.external.port=9000"),
        (f"{EXTERNAL_STORE}=s3.example.org,objectStore.external.tls=false", "set objectStore.external.port=80"),
        ("telemetry.otlpEndpoint=http://collector:4317", "set telemetry.otlpNamespace"),
        ("telemetry.sampledShare=1.5", "telemetry/sampledShare"),
        (f"{VOTER}=tts,panel.voters[0].component=tts", "tts asks component tts, which is no voter"),
        (f"{VOTER}=face,{VOTER_TWO}=face,{FACES}", "has two of the name face"),
        ("metrics.rules.enabled=true,metrics.rules.without[0]=E3rgAway", "there is no alert E3rgAway; there are E3rg"),
        ("metrics.serviceMonitor.interval=often", "/metrics/serviceMonitor/interval"),
        ("gateway.ingress.enabled=true", "set gateway.ingress.host"),
        ("gateway.route.enabled=true", "set gateway.route.parentRefs"),
        ("image.tag=0.1.0/cpu", "/image/tag"),
        ("database.name=my/db", "/database/name"),
        (f"{SCALING}.kind=cpu", "/components/video/scaling/kind"),
        (f"{SCALING}.minReplicas=0", "/components/video/scaling/minReplicas"),
        (f"{SCALING}.targetBacklogS=0", "/components/video/scaling/targetBacklogS"),
        (f"{SCALING}.targetBacklogS=0.0", "/components/video/scaling/targetBacklogS"),
        (f"{SCALING}.targetRefusalsPerS=-0.1", "/components/video/scaling/targetRefusalsPerS"),
        (f"{SCALING}.kind=hpa,{SCALING}.minReplicas=5", "minReplicas is 5, more than maxReplicas, 4"),
        (f"{SCALING}.kind=keda", "set metrics.prometheusAddress"),
        ("metrics.prometheusAddress=prometheus:9090", "/metrics/prometheusAddress"),
        ("components.memory.scaling.kind=hpa", "set components.memory.replicas"),
        ("componentDefaults.scaling.kind=hpa", "only mllm-*, tts and video tell a backlog"),
        (f"{KOKORO}.replica=3", "'replica' not allowed"),
        (f"{KOKORO}.variants.b.replicas=1", "/components/tts/variants/kokoro/variants"),
        ("componentDefaults.variants.b.replicas=1", "/componentDefaults/variants"),
        ("components.tts.variants.Kokoro.replicas=1", "components.tts.variants.Kokoro: a name begins with a letter"),
        ("components.tts.variants.default.replicas=1", "components.tts.variants.default: default is the component"),
        ("components.memory.variants.b.replicas=1", "components.memory.variants.b: only mllm-*, tts and video"),
        (
            "components.mllm-face.variants.b.replicas=1,components.mllm-face-b.replicas=1",
            "components.mllm-face.variants.b makes the name mllm-face-b, which another component or variant has",
        ),
        (
            "components.mllm-a.variants.b-c.replicas=1,components.mllm-a-b.variants.c.replicas=1",
            "components.mllm-a-b.variants.c makes the name mllm-a-b-c, which another component or variant has",
        ),
        (f"{KOKORO}.scaling.kind=keda", "components.tts.variants.kokoro.scaling.kind is keda: set metrics.prometheus"),
        ("variants.owner=argo", "/variants/owner"),
        ("variants.stages.tts.weights.default=100", "but variants.owner is cli"),
        (f"{BY_VALUES}.weights.default=90", "variants.stages.tts.weights sum to 90; make them 100"),
        (f"{BY_VALUES}.weights.kokoro=9.5", "variants.stages.tts.weights sum to 9.5; make them 100"),
        (f"{BY_VALUES}.weights.kokoro=101", "/variants/stages/tts/weights/kokoro"),
        (f"{BY_VALUES}.weights.hibari=100", "variants.stages.tts.weights: tts has no variant hibari; use one of def"),
        (f"{BY_VALUES}.control=hibari", "variants.stages.tts.control: tts has no variant hibari"),
        (f"{BY_VALUES}.shadow.hibari=1", "variants.stages.tts.shadow: tts has no variant hibari"),
        (f"{BY_VALUES}.states.hibari=off", "variants.stages.tts.states: tts has no variant hibari"),
        (f"{BY_VALUES}.states.kokoro=paused", "/variants/stages/tts/states/kokoro"),
        (
            f"{BY_VALUES}.{SPLIT},variants.stages.tts.states.kokoro=draining",
            "variants.stages.tts.weights.kokoro is 10, but variants.stages.tts.states.kokoro is draining",
        ),
        (
            "variants.owner=helm,variants.stages.speech.control=default",
            "variants.stages.speech: there is no such stage",
        ),
        ("variants.owner=helm,variants.guardrails.tts.windowS=60", "variants.stages has no tts; add it"),
        (f"{BY_VALUES}.{SPLIT},variants.guardrails.tts.windowS=5", "/variants/guardrails/tts/windowS"),
        (f"{BY_VALUES}.{SPLIT},variants.guardrails.tts.failedShareMax=1.5", "/variants/guardrails/tts/failedShareMax"),
        ("networkPolicy.apiServer.cidrs[0]=10.0.0.1", "/networkPolicy/apiServer/cidrs"),
        (f"{VOLUME}.name=models,{VOLUME}.claim=ours,{VOLUME}.mountPath=/weights", "the name models is the chart's own"),
    ],
)
def test_a_mistake_is_refused(value: str, message: str) -> None:
    with pytest.raises(Refused, match=re.escape(message)):
        rendered("--set", value)


@pytest.mark.parametrize(
    ("release", "values", "refused"),
    [
        ("a" * 42, (), ""),
        ("a" * 43, (), "mllm-text-classifier has 64 characters, at most 63"),
        ("e3rg", ("--set", f"components.mllm-{'b' * 60}.weights=true"), "at most 63"),
        ("a" * 19, ("--set", f"components.tts.variants.{'b' * 39}.replicas=1"), ""),
        ("a" * 19, ("--set", f"components.tts.variants.{'b' * 40}.replicas=1"), "has 64 characters, at most 63"),
        ("a" * 44, ("-f", str(CHART / "values-gpu.yaml")), "database has 53 characters, at most 52"),
    ],
)
def test_a_release_whose_name_makes_one_that_is_too_long_is_refused(
    release: str, values: tuple[str, ...], refused: str
) -> None:
    if refused:
        with pytest.raises(Refused, match=refused):
            rendered(*values, release=release)
    else:
        assert rendered(*values, release=release).objects


@pytest.mark.parametrize("endpoint", ["s3.example.org:9000,objectStore.external.port=9000", "s3.example.org"])
def test_an_endpoint_that_goes_with_its_port_is_taken(endpoint: str) -> None:
    assert rendered("--set", f"{EXTERNAL_STORE}={endpoint}").objects


def _keys() -> Iterator[tuple[str, bool]]:
    """Yield the name of every value and whether a comment stands beside or above it."""
    above = False
    for line in VALUES.splitlines():
        if match := re.match(r" *([\w-]+):(?: .*?)?( # .+)?$", line):
            yield match[1], above or bool(match[2])
            above = False
        else:
            above = line.lstrip().startswith("#")


def test_every_value_is_documented() -> None:
    # What is written once for all components is not repeated for each.
    for_all = set(yaml.safe_load(VALUES)["componentDefaults"])
    undocumented = [key for key, is_documented in _keys() if not is_documented and key not in for_all]
    assert not undocumented


def test_the_readme_is_made_of_the_values() -> None:
    readme = (CHART / "README.md").read_text("utf-8")
    assert readme == fresh(readme, VALUES), "make chart"
    assert "`networkPolicy.dns.labels`" in readme
