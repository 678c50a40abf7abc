"""Read-only sources of stores of layout 2, a folder or an S3 bucket, and the checks of what is read."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from minio import Minio
from minio.error import S3Error

from services.common.errors import Damaged

Record = dict[str, Any]


class Source(Protocol):
    """A read-only store of objects; a prefix is a folder that ends with "/"."""

    def keys(self, prefix: str) -> Iterator[tuple[str, float]]:
        """Yield each key below a folder with its modification time (Unix time); the keys of one folder ascend."""

    def folders(self, prefix: str) -> Iterator[str]:
        """Yield the names of the folders directly in a folder."""

    def read(self, key: str) -> bytes:
        """Return the content of an object.

        Raises:
            KeyError: There is no such object.
        """


class FolderSource:
    """The store of the back-end `filesystem` in the folder `path`."""

    def __init__(self, path: Path) -> None:
        self._objects = path / "objects"

    def keys(self, prefix: str) -> Iterator[tuple[str, float]]:
        """Yield the keys below a folder; see `Source`."""
        for folder, folders, files in os.walk(self._objects / prefix):
            folders.sort()
            for path in (Path(folder, name) for name in sorted(files)):
                yield path.relative_to(self._objects).as_posix(), path.stat().st_mtime

    def folders(self, prefix: str) -> Iterator[str]:
        """Yield the folders in a folder; see `Source`."""
        with suppress(FileNotFoundError):
            yield from sorted(entry.name for entry in os.scandir(self._objects / prefix) if entry.is_dir())

    def read(self, key: str) -> bytes:
        """Return the content of an object; see `Source`."""
        try:
            return (self._objects / key).read_bytes()
        except FileNotFoundError as error:
            raise KeyError(key) from error


class BucketSource:
    """The store of the back-end `s3` in the bucket `bucket`."""

    def __init__(self, client: Minio, bucket: str) -> None:
        self._client, self._bucket = client, bucket

    def keys(self, prefix: str) -> Iterator[tuple[str, float]]:
        """Yield the keys below a folder; see `Source`."""
        for found in self._client.list_objects(self._bucket, prefix, recursive=True):
            yield found.object_name, found.last_modified.timestamp()

    def folders(self, prefix: str) -> Iterator[str]:
        """Yield the folders in a folder; see `Source`."""
        for found in self._client.list_objects(self._bucket, prefix):
            if found.is_dir:
                yield found.object_name[len(prefix) : -1]

    def read(self, key: str) -> bytes:
        """Return the content of an object; see `Source`."""
        try:
            response = self._client.get_object(self._bucket, key)
        except S3Error as error:
            if error.code == "NoSuchKey":
                raise KeyError(key) from error
            raise
        try:
            return response.read()
        finally:
            response.close()
            response.release_conn()


def name_of(key: str) -> str:
    """Return the last part of a key."""
    return key.rpartition("/")[2]


def damaged(key: str, problem: str) -> Damaged:
    """Return the error for an object that must not be imported; it names the object."""
    return Damaged(f"stored object {key!r} is damaged: {problem}; restore it from a backup, or remove what it is of")


def content_of(source: Source, key: str, digest: str) -> bytes:
    """Return the content of an object with the SHA-256 `digest` (hex).

    Raises:
        Damaged: It is missing, or its SHA-256 is another.
    """
    return _checked(key, _read(source, key), digest)


def sealed_content(source: Source, key: str) -> bytes:
    """Return the content of an object that begins with its own SHA-256.

    Raises:
        Damaged: It is missing, or its SHA-256 does not match.
    """
    return _unsealed(key, _read(source, key))


def record_of(source: Source, key: str) -> Record:
    """Return the record in an object.

    Raises:
        Damaged: It is missing, or its SHA-256 does not match.
    """
    return _record(key, _read(source, key))


def optional_record(source: Source, key: str) -> Record | None:
    """Return the record in an object, None when there is no object.

    Raises:
        Damaged: Its SHA-256 does not match.
    """
    try:
        content = source.read(key)
    except KeyError:
        return None
    return _record(key, content)


def records(source: Source, prefix: str) -> Iterator[Record]:
    """Yield the records in a folder, by key."""
    return (record_of(source, key) for key, _ in source.keys(prefix))


def _read(source: Source, key: str) -> bytes:
    try:
        return source.read(key)
    except KeyError as error:
        raise damaged(key, "it is missing") from error


def _record(key: str, content: bytes) -> Record:
    record: Record = json.loads(_unsealed(key, content))
    return record


def _unsealed(key: str, content: bytes) -> bytes:
    digest, _, body = content.partition(b"\n")
    return _checked(key, body, digest.decode("ascii", "replace"))


def _checked(key: str, content: bytes, digest: str) -> bytes:
    if hashlib.sha256(content).hexdigest() != digest:
        raise damaged(key, "its SHA-256 does not match")
    return content
