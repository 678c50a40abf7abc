"""Settings of the services, as the environment gives them."""

import pytest
from pydantic import HttpUrl, ValidationError

from orchestrator.settings import OrchestratorSettings
from services.common.metrics import VARIANT
from services.common.settings import ServiceSettings
from services.memory.settings import MemorySettings
from services.mllm.backends import openai
from services.mllm.settings import MllmSettings
from services.tts.settings import TtsSettings
from services.understanding.settings import UnderstandingSettings
from services.video.settings import VideoSettings

SERVICES = [MemorySettings, MllmSettings, OrchestratorSettings, TtsSettings, UnderstandingSettings, VideoSettings]
PANEL = {
    "E3RG_UNDERSTANDING_VOTERS": '{"text": "text:50051", "lead": "lead:50051"}',
    "E3RG_UNDERSTANDING_WRITER": "lead",
    "E3RG_UNDERSTANDING_TRANSCRIBER": "lead",
}


@pytest.fixture(autouse=True)
def panel(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in PANEL.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("cls", SERVICES)
def test_the_prefix_is_the_services_name(cls: type[ServiceSettings], monkeypatch: pytest.MonkeyPatch) -> None:
    word = cls.__module__.removesuffix(".settings").rpartition(".")[2].upper()
    monkeypatch.setenv(f"E3RG_{word}_PORT", "4711")
    assert cls().port == 4711


@pytest.mark.parametrize("cls", SERVICES)
def test_settings_are_frozen(cls: type[ServiceSettings]) -> None:
    with pytest.raises(ValidationError, match="frozen"):
        cls().port = 1


@pytest.mark.parametrize("cls", SERVICES)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "70000"),
        ("PORT", "x"),
        ("SHUTDOWN_GRACE_S", "-1"),
        ("SHUTDOWN_GRACE_S", "inf"),
        ("SHUTDOWN_GRACE_S", "nan"),
        ("LOG_LEVEL", "LOUD"),
        ("VARIANT", ""),
        ("VARIANT", "Kokoro"),
        ("VARIANT", "2nd"),
        ("VARIANT", "b-"),
        ("VARIANT", "x" * 41),
    ],
)
def test_a_setting_that_cannot_be_stops_the_start_and_is_named(
    cls: type[ServiceSettings], name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    word = cls.__module__.removesuffix(".settings").rpartition(".")[2].upper()
    monkeypatch.setenv(f"E3RG_{word}_{name}", value)
    with pytest.raises(ValidationError, match=name.lower()):
        cls()


@pytest.mark.parametrize("cls", SERVICES)
def test_a_process_belongs_to_the_variant_default_unless_it_is_told_another(
    cls: type[ServiceSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cls().variant == VARIANT == "default"
    word = cls.__module__.removesuffix(".settings").rpartition(".")[2].upper()
    monkeypatch.setenv(f"E3RG_{word}_VARIANT", "kokoro-2")
    assert cls().variant == "kokoro-2"


def test_a_model_that_is_waited_for_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("E3RG_MLLM_TIMEOUT_S", "inf")
    with pytest.raises(ValidationError, match="timeout_s\n  Input should be a finite number"):
        openai.Settings(base_url=HttpUrl("http://127.0.0.1:8000/v1"), model="any")


def test_a_gateway_that_stops_finishes_the_longest_turn() -> None:
    settings = OrchestratorSettings()
    assert settings.shutdown_grace_s >= settings.turn_deadline_max_s


def test_the_order_of_the_voters_is_their_priority() -> None:
    assert list(UnderstandingSettings().voters) == ["text", "lead"]


def test_track_records_of_the_voters_are_kept_unless_one_switch_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert UnderstandingSettings().reliability
    monkeypatch.setenv("E3RG_UNDERSTANDING_RELIABILITY", "false")
    assert not UnderstandingSettings().reliability


def test_unless_told_otherwise_the_majority_decides_as_early_as_it_can() -> None:
    settings = UnderstandingSettings()
    assert (settings.rule, settings.weights, settings.early, settings.quorum) == ("majority", "", True, 1)


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("WRITER", "nobody", r"writer is 'nobody'; it must be one of the voters \['lead', 'text'\]"),
        ("TRANSCRIBER", "", r"transcriber is ''; it must be one of the voters"),
        ("QUORUM", "3", "quorum is 3, but there are 2 voters"),
        ("QUORUM", "0", "quorum"),
        ("VOTE_DEADLINE_S", "0", "vote_deadline_s"),
        ("VOTE_DEADLINE_S", "inf", "vote_deadline_s"),
        ("FRAMES_MAX", "65", "frames_max"),
        ("RULE", "median", "rule"),
        ("RULE", "weighted", "rule is 'weighted', but weights is empty; name a table of weights"),
        ("WEIGHTS", "embedded-1", "weights is 'embedded-1', but the majority knows none; set rule to use them"),
        ("HISTORY_TURNS_MAX", "0", "history_turns_max"),
    ],
)
def test_a_panel_that_cannot_sit_is_refused(
    name: str, value: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"E3RG_UNDERSTANDING_{name}", value)
    with pytest.raises(ValidationError, match=problem):
        UnderstandingSettings()
