"""`compose.yaml` starts the services with the settings that they have."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic_settings import BaseSettings

from images.__main__ import EMBEDDED
from local.deployment import TRANSCRIBER, VOTERS, WRITER
from orchestrator.settings import OrchestratorSettings
from services.memory.settings import DatabaseSettings, MemorySettings
from services.mllm.settings import MllmSettings
from services.tts.settings import TtsSettings
from services.understanding.settings import UnderstandingSettings
from services.video.settings import VideoSettings

ROOT = Path(__file__).parents[2]
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))["services"]
SETTINGS: dict[str, tuple[type[BaseSettings], ...]] = {
    "mllm": (MllmSettings,),
    "understanding": (UnderstandingSettings,),
    "memory": (MemorySettings, DatabaseSettings),
    "tts": (TtsSettings,),
    "video": (VideoSettings,),
    "orchestrator": (OrchestratorSettings,),
}
OURS = [*sorted(set(EMBEDDED) - {"weights"}), "migrate"]


def test_every_embedded_image_is_started() -> None:
    images = {re.sub(r".*}e3rg-(.+):\$.*", r"\1", row["image"]) for row in SERVICES.values() if "e3rg-" in row["image"]}
    assert images == set(EMBEDDED)
    for row in SERVICES.values():
        component = row.get("build", {}).get("args", {}).get("EXTRA")
        if component:
            assert row["build"]["target"] == component.partition("-")[0]
            assert f"e3rg-{component}:" in row["image"]


@pytest.mark.parametrize("name", OURS)
def test_a_variable_is_a_setting_of_its_service(name: str) -> None:
    service = "memory" if name == "migrate" else name.partition("-")[0]
    fields = {field for settings in SETTINGS[service] for field in settings.model_fields}
    for variable in SERVICES[name].get("environment", {}):
        if variable.startswith("E3RG_"):
            assert variable.removeprefix(f"E3RG_{service.upper()}_").lower() in fields, variable


@pytest.mark.parametrize("name", OURS)
def test_a_service_has_no_privileges(name: str) -> None:
    row = SERVICES[name]
    assert row["read_only"]
    assert row["cap_drop"] == ["ALL"]
    assert row["security_opt"] == ["no-new-privileges:true"]
    assert row.get("ports", []) == (["127.0.0.1:50051:50051"] if name == "orchestrator" else [])


def test_the_panel_is_that_of_the_deployment_on_one_machine() -> None:
    panel = SERVICES["understanding"]["environment"]
    voters = json.loads(panel["E3RG_UNDERSTANDING_VOTERS"])
    backends = {
        name: SERVICES[address.partition(":")[0]]["environment"]["E3RG_MLLM_BACKEND"]
        for name, address in voters.items()
    }
    assert list(backends.items()) == list(VOTERS.items())
    assert panel["E3RG_UNDERSTANDING_WRITER"] == WRITER
    assert panel["E3RG_UNDERSTANDING_TRANSCRIBER"] == TRANSCRIBER


def test_no_password_stands_in_it() -> None:
    text = (ROOT / "compose.yaml").read_text("utf-8")
    for value in re.findall(r"(?:PASSWORD|_KEY|KEY_ID): (.+)", text):
        assert re.fullmatch(r"\$\{\w+:\?\}", value), value
