"""Marks of erasures: an object for each that is under way, or was done a moment ago."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from services.memory.domain import Audit
from services.memory.records import Codec
from services.memory.store import Object, Store


@dataclass(frozen=True)
class Mark:
    """An erasure.

    Attributes:
        audit: Its record, as far as it has got.
        folders: What has to be empty: of the generations that are erased, and of no later one.
        is_counted: Whether the record says how much there was.
        taker: Who takes the head away, and nobody else does: a nonce.
        is_headless: Whether the taker has done so.
    """

    audit: Audit
    folders: tuple[str, ...]
    is_counted: bool = False
    taker: str = ""
    is_headless: bool = False

    @property
    def is_done(self) -> bool:
        """Whether nothing was left."""
        return self.audit.done_at_s > 0


@dataclass(frozen=True)
class Found:
    """A mark in the store, and the ETag that its object had."""

    key: str
    mark: Mark
    etag: str


_MARKS = Codec(Mark)


def erasing(store: Store, key: str) -> bool:
    """Tells whether an erasure is under way; `key` as `keys.erasing_identity` or `keys.erasing_person` returns it."""
    found = read(store, key)
    return found is not None and not found.mark.is_done


def read(store: Store, key: str) -> Found | None:
    """Returns the mark at `key`; None when there is none.

    Raises:
        Damaged: It is not what was written; the message names it.
    """
    found = store.get(key)
    return Found(key, _MARKS.decode(key, found.content), found.etag) if isinstance(found, Object) else None


def write(store: Store, key: str, mark: Mark, before: Found | None) -> Found:
    """Writes a mark in the place of `before`, unless another has done so.

    Returns:
        What is there now: this mark, or that of the other.
    """
    content = _MARKS.encode(mark)
    while True:
        etag = store.replace(key, content, before.etag) if before else store.create(key, content)
        now = Found(key, mark, etag) if etag is not None else read(store, key)
        if now:
            return now
        before = None  # It was old enough to be taken away meanwhile.


def change(store: Store, found: Found, changed: Callable[[Mark], Mark]) -> tuple[Found, bool]:
    """Changes a mark, unless another has done so; returns what is there now, and whether it is this change."""
    mark = changed(found.mark)
    now = write(store, found.key, mark, found)
    return now, now.mark == mark


def with_folders(mark: Mark, folders: Iterable[str]) -> Mark:
    """Returns the mark with more folders."""
    return replace(mark, folders=tuple(sorted({*mark.folders, *folders})))
