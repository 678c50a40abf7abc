"""The two stacks that the memory runs on, as settings of the service."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minio import Minio

from services.memory.settings import MemorySettings
from tests.support.object_store import Bucket
from tests.support.postgres import Urls


@dataclass(frozen=True)
class Stack:
    """Storage of a memory; `variables` are its settings as the service's environment has them."""

    name: str
    folder: Path
    urls: Urls | None = None
    bucket: Bucket | None = None

    @property
    def variables(self) -> dict[str, str]:
        values = {"E3RG_MEMORY_FOLDER": str(self.folder)}
        if self.urls:
            values |= {"E3RG_MEMORY_DATABASE_URL": self.urls.service, "E3RG_MEMORY_MIGRATION_URL": self.urls.migrator}
        return values | (s3_variables(self.bucket) if self.bucket else {})

    def settings(self, **changes: Any) -> MemorySettings:
        values = {name.removeprefix("E3RG_MEMORY_").lower(): value for name, value in self.variables.items()}
        return MemorySettings.model_validate(values | changes)

    @property
    def objects(self) -> list[str]:
        """The keys of all objects but the records of erasures and the mark."""
        if self.bucket:
            found = client_of(self.bucket).list_objects(self.bucket.name, recursive=True)
            keys = [each.object_name or "" for each in found]
        else:
            media = self.folder / "media"
            keys = [path.relative_to(media).as_posix() for path in media.rglob("*") if path.is_file()]
        return sorted(key for key in keys if not key.startswith(("erasures/", "store")))


def s3_variables(bucket: Bucket, endpoint: str = "") -> dict[str, str]:
    """The settings of a bucket; `endpoint` may be a proxy's."""
    return {
        "E3RG_MEMORY_S3_ENDPOINT": endpoint or bucket.endpoint,
        "E3RG_MEMORY_S3_BUCKET": bucket.name,
        "E3RG_MEMORY_S3_TLS": "false",
        "E3RG_MEMORY_S3_ACCESS_KEY": bucket.access_key,
        "E3RG_MEMORY_S3_SECRET_KEY": bucket.secret_key,
    }


def client_of(bucket: Bucket) -> Minio:
    return bucket.client()
