"""Objects as files of one folder: the embedded store. Several processes of one machine may share the folder.

A file is written and synced under a name of its own, then gets its key: by `link`, which fails when the key is taken,
or by `rename`, which replaces. Both are atomic, so that a process killed at any instant leaves the old object or the
new one; its half-written file has no key, and goes with the next sweep, erasure or start of any process. What replaces
or removes holds a lock of the kernel's on the key, which a killed process loses; whoever reads or creates needs none.
A file holds the content and nothing else; its ETag is the SHA-256 of that.

The folder is made by the first call, `check` in the service, when there is none, and never again by this process: if
it is gone later, its volume is, below whose mount point nothing must be written, and every call is refused until it is
back. A first start and a volume that was not mounted yet look the same, an absent or empty folder, so the log tells
that one was made; where there are `locks` without `objects`, there was a store, and none is made.
"""

import contextlib
import fcntl
import hashlib
import heapq
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

from pydantic_settings import BaseSettings, SettingsConfigDict

from services.common.errors import NotReady
from services.memory.filesystem.writing import delete_leftovers, written
from services.memory.store import SAME, Entry, Object, Same, Store, check_folder, check_key

log = logging.getLogger(__name__)


class Settings(BaseSettings):
    """Where the folder is."""

    model_config = SettingsConfigDict(env_prefix="E3RG_MEMORY_", frozen=True, hide_input_in_errors=True)

    folder: Path = Path(".run/memory")
    """Folder of the objects; made when absent at the start, readable by its owner only. It needs hard links (any Linux
    disk)."""


class FilesystemBackend:
    """Satisfies `services.memory.store.Store`. Nothing is asked of the folder before the first call.

    Args:
        folder: Where the objects are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._objects = folder / "objects"
        self._writing = folder / "writing"
        self._locks = folder / "locks"
        self._is_open = False

    def put(self, key: str, content: bytes) -> str:
        """Writes an object; see the port."""
        path = self._path(key)
        with self._reaching(path), written(self._writing, content) as file, self._locked(key):
            self._publish(file, path, Path.replace)
        return _etag(content)

    def create(self, key: str, content: bytes) -> str | None:
        """Writes an object where none is; see the port."""
        path = self._path(key)
        with self._reaching(path), written(self._writing, content) as file:
            try:
                self._publish(file, path, os.link)
            except FileExistsError:
                return None
        return _etag(content)

    def replace(self, key: str, content: bytes, etag: str) -> str | None:
        """Writes an object in the place of another; see the port."""
        path = self._path(key)
        with self._reaching(path), written(self._writing, content) as file, self._locked(key):
            there = self._read(path)
            if there is None or _etag(there) != etag:
                return None
            self._publish(file, path, Path.replace)
        return _etag(content)

    def get(self, key: str, unless: str = "") -> Object | Same | None:
        """Returns the object; see the port."""
        path = self._path(key)
        with self._reaching(path):
            content = self._read(path)
        if content is None:
            return None
        found = Object(content, _etag(content))
        return SAME if found.etag == unless else found

    def list(self, folder: str, limit: int | None = None, after: str = "") -> tuple[Entry, ...]:
        """Returns the objects below `folder`; see the port."""
        check_folder(folder)
        path = self._objects / folder
        with self._reaching(path):
            found = tuple(islice(_walk(path, folder, after), limit))
            self._objects.stat()  # What was not found is gone only if this is there.
            return found

    def delete(self, keys: Iterable[str]) -> None:
        """Removes objects; see the port."""
        paths = {key: self._path(key) for key in keys}
        with self._reaching(self._objects):
            for key, path in paths.items():
                with self._locked(key):
                    path.unlink(missing_ok=True)
            for folder in {path.parent for path in paths.values()}:
                _sync(folder)
                self._delete_empty(folder)
            self._objects.stat()
            delete_leftovers(self._writing)  # They may hold what is erased.

    def check(self) -> None:
        """Tries to write to the folder, and deletes what killed writers left; see the port."""
        with self._reaching(self._folder):
            self._objects.stat()
            with written(self._writing, b"") as probe, self._locked("probe"):
                linked = probe.with_name(probe.name + "-link")
                os.link(probe, linked)
                linked.unlink()
            delete_leftovers(self._writing)

    def sweep(self) -> None:
        """Deletes what killed writers left; see the port."""
        with self._reaching(self._writing):
            delete_leftovers(self._writing)

    def close(self) -> None:
        """Holds nothing."""

    def _path(self, key: str) -> Path:
        check_key(key)
        return self._objects.joinpath(*key.split("/"))

    def _open(self) -> None:
        """Makes the folder, at the first call only; not again where `locks` tell that there was a store."""
        if self._is_open:
            return
        if not self._locks.exists() and not self._objects.is_dir():
            self._objects.mkdir(mode=0o700, parents=True, exist_ok=True)
            log.info("made an empty store", extra={"folder": str(self._folder.absolute())})
        for part in (self._writing, self._locks):
            part.mkdir(mode=0o700, exist_ok=True)
        self._is_open = True

    @contextlib.contextmanager
    def _reaching(self, path: Path) -> Iterator[None]:
        try:
            self._open()
            yield
        except FileNotFoundError as error:
            parts = (self._objects, self._writing, self._locks)
            gone = next((part for part in parts if not os.path.exists(part)), error.filename)
            raise NotReady(
                f"the memory's store is away: there is no {gone}; mount its volume or put the folder {self._folder}"
                " back, and it goes on by itself"
            ) from error
        except OSError as error:
            raise NotReady(
                f"the memory's store failed: {error.strerror} ({path}); retry when that is repaired"
            ) from error

    def _read(self, path: Path) -> bytes | None:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            self._objects.stat()  # An object is absent only where the others are.
            return None

    @contextlib.contextmanager
    def _locked(self, key: str) -> Iterator[None]:
        """Keeps others off `key`, and off every 256th other one."""
        number = os.open(self._locks / hashlib.sha256(key.encode()).hexdigest()[:2], os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(number, fcntl.LOCK_EX)
            yield
        finally:
            os.close(number)

    def _publish(self, file: Path, path: Path, publish: Callable[[Path, Path], object]) -> None:
        while True:
            self._make_folder(path.parent)
            try:
                publish(file, path)
            except FileNotFoundError:
                self._objects.stat()
                if not file.exists():
                    raise
                continue  # A deletion took the empty folder away between the two steps.
            _sync(path.parent)
            return

    def _make_folder(self, folder: Path) -> None:
        if folder == self._objects or folder.is_dir():
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


def create() -> Store:
    """Returns the store in the folder of the settings."""
    return FilesystemBackend(Settings().folder)


def _etag(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _walk(folder: Path, prefix: str, after: str) -> Iterator[Entry]:
    """Yields the objects below `folder` in the order of code points: "a-b/c" before "a/c", for "-" is before "/".

    A heap, for the first few of a hundred thousand are wanted more often than all.
    """
    try:
        with os.scandir(folder) as entries:
            names = [entry.name + "/" if entry.is_dir() else entry.name for entry in entries]
    except FileNotFoundError:
        return
    heapq.heapify(names)
    while names:
        key = prefix + (name := heapq.heappop(names))
        if name.endswith("/"):
            yield from _walk(folder / name, key, after)
        elif key > after:
            with contextlib.suppress(FileNotFoundError):  # Removed since the listing.
                status = (folder / name).stat()
                yield Entry(key, status.st_size, status.st_mtime)


def _sync(folder: Path) -> None:
    """Makes the names in `folder` survive a power cut. A folder that is gone has none."""
    with contextlib.suppress(FileNotFoundError):
        number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
