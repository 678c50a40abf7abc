"""A real S3 store for tests: SeaweedFS in a process of its own, on free ports of this machine, killed at the end."""

import os
import random
import signal
import subprocess
import sys
from itertools import chain
from pathlib import Path
from time import monotonic

from services.common.errors import NotReady
from services.memory.backends.s3 import S3Backend, Settings
from tests.ports import HeldPort

ACCESS_KEY, SECRET_KEY = "test-access-key", "test-secret-key-0123456789"
BUCKET = "test-memory"
PATIENCE_S = 60.0
"""A server that is not there after so long has failed."""
WEED = Path(sys.executable).with_name("weed")


class S3Server:
    """A store that can be started, killed and started again with what it holds; used in a `with` block.

    Args:
        folder: Of its data and its log.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held = _held_ports()
        self._ports = [held.number for held, _ in self._held]
        self.port = self._ports[0]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "S3Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for held in chain.from_iterable(self._held):
            held.close()

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        """The folder with what it holds."""
        return self._folder / "data"

    def start(self) -> None:
        """Starts it; whoever needs it waits by asking it."""
        self.data.mkdir(parents=True, exist_ok=True)
        names = ("s3", "master", "volume", "filer", "admin")
        ports = [f"-{name}.port={port}" for name, port in zip(names, self._ports, strict=True)]
        sockets = [f"-{name}.localSocket={self._folder}/{name}.sock" for name in ("s3", "filer")]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(str(WEED), "-logtostderr=true", "mini", f"-dir={self.data}"),
                    *("-ip=127.0.0.1", "-ip.bind=127.0.0.1", *ports, *sockets),
                    *("-s3.port.iceberg=0", "-s3.port.lance=0", "-webdav=false", "-admin.ui=false"),
                    *("-s3.autoCreateBucket=false", "-s3.allowDeleteBucketNotEmpty=false", "-master.telemetry=false"),
                ],
                env={
                    "PATH": os.environ["PATH"],
                    "HOME": str(self._folder),
                    "TMPDIR": str(self._folder),
                    "AWS_ACCESS_KEY_ID": ACCESS_KEY,
                    "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
                },
                cwd=self._folder,
                stdout=log,
                stderr=log,
            )

    def hang(self) -> None:
        """Accepts connections and requests, and says nothing more."""
        assert self._process
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Ends `hang`; what was asked meanwhile is answered now."""
        assert self._process
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Ends it as a power cut would."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None
            for port in self._ports:  # Where these are, cannot be set.
                for left in Path("/tmp").glob(f"seaweedfs-*-{port + 10_000}.sock"):
                    left.unlink()


def environment(endpoint: str, /, **changes: str) -> dict[str, str]:
    """The settings of the back-end as variables; `changes` are names after E3RG_MEMORY_S3_, in lower case."""
    values = {
        "endpoint": endpoint,
        "bucket": BUCKET,
        "tls": "false",
        "access_key": ACCESS_KEY,
        "secret_key": SECRET_KEY,
        "create_bucket": "true",
        "timeout_s": "20",
        **changes,
    }
    return {f"E3RG_MEMORY_S3_{name.upper()}": value for name, value in values.items() if value}


def settings(endpoint: str, /, **changes: str) -> Settings:
    """The settings of the back-end."""
    variables = environment(endpoint, **changes).items()
    return Settings.model_validate({name.removeprefix("E3RG_MEMORY_").lower(): value for name, value in variables})


def open_store(endpoint: str, /, **changes: str) -> S3Backend:
    """The back-end with these settings. Its address is that of `endpoint`, which may be a proxy's."""
    return S3Backend(settings(endpoint, **changes))


def wait_for(store: S3Backend) -> None:
    """Returns when the store can do everything; the first write, which makes the server grow its files, is done."""
    end_s = monotonic() + PATIENCE_S
    while True:
        try:
            return store.check()
        except NotReady:
            if monotonic() > end_s:
                raise


def _held_ports() -> list[tuple[HeldPort, HeldPort]]:
    """Five ports; each server listens on another one 10,000 above as well. Below those that the kernel gives away."""
    ports: list[tuple[HeldPort, HeldPort]] = []
    while len(ports) < 5:
        port = random.randrange(20_000, 22_000)
        try:
            held = HeldPort(port)
        except OSError:
            continue
        try:
            ports.append((held, HeldPort(port + 10_000)))
        except OSError:
            held.close()
    return ports
