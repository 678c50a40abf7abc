"""Starts every service as its own process, waits until each is ready, and stops them again."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from models.fetch import Manifest

VOTERS = {"mpnet": "mpnet", "text": "text_classifier", "face": "face", "voice": "voice", "smollm2": "smollm2"}
"""The panel's voters and their back-ends, in order of priority: by accuracy, measured by the benchmarks."""
EXTRA_VOTERS = {
    "gemma3": {
        "BACKEND": "llama_cpp",
        "WEIGHTS": "gemma3/gemma-3-270m-q4_k_m.gguf",
        # It was never trained to chat, and reads 200 tokens a second: a list of examples that is read once, and little
        # of what was said before.
        "EMOTION_PROMPT": "emotion-plain-1",
        "SHOTS": "0",
        "HISTORY_CHARS_MAX": "600",
        "CONTEXT_TOKENS": "2048",
    },
}
"""Voters that sit on the panel when they are asked for, with their settings; `WEIGHTS` below the model folder. Their
weights come under terms of their own, so `python -m models` fetches them only when these are accepted."""
WRITER, TRANSCRIBER = "smollm2", "voice"
"""The only one of `VOTERS` that writes, and the one that transcribes. An extra voter is a chat model, and writes."""
VOICES = ("hibari", "kokoro")
"""The embedded voices: a fast one, and one of more different voices, forty times as slow."""
READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 15.0


class DeploymentError(Exception):
    """A deployment cannot be started, or a service did not become ready (with its log)."""


def named_address(text: str) -> tuple[str, str]:
    """Returns the name and the address of a served model, given as "name=host:port".

    Raises:
        ValueError: It is not of that form.
    """
    name, _, address = text.partition("=")
    host, _, port = address.rpartition(":")
    if not (name and host and port.isdecimal() and 0 < int(port) < 1 << 16):
        raise ValueError(f"{text!r} is not NAME=HOST:PORT")
    return name, address


@dataclass
class Component:
    """One service: `python -m module` with `environment`, listening on `port`."""

    name: str
    module: str
    port: int
    metrics_port: int
    environment: Mapping[str, str]
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def address(self) -> str:
        """Address of the service."""
        return f"127.0.0.1:{self.port}"


class Deployment:
    """All services of one machine; use it in a `with` block.

    Args:
        run_dir: Folder for logs and the memory's objects.
        models_dir: Folder of the weights.
        port: Port of the orchestrator; 0 takes a free one. The others always take free ones.
        report: Is told one line per step.
        environment: Settings that are added to, or replace, those of a service, by its name.
        extra_voters: Names of `EXTRA_VOTERS`, started too, or "name=host:port" of models that are served already; they
            come last on the panel.
        writer: The voter that writes the replies.
        voice: One of `VOICES`.

    Raises:
        DeploymentError: The weights of an extra voter or of the voice are missing, a voter, the writer or the voice
            cannot be, or the environment holds a setting that is made here.
    """

    def __init__(
        self,
        run_dir: Path,
        models_dir: Path,
        port: int = 0,
        report: Callable[[str], None] = lambda line: None,
        environment: Mapping[str, Mapping[str, str]] | None = None,
        extra_voters: Sequence[str] = (),
        writer: str = WRITER,
        voice: str = VOICES[0],
    ) -> None:
        self._run_dir = run_dir
        self._report = report
        voters = {voter: {"BACKEND": backend} for voter, backend in VOTERS.items()}
        served: dict[str, str] = {}
        for voter in extra_voters:
            name, address = (voter, "") if voter in EXTRA_VOTERS else _served(voter)
            if name in voters or name in served:
                raise DeploymentError(f"voter {name!r} sits on the panel already; give this one another name")
            if address:
                served[name] = address
            else:
                voters[name] = _extra_settings(name, models_dir)
        writers = [WRITER, *(name for name in (*voters, *served) if name not in VOTERS)]
        if writer not in writers:
            raise DeploymentError(f"writer is {writer!r}; it must be a voter that can write: one of {writers}")
        _check_voice(voice, models_dir)
        self.components = _components(run_dir, models_dir, port, environment or {}, voters, served, writer, voice)

    def __enter__(self) -> "Deployment":
        logs = self._run_dir / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        started_s = time.monotonic()
        try:
            for component in self.components.values():
                self.start(component.name)
            self._report(f"starting {len(self.components)} services; logs are in {logs}")
            for component in self.components.values():
                self.wait_ready(component.name)
                self._report(f"  {component.name:18} ready on {component.address}, metrics on {component.metrics_port}")
        except BaseException:
            self.stop()
            raise
        self._report(f"all ready after {time.monotonic() - started_s:.1f} s")
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def address(self) -> str:
        """Address of the orchestrator."""
        return self.components["orchestrator"].address

    def start(self, name: str) -> None:
        """Starts one service."""
        component = self.components[name]
        with self.log_path(name).open("ab") as log:
            component.process = subprocess.Popen(
                [sys.executable, "-m", component.module],
                env={**os.environ, **component.environment},
                stdout=log,
                stderr=log,
            )

    def dead(self) -> list[str]:
        """Returns the names of the services that were started and do not run any more."""
        return [part.name for part in self.components.values() if part.process and part.process.poll() is not None]

    def log_path(self, name: str) -> Path:
        """Returns the file that a service's log goes to."""
        return self._run_dir / "logs" / f"{name}.log"

    def wait_ready(self, name: str) -> None:
        """Waits until one service can work.

        Raises:
            DeploymentError: It stopped, or took too long.
        """
        component = self.components[name]
        process = component.process
        assert process is not None, "start it first"
        deadline_s = time.monotonic() + READY_TIMEOUT_S
        with grpc.insecure_channel(component.address) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            request = health_pb2.HealthCheckRequest(service="readiness")
            while time.monotonic() < deadline_s:
                if process.poll() is not None:
                    raise DeploymentError(f"{name} stopped with status {process.returncode}:\n{self._log_end(name)}")
                try:
                    answer = stub.Check(request, timeout=1, wait_for_ready=True)
                except grpc.RpcError:
                    continue
                if answer.status == health_pb2.HealthCheckResponse.SERVING:
                    return
                time.sleep(0.02)
        raise DeploymentError(f"{name} is not ready after {READY_TIMEOUT_S:.0f} s:\n{self._log_end(name)}")

    def stop(self) -> None:
        """Stops all services, the door first; kills what does not stop by itself."""
        alive = [component for component in reversed(self.components.values()) if component.process]
        for component in alive:
            if component.process and component.process.poll() is None:
                component.process.send_signal(signal.SIGTERM)
        for component in alive:
            if component.process:
                try:
                    component.process.wait(STOP_TIMEOUT_S)
                except subprocess.TimeoutExpired:
                    self._report(f"{component.name} did not stop; killing it")
                    component.process.kill()
                    component.process.wait()

    def _log_end(self, name: str) -> str:
        return "\n".join(self.log_path(name).read_text("utf-8", "replace").splitlines()[-15:])


