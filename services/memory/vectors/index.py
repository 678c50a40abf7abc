"""The vectors of a folder: added, searched, tidied up, erased."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.memory.store import Store
from services.memory.vectors.block import Block, Row
from services.memory.vectors.nearest import Found, Wanted, nearest
from services.memory.vectors.shelf import ROUNDS_MAX, Name, Shelf, restless
from services.memory.vectors.tidying import STEPS, Tidying

BYTES_MAX = 256 * 2**20
"""So much memory the blocks held may take, about: 280,000 rows of 384 numbers."""

VIEWS_MAX = 256
"""Of so many folders a replica remembers what it listed last, and their small blocks as one."""


@dataclass(frozen=True)
class View:
    """What a folder held when it was last listed: large blocks by name, the small ones as one."""

    names: frozenset[Name]
    large: tuple[Name, ...]
    small: Block | None
    erasures: frozenset[str]
    gone: frozenset[str]


class Vectors:
    """Rows of turns in folders of a store. What is in one folder is never found in another.

    A folder ends with "/", and all vectors of it are of one model: rows of different models are not comparable. Any
    thread and any number of processes may call. Whatever is below a folder may be deleted at any time; whoever does
    that deletes again when a write under way may have ended, and calls `forget`.

    Args:
        store: Where they are.
        bytes_max: So much memory the blocks held may take, about. A search of a folder that needs more reads the
            store each time.
        steps: How many rows make a block of the next size.
        clock: Monotonic, in seconds.
    """

    def __init__(
        self,
        store: Store,
        bytes_max: int = BYTES_MAX,
        steps: tuple[int, ...] = STEPS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._shelf = Shelf(store, bytes_max)
        self._tidying = Tidying(self._shelf, steps)
        self._steps = steps
        self._views: OrderedDict[str, View] = OrderedDict()
        self._used_s: dict[str, float] = {}
        self._clock = clock
        self._lock = threading.Lock()

    def add(self, folder: str, rows: Sequence[Row]) -> None:
        """Adds rows: they are found from now on. Of a turn that has a row the one that was said first counts.

        Raises:
            ValueError: A vector has no direction.
        """
        self._use(folder)
        for start in range(0, len(rows), self._steps[-1]):
            self._shelf.write(folder, 0, Block.of(rows[start : start + self._steps[-1]]))

    def search(self, folder: str, query: NDArray[np.float32], wanted: Wanted) -> tuple[Found, ...]:
        """Returns the rows nearest to `query` (dimensions,), nearest first, each turn once.

        Raises:
            Damaged: An object is not what was written; the message names it.
            NotReady: The store cannot be reached, or the blocks change all the time.
            ValueError: The query has no direction.
        """
        blocks, gone = self.blocks(folder)
        return nearest(blocks, query, wanted, gone)

    def blocks(self, folder: str) -> tuple[Sequence[Block], frozenset[str]]:
        """Returns all rows, some of them perhaps twice, and the traces of the turns whose rows are not to be found.

        Raises:
            Damaged: An object is not what was written; the message names it.
            NotReady: The store cannot be reached, or the blocks change all the time.
        """
        self._use(folder)
        for _ in range(ROUNDS_MAX):
            view = self._view(folder)
            large = [self._shelf.read(name) for name in view.large] if view else [None]
            blocks = [block for block in large if block is not None]
            if view is None or len(blocks) < len(large):
                continue  # Merged away since the listing: there is a newer one.
            if view.small is not None:
                blocks.append(view.small)
            return blocks, view.gone
        raise restless(folder)

    def touch(self, folder: str) -> None:
        """Writes into a folder that it is in use, and nothing else; it goes as erasures go."""
        self._shelf.erase(folder, ())

    def compact(self, folder: str) -> int:
        """Merges small blocks; call it now and then, after `add` at best. Costs one listing when nothing is due.

        Returns:
            How many blocks were replaced.
        """
        self._use(folder)
        return self._tidying.compact(folder)

    def erase(self, folder: str, turns: Collection[str]) -> int:
        """Takes the rows of `turns` out of all blocks; when it fails, call it again. None comes back by a merge.

        Nor by an `add` that is late by less than `ERASURE_KEPT_S`; a turn that was erased is not to be added again.

        Returns:
            How many turns had rows.
        """
        self._use(folder)
        return self._tidying.erase(folder, turns)

    def forget(self, folder: str) -> None:
        """Holds nothing of `folder` or below it in memory any longer."""
        with self._lock:
            for below in [name for name in self._views if name.startswith(folder)]:
                del self._views[below]
        self._shelf.forget(folder)

    def drop_idle(self, idle_s: float) -> None:
        """Holds nothing in memory any longer of folders that nobody asked for in so many seconds; call it often."""
        with self._lock:
            before_s = self._clock() - idle_s
            self._used_s = {folder: used_s for folder, used_s in self._used_s.items() if used_s > before_s}
            used = frozenset(self._used_s)
            for idle in [folder for folder in self._views if folder not in used]:
                del self._views[idle]
        self._shelf.keep_only(used)

    @property
    def held_bytes(self) -> int:
        """How much memory the blocks held take, about."""
        return self._shelf.held_bytes

    def _use(self, folder: str) -> None:
        with self._lock:
            self._used_s[folder] = self._clock()

    def _view(self, folder: str) -> View | None:
        """Returns what the folder holds now; None when blocks went away meanwhile."""
        with self._lock:
            before = self._views.get(folder)
        listing = self._shelf.whole(folder, before.names if before else None)
        names, erasures = frozenset(listing.blocks), frozenset(entry.key for entry in listing.erasures)
        if before and before.names == names and before.erasures == erasures:
            return before
        if before:
            self._shelf.drop(before.names - names)
        small = [self._shelf.read(name) for name in listing.blocks if name.rows < self._steps[0]]
        there = [block for block in small if block is not None]
        if len(there) < len(small):
            return None
        view = View(
            names,
            tuple(name for name in listing.blocks if name.rows >= self._steps[0]),
            Block.merged(there) if there else None,
            erasures,
            self._shelf.erased(listing.erasures),
        )
        with self._lock:
            self._views[folder] = view
            self._views.move_to_end(folder)
            while len(self._views) > VIEWS_MAX:
                self._views.popitem(last=False)
        return view
