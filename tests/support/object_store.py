"""The interface of the S3 servers for tests."""

import os
import secrets
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import minio
import urllib3
from minio.error import MinioException

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
POLL_S = 0.05
REQUEST_TIMEOUT_S = 10.0


class StartError(Exception):
    """The server did not start; the message ends with its log."""


@dataclass(frozen=True)
class Bucket:
    """A bucket, and the way to it; without TLS.

    Attributes:
        endpoint: `HOST:PORT`.
        access_key: May do everything.
        secret_key: Of `access_key`.
        name: Of the bucket.
    """

    endpoint: str
    access_key: str
    secret_key: str
    name: str

    def client(self) -> minio.Minio:
        """Create a client that neither retries nor waits long."""
        pool = urllib3.PoolManager(timeout=REQUEST_TIMEOUT_S, retries=False)
        return minio.Minio(
            self.endpoint,
            access_key=self.access_key,
            secret_key=self.secret_key,
            secure=False,
            region="us-east-1",
            http_client=pool,
        )


class ObjectStore(ABC):
    """An S3 server on 127.0.0.1 that can be killed and started again with its objects.

    The methods block: call them through `asyncio.to_thread` where the event loop must go on.

    Args:
        folder: A new folder for the data and the log.
        port: Of the S3 API.
    """

    access_key = "test-access-key"
    secret_key = "test-secret-key-0123456789"

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """`HOST:PORT` of the S3 API."""
        return f"127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        """The folder with the server's objects."""
        return self.folder / "data"

    @property
    def log(self) -> Path:
        """The server's log."""
        return self.folder / "log"

    @property
    def running(self) -> bool:
        """Tell whether the server was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self, *, wait: bool = True) -> None:
        """Start the server.

        Args:
            wait: Return only when the server stores objects.
        """
        assert not self.running
        self.data.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                env={
                    "PATH": os.environ["PATH"],
                    "HOME": str(self.folder),
                    "TMPDIR": str(self.folder),
                    **self.variables(),
                },
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        if wait:
            self.wait()

    def wait(self) -> None:
        """Return when the server stores objects."""
        assert self._process
        end_s = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                self._probe()
            except (MinioException, urllib3.exceptions.HTTPError) as error:
                if not self.running or time.monotonic() > end_s:
                    raise StartError(self.log.read_text("utf-8", "replace")[-4000:]) from error
                time.sleep(POLL_S)
            else:
                return

    def bucket(self) -> Bucket:
        """Make an empty bucket."""
        bucket = self._bucket(f"test-{secrets.token_hex(6)}")
        bucket.client().make_bucket(bucket.name)
        return bucket

    def stop(self) -> None:
        """Ask the server to end, and return when it has."""
        if self._process:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._ended()

    def kill(self) -> None:
        """End the server as a power cut would."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._ended()

    def restart(self) -> None:
        """Start the server again; a running one is stopped first."""
        self.stop()
        self.start()

    def suspend(self) -> None:
        """Let the server hang: the kernel still accepts connections, nobody answers."""
        assert self._process
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """End `suspend`; the server answers what it was asked meanwhile."""
        assert self._process
        self._process.send_signal(signal.SIGCONT)

    @abstractmethod
    def command(self) -> list[str]:
        """Return the server's command line."""

    @abstractmethod
    def variables(self) -> Mapping[str, str]:
        """Return the server's environment variables."""

    def leftovers(self) -> list[Path]:
        """Return the files of the ended server outside of `folder`."""
        return []

    def _ended(self) -> None:
        self._process = None
        for path in self.leftovers():
            path.unlink(missing_ok=True)

    def _bucket(self, name: str) -> Bucket:
        return Bucket(self.endpoint, self.access_key, self.secret_key, name)

    def _probe(self) -> None:
        """Store an object: a new server makes its files with the first one."""
        bucket = self._bucket("test-probe")
        client = bucket.client()
        if not client.bucket_exists(bucket.name):
            client.make_bucket(bucket.name)
        client.put_object(bucket.name, "probe", BytesIO(b"probe"), 5)
