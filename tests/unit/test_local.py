"""The deployment on one machine."""

import json
from pathlib import Path

import pytest

from local.__main__ import main
from local.deployment import EXTRA_VOTERS, VOICES, VOTERS, WRITER, Deployment, DeploymentError
from models.fetch import Manifest
from orchestrator.settings import OrchestratorSettings
from services.common import backends
from services.understanding.settings import UnderstandingSettings


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return Deployment(tmp_path / "run", tmp_path / "models", port=50051, environment={"tts": {"E3RG_TTS_HOST": "::1"}})


def test_every_service_has_ports_of_its_own_and_the_door_the_one_that_was_asked_for(deployment: Deployment) -> None:
    components = deployment.components.values()
    ports = [port for component in components for port in (component.port, component.metrics_port)]
    assert len(set(ports)) == len(ports)
    assert deployment.address == "127.0.0.1:50051"


def test_the_services_are_told_where_the_others_are(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    components = deployment.components
    for name in ("understanding", "orchestrator"):
        for key, value in components[name].environment.items():
            monkeypatch.setenv(key, value)
    panel, door = UnderstandingSettings(), OrchestratorSettings()
    voters = {name.removeprefix("mllm-"): row.address for name, row in components.items() if name.startswith("mllm-")}
    assert panel.voters == voters
    assert json.loads(components["understanding"].environment["E3RG_UNDERSTANDING_VOTERS"]) == voters
    addresses = (door.understanding_address, door.memory_address, door.tts_address, door.video_address)
    assert addresses == tuple(components[name].address for name in ("understanding", "memory", "tts", "video"))
    assert door.port == 50051


def test_a_setting_of_one_service_can_be_changed(deployment: Deployment) -> None:
    assert deployment.components["tts"].environment["E3RG_TTS_HOST"] == "::1"
    assert deployment.components["video"].environment["E3RG_VIDEO_HOST"] == "127.0.0.1"


def test_the_voters_sit_in_order_of_priority(deployment: Deployment) -> None:
    assert list(json.loads(deployment.components["understanding"].environment["E3RG_UNDERSTANDING_VOTERS"])) == [
        name.removeprefix("mllm-") for name in deployment.components if name.startswith("mllm-")
    ]


@pytest.mark.parametrize("voter", EXTRA_VOTERS)
def test_an_extra_voter_sits_last_with_its_own_settings(tmp_path: Path, voter: str) -> None:
    weights = tmp_path / "models" / EXTRA_VOTERS[voter]["WEIGHTS"]
    weights.parent.mkdir(parents=True)
    weights.touch()
    deployment = Deployment(tmp_path / "run", tmp_path / "models", extra_voters=[voter])
    panel = json.loads(deployment.components["understanding"].environment["E3RG_UNDERSTANDING_VOTERS"])
    assert list(panel) == [*VOTERS, voter]
    component = deployment.components[f"mllm-{voter}"]
    assert panel[voter] == component.address
    assert component.environment["E3RG_MLLM_WEIGHTS"] == str(weights)
    settings = EXTRA_VOTERS[voter] | {"WEIGHTS": str(weights)}
    assert settings.items() <= {key.removeprefix("E3RG_MLLM_"): it for key, it in component.environment.items()}.items()
    known = backends.load("services.mllm.backends", settings["BACKEND"]).Settings.model_fields
    assert {key.lower() for key in settings} - {"backend"} <= known.keys()


@pytest.mark.parametrize("voter", EXTRA_VOTERS)
def test_an_extra_voter_without_weights_says_how_to_get_them(tmp_path: Path, voter: str) -> None:
    licence = Manifest.load().licences[voter].name
    with pytest.raises(DeploymentError, match=f"gguf is missing; `make models WITH={voter} ACCEPT={licence}`"):
        Deployment(tmp_path / "run", tmp_path / "models", extra_voters=[voter])


def test_any_served_model_sits_last_and_may_write(tmp_path: Path) -> None:
    seated = Deployment(tmp_path, tmp_path, extra_voters=["big=gpu.example:50061"], writer="big")
    environment = seated.components["understanding"].environment
    panel = json.loads(environment["E3RG_UNDERSTANDING_VOTERS"])
    assert list(panel) == [*VOTERS, "big"]
    assert panel["big"] == "gpu.example:50061"
    assert environment["E3RG_UNDERSTANDING_WRITER"] == "big"
    assert "mllm-big" not in seated.components


def test_smollm2_writes_unless_another_voter_is_named(deployment: Deployment) -> None:
    assert deployment.components["understanding"].environment["E3RG_UNDERSTANDING_WRITER"] == "smollm2"


@pytest.mark.parametrize(
    ("voters", "writer", "problem"),
    [
        (["big"], "smollm2", "voter 'big' is not NAME=HOST:PORT, nor one of gemma3"),
        (["big=gpu"], "smollm2", "'big=gpu' is not NAME=HOST:PORT"),
        (["=gpu:1"], "smollm2", "'=gpu:1' is not NAME=HOST:PORT"),
        (["big=gpu:0"], "smollm2", "'big=gpu:0' is not NAME=HOST:PORT"),
        (["text=gpu:1"], "smollm2", "voter 'text' sits on the panel already"),
        (["big=gpu:1", "big=gpu:2"], "smollm2", "voter 'big' sits on the panel already"),
        (["big=gpu:1"], "huge", r"writer is 'huge'; it must be a voter that can write: one of \['smollm2', 'big'\]"),
        ([], "text", r"writer is 'text'; it must be a voter that can write: one of \['smollm2'\]"),
    ],
)
def test_a_voter_or_writer_that_cannot_be_is_refused(
    tmp_path: Path, voters: list[str], writer: str, problem: str
) -> None:
    with pytest.raises(DeploymentError, match=problem):
        Deployment(tmp_path, tmp_path, extra_voters=voters, writer=writer)


@pytest.mark.parametrize("voter", VOTERS)
def test_of_the_embedded_voters_only_the_writer_writes(voter: str) -> None:
    module = backends.load("services.mllm.backends", VOTERS[voter])
    (kind,) = (kind for name, kind in vars(module).items() if name.endswith("Backend") and isinstance(kind, type))
    assert hasattr(kind, "write") == (voter == WRITER)


def test_the_command_seats_voters_and_writer_and_says_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("E3RG_TTS_PORT", "1")  # whatever else goes wrong, nothing starts
    options = ["--run-dir", str(tmp_path), "--voter", "big=gpu:1", "--writer", "huge"]
    monkeypatch.setattr("sys.argv", ["local", *options, "up"])
    assert main() == 1
    assert "local: writer is 'huge'; it must be a voter that can write: one of ['smollm2', 'big']" in (
        capsys.readouterr().err
    )


def test_up_refuses_what_it_does_not_know(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("E3RG_TTS_PORT", "1")  # whatever goes wrong, nothing starts
    monkeypatch.setattr("sys.argv", ["local", "up", "--text", "Hi."])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert "unrecognized arguments: --text Hi." in capsys.readouterr().err


@pytest.mark.parametrize(
    "variable", ["E3RG_UNDERSTANDING_VOTERS", "E3RG_UNDERSTANDING_WRITER", "E3RG_MLLM_BACKEND", "E3RG_TTS_PORT"]
)
def test_a_setting_of_the_environment_that_would_be_overridden_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "mine")
    with pytest.raises(DeploymentError, match=f"{variable} is set, but `python -m local` wires .* unset it"):
        Deployment(tmp_path, tmp_path)


def test_other_settings_of_the_environment_reach_the_services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("E3RG_UNDERSTANDING_RULE", "pooled")
    assert "E3RG_UNDERSTANDING_RULE" not in Deployment(tmp_path, tmp_path).components["understanding"].environment


@pytest.mark.parametrize("voter", EXTRA_VOTERS)
def test_an_extra_voter_is_an_optional_model_of_the_manifest(voter: str) -> None:
    manifest = Manifest.load()
    assert EXTRA_VOTERS[voter]["WEIGHTS"] in {file.path for file in manifest.files if file.model == voter}


def test_a_service_that_does_not_start_stops_the_rest_and_its_log_is_told(deployment: Deployment) -> None:
    tts = deployment.components["tts"]
    tts.module = "services.nothing"
    deployment.components = {"tts": tts}
    with (
        pytest.raises(DeploymentError, match=r"tts stopped with status 1:\n.*No module named services.nothing"),
        deployment,
    ):
        raise AssertionError("it never becomes ready")
    assert tts.process is not None
    assert tts.process.returncode == 1


def test_the_voice_is_the_fast_one_unless_another_is_asked_for(deployment: Deployment) -> None:
    assert deployment.components["tts"].environment["E3RG_TTS_BACKEND"] == "hibari"
    assert set(VOICES) < set(backends.names("services.tts.backends"))


def test_another_voice_says_how_to_get_its_weights_and_speaks_once_they_are_there(tmp_path: Path) -> None:
    files = [file.path for file in Manifest.load().files if file.model == "kokoro"]
    with pytest.raises(DeploymentError, match=f"{files[0]} is missing; `make models WITH=kokoro` fetches it"):
        Deployment(tmp_path, tmp_path, voice="kokoro")
    for path in files:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    speaking = Deployment(tmp_path, tmp_path, voice="kokoro")
    assert speaking.components["tts"].environment["E3RG_TTS_BACKEND"] == "kokoro"


def test_an_unknown_voice_is_refused_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(DeploymentError, match="voice is 'tenor'; use one of: hibari, kokoro"):
        Deployment(tmp_path, tmp_path, voice="tenor")
