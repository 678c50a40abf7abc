"""Promises of the chart for every way to install it."""

import subprocess

import kubernetes_validate
import pytest
from cloudcoil.models.keda.v1alpha1 import ScaledObject
from cloudcoil.models.prometheus_operator import v1 as prometheus_operator
from pydantic import BaseModel

from tests.chart.conftest import CHART, PROFILES, REGISTRY, Manifest, Rendered, rendered, text
from tests.support.kubernetes_programs import helm

KUBERNETES = "1.34"
OTHERS_KINDS = {"HTTPRoute", "BackendTLSPolicy", "Certificate"}
"""Their schemas are in custom resource definitions, which the test cluster has, or which nobody here has."""
OPERATORS_KINDS: dict[str, type[BaseModel]] = {
    "ServiceMonitor": prometheus_operator.ServiceMonitor,
    "PrometheusRule": prometheus_operator.PrometheusRule,
    "ScaledObject": ScaledObject,
}
"""Models made of custom resource definitions."""


@pytest.mark.parametrize("profile_name", PROFILES)
def test_helm_has_nothing_to_complain_about(profile_name: str) -> None:
    arguments = [one for one in PROFILES[profile_name] if one != "--is-upgrade"]  # lint knows no cluster
    command = [str(helm()), "lint", "--strict", str(CHART), "--set", f"image.registry={REGISTRY}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_object_is_one_that_kubernetes_knows(profile: Rendered) -> None:
    for one in profile.objects:
        if model := OPERATORS_KINDS.get(one["kind"]):
            model.model_validate(one, extra="forbid")
        elif one["kind"] not in OTHERS_KINDS:
            kubernetes_validate.validate(one, KUBERNETES, strict=True)


def test_objects_have_names_of_their_own_and_begin_with_the_release(profile: Rendered) -> None:
    names = [(one["kind"], one["metadata"]["name"]) for one in profile.objects]
    assert len(names) == len(set(names))
    for kind, name in names:
        assert name.startswith("avatars-e3rg-" if kind == "PriorityClass" else "e3rg-"), name


def test_every_pod_passes_the_standard_restricted(profile: Rendered) -> None:
    for name, template in profile.pods():
        pod = template["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod), name
        for container in (*pod["containers"], *pod.get("initContainers", ())):
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False, name
            assert context["capabilities"] == {"drop": ["ALL"]}, name
            assert context["readOnlyRootFilesystem"] is True, name
            assert container["resources"]["limits"]["memory"], name


def test_gateway_and_panel_alone_have_a_token_and_each_pod_has_an_account_of_the_release(profile: Rendered) -> None:
    accounts = profile.of("ServiceAccount")
    assert all(account["automountServiceAccountToken"] is False for account in accounts.values())
    with_token = {"Deployment e3rg-orchestrator", "Deployment e3rg-understanding"}
    for name, template in profile.pods():
        assert template["spec"]["automountServiceAccountToken"] is (name in with_token), name
        assert template["spec"]["serviceAccountName"].removeprefix("e3rg-") in accounts, name
    assert not {"ClusterRole", "ClusterRoleBinding"} & {one["kind"] for one in profile.objects}


def test_a_pod_writes_to_bounded_volumes_only(profile: Rendered) -> None:
    for name, template in profile.pods():
        volumes = {volume["name"]: volume for volume in template["spec"].get("volumes", ())}
        assert all("hostPath" not in volume for volume in volumes.values()), name
        assert all(volume["emptyDir"]["sizeLimit"] for volume in volumes.values() if "emptyDir" in volume), name
        mounts = [mount for container in template["spec"]["containers"] for mount in container["volumeMounts"]]
        assert any(mount["mountPath"] == "/tmp" for mount in mounts), name
        for mount in mounts:
            if mount["name"] in volumes and {"secret", "configMap"} & set(volumes[mount["name"]]):
                assert mount["readOnly"] is True, name


def test_every_claim_secret_and_script_that_a_pod_mounts_is_there_or_the_operators(profile: Rendered) -> None:
    ours = {(kind, f"e3rg-{name}") for kind in ("ConfigMap", "Secret") for name in profile.of(kind)}
    ours |= {("PersistentVolumeClaim", f"e3rg-{name}") for name in profile.of("PersistentVolumeClaim")}
    ours |= {("Secret", one["spec"]["secretName"]) for one in profile.of("Certificate").values()}
    for name, template in profile.pods():
        for volume in template["spec"].get("volumes", ()):
            wanted = {
                ("Secret", volume.get("secret", {}).get("secretName")),
                ("ConfigMap", volume.get("configMap", {}).get("name")),
                ("PersistentVolumeClaim", volume.get("persistentVolumeClaim", {}).get("claimName")),
            }
            missing = {one for one in wanted if str(one[1]).startswith("e3rg-")} - ours
            assert not missing, name


def test_services_are_headless_and_choose_pods_that_there_are(profile: Rendered) -> None:
    labels = [set(template["metadata"]["labels"].items()) for _, template in profile.pods()]
    for name, service in profile.of("Service").items():
        assert service["spec"]["clusterIP"] == "None", name
        assert sum(set(service["spec"]["selector"].items()) <= one for one in labels) == 1, name


def test_a_stopping_pod_gets_the_longest_turn_and_its_grace(profile: Rendered) -> None:
    longest_s = int(profile.environment("orchestrator")["E3RG_ORCHESTRATOR_TURN_DEADLINE_MAX_S"])
    for name, deployment in profile.of("Deployment").items():
        environment = profile.environment(name)
        (grace_s,) = (int(value) for key, value in environment.items() if key.endswith("_SHUTDOWN_GRACE_S"))
        assert deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] >= grace_s + 10
        assert grace_s >= longest_s


def test_each_component_has_probes_a_budget_and_room_to_spread(profile: Rendered) -> None:
    assert profile.of("PodDisruptionBudget").keys() == profile.of("Deployment").keys()
    for name, deployment in profile.of("Deployment").items():
        pod = deployment["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert container["startupProbe"]["grpc"]["port"] == container["livenessProbe"]["grpc"]["port"], name
        assert container["readinessProbe"]["grpc"]["service"] == "readiness", name
        # The others wait for other services; to restart them would not help.
        loads_a_model = name.split("-")[0] in ("mllm", "tts", "video")
        assert container["startupProbe"]["grpc"].get("service") == ("readiness" if loads_a_model else None), name
        assert "service" not in container["livenessProbe"]["grpc"], name
        # The scheduler leaves out nodes that lack the key of any constraint, and with them all of it.
        (spread,) = pod["topologySpreadConstraints"]
        assert spread["topologyKey"] == "kubernetes.io/hostname"


def test_a_priority_ends_no_pod_of_others_and_another_value_is_another_class() -> None:
    # Kubernetes refuses to change a class.
    before, after = (rendered("--set", f"priority.core={value}").of("PriorityClass") for value in (1, 2))
    assert all(one["preemptionPolicy"] == "Never" for one in before.values())
    assert len(before.keys() & after.keys()) == 1  # That of the models.
    pod = rendered("--set", "priority.core=2").of("Deployment")["memory"]["spec"]["template"]["spec"]
    assert pod["priorityClassName"] in {one["metadata"]["name"] for one in after.values()}


def _weights_pods(release: Rendered) -> dict[str, Manifest]:
    """Return the pods that mount the weights, by what makes them."""
    pods = {}
    for name, template in release.pods():
        claims = {volume.get("persistentVolumeClaim", {}).get("claimName") for volume in template["spec"]["volumes"]}
        if claims & {"e3rg-weights", "theirs"}:
            pods[name] = template
    return pods


def test_pods_with_weights_run_on_one_node_where_only_one_may_mount_them() -> None:
    pods = _weights_pods(rendered())
    assert len(pods) == 10  # Nine services and the Job.
    for name, template in pods.items():
        (term,) = template["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert term["topologyKey"] == "kubernetes.io/hostname", name
        wanted = term["labelSelector"]["matchLabels"]
        assert wanted == {"e3rg/weights": "e3rg"}, name
        # The first pod may start because it matches itself.
        assert wanted.items() <= template["metadata"]["labels"].items(), name


@pytest.mark.parametrize(
    "value", ["weights.accessModes={ReadWriteMany}", "weights.existingClaim=theirs", "weights.ociImage=r.example/w:1"]
)
def test_pods_with_weights_run_anywhere_where_several_nodes_may_mount_them(value: str) -> None:
    for name, template in _weights_pods(rendered("--set", value)).items():
        assert "podAffinity" not in template["spec"].get("affinity", {}), name


def test_weights_in_an_image_are_mounted_from_it_and_nothing_fetches_them() -> None:
    found = rendered("--set", "weights.ociImage=r.example/w:1")
    for name, template in _weights_pods(found).items():
        (volume,) = [each for each in template["spec"]["volumes"] if each["name"] == "models"]
        assert volume["image"] == {"reference": "r.example/w:1", "pullPolicy": "IfNotPresent"}, name
        assert "persistentVolumeClaim" not in volume, name
        assert "initContainers" not in template["spec"], name
    assert "weights" not in found.of("PersistentVolumeClaim")
    assert not [name for name in found.of("Job") if name.startswith("weights")]


@pytest.mark.parametrize(
    ("value", "changed"),
    [
        ("image.tag=0.2.0", {"weights", "migrate", "bucket"}),
        ("image.pullPolicy=Always", {"weights", "migrate", "bucket"}),
        ("image.pullSecrets[0]=registry", {"weights", "migrate", "bucket"}),
        ("weights.acceptLicences[0]=gemma", {"weights"}),
        ("weights.accessModes={ReadWriteMany}", {"weights"}),
        ("database.name=avatars", {"migrate"}),
        ("objectStore.bucket=avatars", {"bucket"}),
        ("turn.deadlineS=61", set()),
    ],
)
def test_a_job_that_is_other_than_before_is_a_new_job(value: str, changed: set[str]) -> None:
    # Kubernetes refuses to change a Job.
    before, after = rendered().of("Job"), rendered("--set", value).of("Job")
    assert {name.split("-")[0] for name in after.keys() - before.keys()} == changed
    assert all(before[name]["spec"] == after[name]["spec"] for name in before.keys() & after.keys())


def test_an_accepted_licence_alone_fetches_nothing_else() -> None:
    def waits_for(release: Rendered) -> str:
        (container,) = release.of("Deployment")["tts"]["spec"]["template"]["spec"]["initContainers"]
        return str(container["command"])

    assert waits_for(rendered("--set", "weights.acceptLicences[0]=gemma")) == waits_for(rendered())
    assert waits_for(rendered("--set", "weights.models[0]=kokoro")) != waits_for(rendered())


@pytest.mark.parametrize("certificates", ["certManager", "secret"])
def test_without_generated_secrets_every_render_is_the_same_and_migrates_by_a_plain_job(certificates: str) -> None:
    # Tools that render without a cluster would make new passwords and certificates each time.
    values = (*PROFILES["external"], *PROFILES[certificates])
    assert text(*values) == text(*values)
    assert not rendered(*values).of("Secret")
    (migration,) = (job for name, job in rendered(*values).of("Job").items() if name.startswith("migrate-"))
    assert "annotations" not in migration["metadata"]
