"""Objects as files of one folder: the embedded store. Several processes of one machine may share the folder.

A file is written and synced under a name of its own, then gets its key: by `link`, which fails when the key is taken,
or by `rename`, which replaces. Both are atomic, so that a process killed at any instant leaves the old object or the
new one; its half-written file has no key and goes at the next start.
"""

import contextlib
import os
import re
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from pydantic_settings import BaseSettings, SettingsConfigDict

from services.common.errors import NotReady
from services.memory.domain import Backend

LEFTOVER_AGE_S = 3600
"""A half-written file this old is of a process that died: no write takes so long."""

_NAME = re.compile(r"[A-Za-z0-9-]{1,200}\Z")


class Settings(BaseSettings):
    """Where the folder is."""

    model_config = SettingsConfigDict(env_prefix="E3RG_MEMORY_", frozen=True, hide_input_in_errors=True)

    folder: Path = Path(".run/memory")
    """Folder of the objects; made when absent, readable by its owner only. It needs hard links (any Linux disk)."""


class FilesystemBackend:
    """Satisfies `services.memory.domain.Backend`.

    Args:
        folder: Where the objects are.

    Raises:
        NotReady: The folder cannot be written, or has no hard links.
    """

    def __init__(self, folder: Path) -> None:
        self._objects = folder / "objects"
        self._writing = folder / "writing"
        with _reaching(folder):
            for part in (self._objects, self._writing):
                part.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._delete_leftovers()
            probe = self._write(b"")
            linked = probe.with_name(probe.name + "-link")
            os.link(probe, linked)
            linked.unlink()
            probe.unlink()

    def put(self, key: str, content: bytes, *, if_absent: bool = False) -> bool:
        """Writes an object; see the port."""
        path = self._path(key)
        with _reaching(path):
            written = self._write(content)
            try:
                return self._publish(written, path, if_absent)
            finally:
                written.unlink(missing_ok=True)

    def get(self, key: str) -> bytes | None:
        """Returns the content; see the port."""
        path = self._path(key)
        with _reaching(path):
            try:
                return path.read_bytes()
            except FileNotFoundError:
                return None

    def list(self, prefix: str, limit: int | None = None) -> tuple[str, ...]:
        """Returns the keys below `prefix`; see the port."""
        if prefix and not prefix.endswith("/"):
            raise ValueError(f"{prefix!r} is not a folder of keys; end it with '/'")
        folder = self._path(prefix[:-1]) if prefix else self._objects
        with _reaching(folder):
            return tuple(islice(_walk(folder, prefix), limit))

    def delete(self, key: str) -> bool:
        """Removes an object; see the port."""
        path = self._path(key)
        with _reaching(path):
            try:
                path.unlink()
            except FileNotFoundError:
                return False
            _sync(path.parent)
            self._delete_empty(path.parent)
            return True

    def close(self) -> None:
        """Holds nothing."""

    def _path(self, key: str) -> Path:
        names = key.split("/")
        if not all(_NAME.match(name) for name in names):
            raise ValueError(f"{key!r} is not a key; its names are letters, digits and hyphens")
        return self._objects.joinpath(*names)

    def _write(self, content: bytes) -> Path:
        """Returns a synced file with `content` that nobody sees yet. `mkstemp` makes it readable by its owner only."""
        number, name = tempfile.mkstemp(dir=self._writing)
        with os.fdopen(number, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        return Path(name)

    def _publish(self, written: Path, path: Path, if_absent: bool) -> bool:
        while True:
            self._make_folder(path.parent)
            try:
                if if_absent:
                    os.link(written, path)
                else:
                    written.replace(path)
            except FileExistsError:
                return False
            except FileNotFoundError:
                if not written.exists():
                    raise
                continue  # A deletion took the empty folder away between the two steps.
            _sync(path.parent)
            return True

    def _make_folder(self, folder: Path) -> None:
        if folder.is_dir():
            return
        self._make_folder(folder.parent)
        with contextlib.suppress(FileExistsError, FileNotFoundError):
            folder.mkdir(mode=0o700)
            _sync(folder.parent)

    def _delete_empty(self, folder: Path) -> None:
        """Removes folders that hold nothing any more: a removed identity leaves no trace."""
        while folder != self._objects:
            try:
                folder.rmdir()
            except OSError:
                return  # It holds something, or another was faster.
            folder = folder.parent

    def _delete_leftovers(self) -> None:
        for path in self._writing.iterdir():
            with contextlib.suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > LEFTOVER_AGE_S:
                    path.unlink()


def create() -> Backend:
    """Returns the store in the folder of the settings."""
    return FilesystemBackend(Settings().folder)


def _walk(folder: Path, prefix: str) -> Iterator[str]:
    """Yields the keys below `folder` in the order of code points: "a-b/c" before "a/c", for "-" is before "/"."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name + "/" if entry.is_dir() else entry.name for entry in entries)
    except FileNotFoundError:
        return
    for name in names:
        if name.endswith("/"):
            yield from _walk(folder / name, prefix + name)
        else:
            yield prefix + name


def _sync(folder: Path) -> None:
    """Makes the names in `folder` survive a power cut. A folder that is gone has none."""
    with contextlib.suppress(FileNotFoundError):
        number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


@contextlib.contextmanager
def _reaching(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise NotReady(f"the memory's store failed: {error.strerror} ({path}); retry when that is repaired") from error
