"""Why a service does not start, as the operator reads it."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from services.common import start
from services.common.errors import BackendFailed, NotReady

ROOT = Path(__file__).parents[2]
KEY = "sk-a-key-that-nobody-may-read-1234567890"
PANEL = {
    "E3RG_UNDERSTANDING_VOTERS": '{"text": "text:50051"}',
    "E3RG_UNDERSTANDING_WRITER": "text",
    "E3RG_UNDERSTANDING_TRANSCRIBER": "text",
}
LEVELS = "'DEBUG', 'INFO', 'WARNING', 'ERROR' or 'CRITICAL'"
OPENAI = {
    "E3RG_MLLM_BACKEND": "openai",
    "E3RG_MLLM_API_KEY": KEY,
    "E3RG_MLLM_BASE_URL": "http://127.0.0.1:8000/v1",
}


def told(module: str, settings: dict[str, str]) -> tuple[int, list[str]]:
    """Returns the exit status of `module`, and the lines that it writes on standard error, log records left out."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("E3RG_")} | settings
    ended = subprocess.run(
        [sys.executable, "-m", module],
        check=False,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return ended.returncode, [line for line in ended.stderr.splitlines() if not line.startswith('{"time"')]


def test_a_missing_setting_is_named_and_no_other_one_is_told() -> None:
    assert told("services.mllm", OPENAI) == (2, ["E3RG_MLLM_MODEL: Field required"])


def test_a_password_in_an_address_is_not_told() -> None:
    status, lines = told("services.mllm", OPENAI | {"E3RG_MLLM_BASE_URL": f"http://me:{KEY}@127.0.0.1:8000/v1"})
    assert (status, [line.partition(":")[0] for line in lines]) == (2, ["E3RG_MLLM_BASE_URL", "E3RG_MLLM_MODEL"])
    assert KEY[:8] not in "".join(lines)


@pytest.mark.parametrize(
    ("settings", "lines"),
    [
        (PANEL | {"RULE": "best"}, ["RULE: Input should be 'majority', 'weighted' or 'pooled'"]),
        (PANEL | {"LOG_LEVEL": "LOUD"}, [f"LOG_LEVEL: Input should be {LEVELS}"]),
        (PANEL | {"SHUTDOWN_GRACE_S": "inf"}, ["SHUTDOWN_GRACE_S: Input should be a finite number"]),
        (PANEL | {"VOTERS": "text=text:50051"}, ["VOTERS: it must be JSON"]),
        (PANEL | {"VOTERS": '{"text": 1}'}, ["VOTERS.text: Input should be a valid string"]),
        (PANEL | {"WRITER": "me"}, ["*: writer is 'me'; it must be one of the voters ['text']"]),
        (
            PANEL | {"QUORUM": "0", "EARLY": "x"},
            [
                "QUORUM: Input should be greater than or equal to 1",
                "EARLY: Input should be a valid boolean, unable to interpret input",
            ],
        ),
    ],
)
def test_every_wrong_setting_is_a_line_with_its_variable(settings: dict[str, str], lines: list[str]) -> None:
    prefix = "E3RG_UNDERSTANDING_"
    settings = {prefix + name.removeprefix(prefix): value for name, value in settings.items()}
    assert told("services.understanding", settings) == (2, [prefix + line for line in lines])


@pytest.mark.parametrize("module", ["mllm", "tts", "video"])
def test_a_back_end_that_is_not_there_is_a_line(module: str) -> None:
    status, (line,) = told(f"services.{module}", {f"E3RG_{module.upper()}_BACKEND": "parrot"})
    assert (status, line.partition("; ")[0]) == (
        1,
        f"{module} cannot start: services.{module}.backends has no back-end 'parrot'",
    )


def test_the_orchestrator_names_its_settings_too() -> None:
    status, lines = told("orchestrator", {"E3RG_ORCHESTRATOR_PORT": "x"})
    assert (status, [line.partition(":")[0] for line in lines]) == (2, ["E3RG_ORCHESTRATOR_PORT"])


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (BackendFailed("the weights\n  are broken"), "the weights are broken"),
        (NotReady("no answer"), "no answer"),
        (ImportError("no torch"), "no torch"),
        (LookupError("no such"), "no such"),
        (ValueError(), "ValueError"),
        (FileNotFoundError("x is missing"), "x is missing"),
    ],
)
def test_what_an_operator_can_mend_is_one_line(error: Exception, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    async def main(started: asyncio.Event) -> None:
        raise error

    with pytest.raises(SystemExit) as ended:
        start.run("mllm", main)
    assert ended.value.code == start.NO_START
    assert capsys.readouterr().err == f"mllm cannot start: {line}\n"


@pytest.mark.parametrize(
    ("error", "ready"),
    [
        (KeyError("x"), False),
        (IndexError("x"), False),
        (RuntimeError("x"), False),
        (ValueError("x"), True),
        (BackendFailed("x"), True),
    ],
)
def test_a_mistake_and_a_failure_after_the_start_are_raised_as_they_are(error: Exception, ready: bool) -> None:
    async def main(started: asyncio.Event) -> None:
        if ready:
            started.set()
        raise error

    with pytest.raises(type(error)) as raised:
        start.run("mllm", main)
    assert raised.value is error


def test_no_settings_tell_a_wrong_value() -> None:
    wrong = []
    for folder in ("services", "orchestrator"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text("utf-8")
            if re.search(r"^class \w+\(BaseSettings\):", text, re.MULTILINE):
                wrong += [] if "hide_input_in_errors=True" in text else [path.name]
    assert wrong == []


def test_a_start_that_is_broken_off_ends_by_the_process_itself() -> None:
    # As the first process of a container it would not end at all without handling the signal.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        settings = OPENAI | {"E3RG_MLLM_BASE_URL": url, "E3RG_MLLM_MODEL": "any"}
        settings |= {"E3RG_MLLM_PORT": "0", "E3RG_MLLM_METRICS_PORT": "0"}
        starting = subprocess.Popen([sys.executable, "-m", "services.mllm"], cwd=ROOT, env=os.environ | settings)
        connection, _ = silent.accept()
        with connection:
            starting.send_signal(signal.SIGTERM)
            assert starting.wait(timeout=20) == 128 + signal.SIGTERM
