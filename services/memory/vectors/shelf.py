"""The objects of vectors in the store, and those that are held in memory.

    <folder>/<rank>-<rows>-<SHA-256>       a block; immutable, named by its content
    <folder>/erased-<SHA-256>              traces of turns that were erased, and must not come back

A block that replaces others has a higher rank than each of them, so its key is greater. Who deletes a block has put,
or seen, one with a greater key that holds its rows. So of all blocks with a row the one with the greatest key is
always there, whatever order any number of processes do this in, and wherever they are killed: no lock is needed. Only
doubles can be left, which searches pass over and later merging removes.
"""

import json
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from services.common.errors import NotReady
from services.memory.records import damaged, digest_of
from services.memory.store import Entry, Store, content_of
from services.memory.vectors.block import Block, traces

ERASED = "erased-"

ROUNDS_MAX = 50
"""Who finds the blocks changed by others so often gives up."""


@dataclass(frozen=True, order=True)
class Name:
    """What the key of a block says."""

    folder: str
    rank: int
    rows: int
    digest: str

    @property
    def key(self) -> str:
        """The key of the object."""
        return f"{self.folder}{self.rank:08d}-{self.rows:06d}-{self.digest}"


@dataclass(frozen=True)
class Listing:
    """What is in a folder: blocks, ascending, and erasures."""

    blocks: tuple[Name, ...]
    erasures: tuple[Entry, ...]
    newest_s: float


class Shelf:
    """Reads and writes blocks; holds the blocks that were used last.

    Args:
        store: Where they are.
        bytes_max: So much memory the blocks held may take, about.
    """

    def __init__(self, store: Store, bytes_max: int) -> None:
        self._store = store
        self._bytes_max = bytes_max
        self._held: OrderedDict[str, tuple[Block, int]] = OrderedDict()
        self.held_bytes = 0
        self._lock = threading.Lock()

    def listed(self, folder: str) -> Listing:
        """Returns what is in `folder`."""
        entries = self._store.list(folder)
        erased = folder + ERASED
        return Listing(
            tuple(_name(folder, entry.key) for entry in entries if not entry.key.startswith(erased)),
            tuple(entry for entry in entries if entry.key.startswith(erased)),
            max((entry.modified_s for entry in entries), default=0.0),
        )

    def whole(self, folder: str, before: Collection[Name] | None = None) -> Listing:
        """Returns a listing of `folder` in which no row is missing.

        A listing is no snapshot: while it is made, a row can move out of a block that it has not reached yet into one
        that it has passed. Rows move by deletions only, so a listing that still has all of an earlier one is whole.

        Args:
            folder: Where to look.
            before: The blocks of an earlier listing; without them it takes two.
        """
        for _ in range(ROUNDS_MAX):
            listing = self.listed(folder)
            if before is not None and set(before).issubset(listing.blocks):
                return listing
            before = listing.blocks
        raise restless(folder)

    def read(self, name: Name) -> Block | None:
        """Returns a block; None when it is gone.

        Raises:
            Damaged: It is not what was written; the message names it.
        """
        with self._lock:
            if name.key in self._held:
                self._held.move_to_end(name.key)
                return self._held[name.key][0]
        content = content_of(self._store.get(name.key))
        if content is None:
            return None
        if digest_of(content) != name.digest:
            raise damaged(name.key, "its SHA-256 does not match")
        block = Block.decode(content)
        self._hold(name.key, block)
        return block

    def write(self, folder: str, rank: int, block: Block) -> None:
        """Puts a block; the same rows at the same rank are the same object."""
        content = block.encode()
        name = Name(folder, rank, len(block), digest_of(content))
        self._store.put(name.key, content)
        self._hold(name.key, block)

    def delete(self, names: Collection[Name]) -> None:
        """Removes blocks."""
        self._store.delete([name.key for name in names])
        self.drop(names)

    def erase(self, folder: str, turns: Iterable[str]) -> None:
        """Says that the turns are gone, before they are."""
        content = json.dumps(sorted(traces(turns))).encode()
        self._store.put(f"{folder}{ERASED}{digest_of(content)}", content)

    def erased(self, erasures: Iterable[Entry]) -> frozenset[str]:
        """Returns the traces of the turns that must not come back.

        Raises:
            Damaged: An object is not what was written; the message names it.
        """
        gone: set[str] = set()
        for entry in erasures:
            content = content_of(self._store.get(entry.key))
            if content is None:
                continue  # Its time was over.
            if digest_of(content) != entry.key.rpartition("-")[2]:
                raise damaged(entry.key, "its SHA-256 does not match")
            gone.update(json.loads(content))
        return frozenset(gone)

    def forget_erasures(self, erasures: Iterable[Entry]) -> None:
        """Removes erasures that nothing can undo any more."""
        self._store.delete([entry.key for entry in erasures])

    def drop(self, names: Iterable[Name]) -> None:
        """Holds these blocks no longer."""
        with self._lock:
            for name in names:
                self._drop(name.key)

    def forget(self, folder: str) -> None:
        """Holds nothing of `folder` or below it any longer."""
        with self._lock:
            for key in [key for key in self._held if key.startswith(folder)]:
                self._drop(key)

    def keep_only(self, folders: Collection[str]) -> None:
        """Holds nothing of other folders any longer."""
        with self._lock:
            for key in [key for key in self._held if key.rpartition("/")[0] + "/" not in folders]:
                self._drop(key)

    def _hold(self, key: str, block: Block) -> None:
        size_bytes = block.size_bytes
        with self._lock:
            self._drop(key)
            self._held[key] = block, size_bytes
            self.held_bytes += size_bytes
            while self.held_bytes > self._bytes_max and len(self._held) > 1:
                self._drop(next(iter(self._held)))

    def _drop(self, key: str) -> None:
        _, size_bytes = self._held.pop(key, (None, 0))
        self.held_bytes -= size_bytes


def restless(folder: str) -> NotReady:
    """Returns the error for a folder that never stays the same."""
    return NotReady(f"the vectors in {folder!r} change all the time; retry when fewer write there")


def _name(folder: str, key: str) -> Name:
    parts = key.removeprefix(folder).split("-")
    if len(parts) != 3 or not (parts[0].isdecimal() and parts[1].isdecimal()):
        raise damaged(key, "its name is not that of a block of vectors")
    return Name(folder, int(parts[0]), int(parts[1]), parts[2])