def _extra_settings(voter: str, models_dir: Path) -> dict[str, str]:
    settings = EXTRA_VOTERS[voter]
    weights = models_dir / settings["WEIGHTS"]
    if not weights.is_file():
        raise DeploymentError(
            f"{weights} is missing; {Manifest.load().command_for(voter)} accepts its terms and fetches it"
        )
    return settings | {"WEIGHTS": str(weights)}


def _check_voice(voice: str, models_dir: Path) -> None:
    if voice not in VOICES:
        raise DeploymentError(f"voice is {voice!r}; use one of: {', '.join(VOICES)}")
    manifest = Manifest.load()
    for file in manifest.files:
        if file.model == voice and not (models_dir / file.path).is_file():
            raise DeploymentError(f"{models_dir / file.path} is missing; {manifest.command_for(voice)} fetches it")


def _served(voter: str) -> tuple[str, str]:
    try:
        return named_address(voter)
    except ValueError as error:
        raise DeploymentError(f"voter {error}, nor one of {', '.join(EXTRA_VOTERS)}") from error


def _components(
    run_dir: Path,
    models_dir: Path,
    port: int,
    extra: Mapping[str, Mapping[str, str]],
    voters: Mapping[str, dict[str, str]],
    served: Mapping[str, str],
    writer: str,
    voice: str,
) -> dict[str, Component]:
    names = [*(f"mllm-{voter}" for voter in voters), "understanding", "memory", "tts", "video", "orchestrator"]
    free = free_ports(2 * len(names))
    ports = dict(zip(names, free[: len(names)], strict=True))
    metrics = dict(zip(names, free[len(names) :], strict=True))
    ports["orchestrator"] = port or ports["orchestrator"]
    at = {name: f"127.0.0.1:{number}" for name, number in ports.items()}
    own: dict[str, dict[str, str]] = {f"mllm-{voter}": settings for voter, settings in voters.items()}
    own["understanding"] = {
        "VOTERS": json.dumps({voter: at[f"mllm-{voter}"] for voter in voters} | dict(served)),
        "WRITER": writer,
        "TRANSCRIBER": TRANSCRIBER,
    }
    own["memory"] = {"FOLDER": str(run_dir / "memory")}
    own["tts"] = {"BACKEND": voice}
    own["video"] = {}
    own["orchestrator"] = {
        f"{stage.upper()}_ADDRESS": at[stage] for stage in ("understanding", "memory", "tts", "video")
    }
    components = {}
    for name in names:
        service = name.partition("-")[0]
        common = {
            "HOST": "127.0.0.1",
            "PORT": str(ports[name]),
            "METRICS_PORT": str(metrics[name]),
            "MODELS_DIR": str(models_dir),
            "SHUTDOWN_GRACE_S": "5",
        }
        settings = {f"E3RG_{service.upper()}_{key}": value for key, value in (common | own[name]).items()}
        for variable in settings:
            if variable in os.environ:
                raise DeploymentError(f"{variable} is set, but `python -m local` wires the services itself; unset it")
        # Each model runs on one thread: with as many runtimes as services, more threads only spin against each other.
        environment = {"OMP_NUM_THREADS": "1"} | settings | dict(extra.get(name, {}))
        module = service if service == "orchestrator" else f"services.{service}"
        components[name] = Component(name, module, ports[name], metrics[name], environment)
    return components


def free_ports(count: int) -> list[int]:
    """Returns ports that were free just now; all are held at once, so that none is given twice."""
    with ExitStack() as stack:
        holders = [stack.enter_context(socket.socket()) for _ in range(count)]
        for holder in holders:
            holder.bind(("127.0.0.1", 0))
        return [int(holder.getsockname()[1]) for holder in holders]
