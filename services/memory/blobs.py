"""The port to object storage, and its implementation in a folder."""

import asyncio
import errno
import os
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Protocol, TypeVar

from services.common.errors import Damaged, FailedPrecondition, NotReady, Overloaded
from services.memory import metrics
from services.memory.domain import digest_of

Result = TypeVar("Result")

THREADS, LISTED_AT_ONCE = 8, 500
"""Requests to object storage at the same time, and objects of a listing that are looked at together."""

READS = 3
"""An object that does not match its digest is read so often before it counts as damaged."""

IMPORT = "`python -m services.memory import-layout-2 --from FOLDER|BUCKET`"


@dataclass(frozen=True)
class Entry:
    """An object in a listing; `modified_s` is Unix time by the clock of the storage."""

    key: str
    size_bytes: int
    modified_s: float


class Blobs(Protocol):
    """Object storage. Calls block; any thread may call.

    Keys are names joined by "/"; each is written once, or always with the same content. Every method raises `NotReady`
    when the storage cannot be reached or refuses, with the reason, and `put` raises `Overloaded` when it is full.
    """

    def put(self, key: str, content: bytes) -> None:
        """Write an object; it is durable and whole when this returns."""

    def get(self, key: str) -> bytes | None:
        """Return an object, None when there is none."""

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects; absent ones are fine."""

    def list(self, prefix: str) -> Iterator[Entry]:
        """Yield the objects whose keys begin with `prefix`."""

    def check(self) -> None:
        """Make the storage where that is allowed; `FailedPrecondition` when it cannot be used at all."""


class FolderBlobs:
    """Objects as files below a folder, for its owner only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, key: str, content: bytes) -> None:
        """Write a file aside, sync it, and rename it; see the port."""
        path, part = self._folder / key, self._folder / "parts" / secrets.token_hex(8)
        with _refusals(self._folder):
            # Only below the folder itself: it is made at the start, never over a volume that is not mounted.
            part.parent.mkdir(mode=0o700, exist_ok=True)
            try:
                with part.open("xb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                self._place(part, path)
            except BaseException:
                part.unlink(missing_ok=True)
                raise
            number = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(number)
            finally:
                os.close(number)

    def get(self, key: str) -> bytes | None:
        """Read a file; see the port."""
        with _refusals(self._folder):
            try:
                return (self._folder / key).read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                self._require()
                return None

    def delete(self, keys: Sequence[str]) -> None:
        """Delete files, and folders that become empty; see the port."""
        with _refusals(self._folder):
            self._require()
            for key in keys:
                path = self._folder / key
                path.unlink(missing_ok=True)
                with suppress(OSError):  # It holds something else.
                    while (path := path.parent) != self._folder:
                        path.rmdir()

    def list(self, prefix: str) -> Iterator[Entry]:
        """Yield files by key; see the port."""
        with _refusals(self._folder):
            self._require()
            for path in sorted((self._folder / prefix.rpartition("/")[0]).rglob("*")):
                with suppress(FileNotFoundError):
                    if (key := path.relative_to(self._folder).as_posix()).startswith(prefix) and path.is_file():
                        yield Entry(key, path.stat().st_size, path.stat().st_mtime)

    def check(self) -> None:
        """Make the folder when it is absent; see the port."""
        make_folder(self._folder)

    def _place(self, part: Path, path: Path) -> None:
        """Rename a whole file to its place; a deletion beside may just have removed the empty folder."""
        for attempt in range(READS):
            for parent in reversed(path.relative_to(self._folder).parents[:-1]):
                (self._folder / parent).mkdir(mode=0o700, exist_ok=True)
            try:
                part.rename(path)
            except FileNotFoundError:
                if attempt == READS - 1:
                    raise
            else:
                return

    def _require(self) -> None:
        if not self._folder.is_dir():
            raise FileNotFoundError(errno.ENOENT, "the folder is away: is its volume mounted?", str(self._folder))


class Media:
    """Object storage for coroutines: blocking calls run on threads, contents are checked against their digests.

    Attributes:
        problem: Why the last call could not reach the storage; empty when it could.
    """

    def __init__(self, blobs: Blobs) -> None:
        self.problem, self.blobs = "", blobs
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="memory-media")

    async def put(self, key: str, content: bytes) -> None:
        """Write an object."""
        await self._run(lambda: self.blobs.put(key, content))

    async def get(self, key: str, digest: str) -> bytes:
        """Return an object whose SHA-256 is `digest`.

        Raises:
            Damaged: It is missing, or is not what was written; the message names it.
        """
        problem = "it is missing"
        for _ in range(READS):
            if (content := await self._run(lambda: self.blobs.get(key))) is None:
                break
            if digest_of(content) == digest:
                return content
            problem = f"its SHA-256 does not match ({len(content)} bytes)"
        raise Damaged(f"stored object {key!r} is damaged: {problem}; restore it from a backup, or remove what it is of")

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete objects."""
        if keys:
            await self._run(lambda: self.blobs.delete(keys))

    async def discard(self, keys: Sequence[str]) -> None:
        """Delete objects that no row names; what cannot be deleted now goes with the orphan sweep."""
        with suppress(NotReady):
            await self.delete(keys)

    async def read(self, key: str) -> bytes | None:
        """Return an object as it is, None when there is none."""
        return await self._run(lambda: self.blobs.get(key))

    async def list(self, prefix: str) -> AsyncIterator[Sequence[Entry]]:
        """Yield the objects whose keys begin with `prefix`, some at a time."""
        entries = self.blobs.list(prefix)
        while some := await self._run(lambda: [*islice(entries, LISTED_AT_ONCE)]):
            yield some

    async def check(self) -> None:
        """Try the storage, with a write and a deletion."""
        await self._run(self.blobs.check)
        await self.put(key := f"probe/{secrets.token_hex(8)}", b"probe")
        await self.delete([key])

    def close(self) -> None:
        """Wait for running calls."""
        self._threads.shutdown()

    async def _run(self, call: Callable[[], Result]) -> Result:
        try:
            result = await asyncio.get_running_loop().run_in_executor(self._threads, call)
        except NotReady as error:
            self._told(str(error))
            raise
        self._told("")
        return result

    def _told(self, problem: str) -> None:
        self.problem = problem
        metrics.MEDIA_UP.set(0 if problem else 1)


def new_key(tenant: str, owner: str, digest: str) -> str:
    """Return a key for content of this digest below its owner ("identities/<id>"); none is ever used twice.

    Were keys used again, a late deletion of an object could hit its successor.
    """
    return f"tenants/{tenant}/{owner}/{digest}-{secrets.token_hex(6)}"


def make_folder(folder: Path) -> None:
    """Make a folder for its owner only, where there is none."""
    with _refusals(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)


def refuse_old_folder(folder: Path) -> None:
    """Refuse a folder with a store of an earlier version; nothing in it is touched.

    Raises:
        FailedPrecondition: It is one; the message names the command that imports it.
    """
    if (folder / "objects").is_dir() or (folder / "layout").exists():
        problem = f"{folder} holds a store of an earlier version; nothing in it was touched"
        raise FailedPrecondition(f"{problem}. Choose another E3RG_MEMORY_FOLDER and bring it in with {IMPORT}")


@contextmanager
def _refusals(folder: Path) -> Iterator[None]:
    """Turn errors of the file system into those of the port."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            problem = f"the media disk below {folder} is full ({error.strerror}); nothing of this call is kept"
            raise Overloaded(f"{problem}; erase something or make room, see docs/memory.md", None) from error
        problem = f"the media folder {folder} cannot be used: {error.strerror or error}"
        raise NotReady(f"{problem}; mount it, or let user {os.getuid()} read and write it") from error
