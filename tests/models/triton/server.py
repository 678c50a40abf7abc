"""A real Triton server for tests, with the small model of `.models`, out of a virtual environment of its own."""

import os
import queue
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.ports import HeldPort

VENV = Path(".venv-models/triton")
WEIGHTS = Path(".models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
MODEL = "smollm2"
START_S = 120.0
"""Longest start; it takes 3 s on an idle machine."""


class Triton:
    """A running server. `address` is its gRPC port."""

    def __init__(self, address: str, process: "subprocess.Popen[str]") -> None:
        self.address = address
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._process = process
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def logged(self, text: str, within_s: float) -> str:
        """Waits until the server writes a line with `text` in it; what came before is passed by."""
        seen = []
        try:
            while text not in (line := self._lines.get(timeout=within_s)):
                seen.append(line)
                assert line, "the server has ended"
        except (queue.Empty, AssertionError) as error:
            raise AssertionError(f"no {text!r} in the server's log:\n{''.join(seen)}") from error
        return line

    def kill(self) -> None:
        """Ends it at once, with all that it started."""
        os.killpg(self._process.pid, signal.SIGKILL)

    def kill_model(self) -> None:
        """Ends the processes in which its models run."""
        tasks = Path(f"/proc/{self._process.pid}/task").iterdir()
        children = {pid for task in tasks for pid in (task / "children").read_text().split()}
        stubs = [pid for pid in children if "triton_python_backend_stub" in Path(f"/proc/{pid}/cmdline").read_text()]
        assert stubs
        for pid in stubs:
            os.kill(int(pid), signal.SIGKILL)

    def stop(self) -> None:
        """Stops it, and all that it started."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(START_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        finally:
            self._reader.join()

    def _read(self) -> None:
        assert self._process.stderr
        for line in self._process.stderr:
            self._lines.put(line)
        self._lines.put("")


@contextmanager
def triton_server(folder: Path) -> Iterator[Triton]:
    """Runs a server whose files lie in `folder`."""
    (packages,) = VENV.glob("lib/python3.*/site-packages") if VENV.is_dir() else [None]
    assert packages, f"{VENV} is missing; `make test-models` makes it"
    packages = packages.resolve()
    version = packages.parent.name.removeprefix("python")
    files = packages / "pytriton" / "tritonserver"
    backend = folder / "backends" / "python"
    backend.mkdir(parents=True)
    for file in (*(files / "backends" / "python").iterdir(), *(files / "python_backend_stubs" / version).iterdir()):
        (backend / file.name).symlink_to(file)
    model = folder / "models" / MODEL
    shutil.copytree(Path(__file__).with_name(MODEL), model, ignore=shutil.ignore_patterns("__pycache__", "model.py"))
    (model / "1").mkdir()
    shutil.copy(Path(__file__).with_name(MODEL) / "model.py", model / "1")
    with HeldPort() as port, _triton_at(port.number, files, folder, packages) as triton:
        yield triton


@contextmanager
def _triton_at(port: int, files: Path, folder: Path, packages: Path) -> Iterator[Triton]:
    shared = f"e3rg_test_{port}_"
    command = [
        str(files / "bin" / "tritonserver"),
        f"--model-repository={folder / 'models'}",
        f"--backend-directory={folder / 'backends'}",
        f"--backend-config=python,shm-region-prefix-name={shared}",
        "--model-control-mode=explicit",
        f"--load-model={MODEL}",
        "--grpc-address=127.0.0.1",
        f"--grpc-port={port}",
        # A request to a model that died is never over.
        "--exit-timeout-secs=3",
        "--allow-http=false",
        "--allow-metrics=false",
    ]
    environment = {
        "PATH": os.environ["PATH"],
        "LD_LIBRARY_PATH": str(packages / "nvidia_pytriton.libs"),
        "TRITON_PACKAGES": str(packages),
        "TRITON_WEIGHTS": str(WEIGHTS.resolve()),
    }
    with subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        triton = Triton(f"127.0.0.1:{port}", process)
        try:
            triton.logged("Started GRPCInferenceService", START_S)
            yield triton
        finally:
            triton.stop()
            # What a model that died left there.
            for file in Path("/dev/shm").glob(f"{shared}*"):
                file.unlink()
