"""The port to a store of whole objects: what the memory asks of a folder on a disk and of an S3 bucket alike."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, Protocol

_NAME = re.compile(r"[A-Za-z0-9-]{1,200}\Z")


@dataclass(frozen=True)
class Object:
    """A stored object. `etag` changes whenever the content does, and says nothing else."""

    content: bytes
    etag: str


@dataclass(frozen=True)
class Entry:
    """An object in a listing. `modified_s` is when it was last written: Unix time, by the clock of the store."""

    key: str
    size_bytes: int
    modified_s: float


class Same(Enum):
    """The answer of `Store.get` when the object still is what the caller has."""

    SAME = "same"


SAME: Final[Literal[Same.SAME]] = Same.SAME


class Store(Protocol):
    """A store of whole objects. Calls block; any thread may call, and any number of processes share a store.

    It asks for no more than an S3 bucket promises. A key is names joined by "/"; a name is 1 to 200 letters, digits
    and hyphens; no key is a folder of another. A write is seen whole or not at all, by every reader from the moment
    the call returns, and survives the end of the process at any instant. There is no rename and no lock: writers agree
    by `create` for what is new and `replace` for what changes.

    A call that fails may have done what it was asked for: the answer to a write can get lost. The store tries again by
    itself, and knows its own writes by their content. So whatever is created or replaced must hold something that no
    other writer writes (a nonce), or be the same from all who write it.

    Every method but `close` raises

    * `services.common.errors.NotReady` when the store cannot be reached or refuses; the message says why and what to
      do about it,
    * `services.common.errors.DeadlineExceeded` when the time that the caller allows (`services.common.deadline`) is
      over, and
    * `ValueError` for a key that is none.
    """

    def put(self, key: str, content: bytes) -> str:
        """Writes an object, whether there is one or not; of several writers the last one counts.

        Returns:
            Its ETag.
        """

    def create(self, key: str, content: bytes) -> str | None:
        """Writes an object where none is; of several writers one wins.

        Returns:
            Its ETag; None when there is one already that this call has not written.
        """

    def replace(self, key: str, content: bytes, etag: str) -> str | None:
        """Writes an object in the place of the one that has `etag`; of several writers one wins.

        Returns:
            The new ETag; None when the object is another by now, or gone, and this call has changed nothing.

        Raises:
            NotReady: Also when an answer got lost and the object is neither what this call wrote nor what it was to
                replace: then nobody can tell whether the content was there for a moment.
        """

    def get(self, key: str, unless: str = "") -> Object | Same | None:
        """Returns the object, None when there is none, `SAME` when its ETag still is `unless`.

        Raises:
            Damaged: What arrived is not what the store says it holds; the message names the object.
        """

    def list(self, folder: str, limit: int | None = None, after: str = "") -> tuple[Entry, ...]:
        """Returns the objects in `folder` (ends with "/"; "" is everything) and below it.

        Those directly in the folder ascend by the code points of their keys; how those in folders below it stand among
        them, a store chooses. S3 cannot list backwards: whoever wants the newest first gives it the smallest key.

        Args:
            folder: Where to look.
            limit: Returns only the first so many.
            after: Returns only those behind this key, which need not exist; for folders that hold no folders.
        """

    def delete(self, keys: Iterable[str]) -> None:
        """Removes objects, in any order; an absent one is fine. When it fails, some may be gone."""

    def check(self) -> None:
        """Finds out whether all of the above can be kept: by trying it, on objects of its own in `probe/`.

        Raises:
            NotReady: It cannot; the message says why and what to do about it.
        """

    def sweep(self) -> None:
        """Deletes what killed writers left beside the objects, nothing of the living; asked every minute."""

    def close(self) -> None:
        """Frees what the store holds; the objects stay."""


def content_of(found: Object | Same | None) -> bytes | None:
    """Returns what a `get` without `unless` found."""
    return found.content if isinstance(found, Object) else None


def check_key(key: str) -> None:
    """Refuses what is no key.

    Raises:
        ValueError: It is none.
    """
    if not all(_NAME.match(name) for name in key.split("/")):
        raise ValueError(f"{key!r} is not a key; its names are letters, digits and hyphens")


def check_folder(folder: str) -> None:
    """Refuses what is no folder of keys.

    Raises:
        ValueError: It is none.
    """
    if folder and not folder.endswith("/"):
        raise ValueError(f"{folder!r} is not a folder of keys; end it with '/'")
    if folder:
        check_key(folder[:-1])
