"""MinIO, from the program that E3RG_TEST_MINIO names, as an S3 server for tests."""

import os
from collections.abc import Mapping
from pathlib import Path

from tests.support.object_store import ObjectStore
from tests.support.ports import free_ports

VARIABLE = "E3RG_TEST_MINIO"


def program() -> Path | None:
    """Return the path of MinIO's program, or None where no one named it."""
    path = os.environ.get(VARIABLE)
    return Path(path) if path else None


class MinIo(ObjectStore):
    """MinIO with one drive.

    Args:
        folder: A new folder for the data and the log.
        program: Path of MinIO's program.
    """

    def __init__(self, folder: Path, program: Path) -> None:
        port, self._console_port = free_ports(2)
        super().__init__(folder, port)
        self._program = program

    def command(self) -> list[str]:
        """Return the server's command line."""
        addresses = ("--address", self.endpoint, "--console-address", f"127.0.0.1:{self._console_port}")
        return [str(self._program), "server", str(self.data), *addresses]

    def variables(self) -> Mapping[str, str]:
        """Return the server's environment variables."""
        return {
            "MINIO_ROOT_USER": self.access_key,
            "MINIO_ROOT_PASSWORD": self.secret_key,
            "MINIO_BROWSER": "off",
            "MINIO_UPDATE": "off",
        }
