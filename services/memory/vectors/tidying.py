"""Keeps the blocks few, and takes erased turns out of them. Any number of processes may do it at once, without a lock.

Why no row is lost, see `shelf.py`. Why an erased row does not come back: the erasure is written before the blocks are
looked at. A merge that read them earlier looks for erasures after its last write; should it be killed before that, the
next call finds the erasure still there. An erasure stays until whoever may have read before it must have given up.
"""

import time
from collections.abc import Callable, Collection, Sequence

from services.memory.vectors.block import Block, trace
from services.memory.vectors.shelf import ROUNDS_MAX, Listing, Name, Shelf, restless

STEPS = (64, 1024, 16_384)
"""Blocks smaller than a step become one as soon as they have so many rows together. So none has twice the last."""

MERGING_S_MAX = 300.0
"""A merge whose parts were listed longer ago is not written."""

ERASURE_KEPT_S = 900.0
"""An erasure is kept so long: a merge, and the longest time its last write may take."""


class Tidying:
    """Merges and erases in the blocks of `shelf`; `clock` is monotonic, in seconds."""

    def __init__(
        self, shelf: Shelf, steps: tuple[int, ...] = STEPS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._shelf = shelf
        self._steps = steps
        self._clock = clock

    def compact(self, folder: str) -> int:
        """Merges what is small, removes doubles, and ends erasures. Costs one listing when nothing is to be done.

        Returns:
            How many blocks were replaced.
        """
        replaced = 0
        for _ in range(ROUNDS_MAX):
            began_s = self._clock()
            listing = self._shelf.listed(folder)
            step, parts = self._due(listing.blocks)
            if not parts:
                self._end_erasures(folder, listing)
                break
            doubles = self._remove_doubles(listing, began_s) if step == self._steps[-1] else 0
            replaced += doubles or self._merge(listing, parts, began_s)
        return replaced

    def erase(self, folder: str, turns: Collection[str]) -> int:
        """Takes the rows of `turns` out.

        Returns:
            How many turns had rows.
        """
        if not turns or not self._shelf.whole(folder).blocks:
            return 0
        self._shelf.erase(folder, turns)
        return self._take_out(folder, frozenset(map(trace, turns)))

    def _merge(self, listing: Listing, parts: Sequence[Name], began_s: float) -> int:
        blocks = [self._shelf.read(name) for name in parts]
        there = [block for block in blocks if block is not None]
        if len(there) < len(parts):
            return 0  # Another was faster.
        gone = self._shelf.erased(listing.erasures)
        return len(parts) * self._replace(parts, _kept(Block.merged(there), gone), began_s)

    def _remove_doubles(self, listing: Listing, began_s: float) -> int:
        """Takes out of each block the rows that one with a greater key has. They are left by merges at the same time.

        Done before a merge of the last step, which is rare, for it reads all blocks.
        """
        held: set[str] = set()
        replaced = 0
        for name in reversed(listing.blocks):
            block = self._shelf.read(name)
            if block is None:
                return replaced  # What took its place is not in this listing.
            if not held.isdisjoint(block.turns):
                replaced += self._replace([name], block.without(held), began_s)
            held.update(block.turns)
        return replaced

    def _take_out(self, folder: str, gone: frozenset[str]) -> int:
        """Rewrites blocks until none has a row of which the trace is in `gone`. Returns how many turns that were."""
        taken: set[str] = set()
        for _ in range(ROUNDS_MAX):
            began_s = self._clock()
            clean = True
            for name in self._shelf.whole(folder).blocks:
                block = self._shelf.read(name)
                kept = block and _kept(block, gone)
                if block is None or kept is None or len(kept) < len(block):
                    clean = False
                if block is not None and kept is not None and len(kept) < len(block):
                    taken.update(set(block.turns).difference(kept.turns))
                    self._replace([name], kept, began_s)
            if clean:
                return len(taken)
        raise restless(folder)

    def _end_erasures(self, folder: str, listing: Listing) -> None:
        """Repeats the erasures, and drops those that nothing can undo any more: by the clock of the store."""
        if listing.erasures:
            self._take_out(folder, self._shelf.erased(listing.erasures))
        old = [entry for entry in listing.erasures if listing.newest_s - entry.modified_s > ERASURE_KEPT_S]
        if old:
            self._shelf.forget_erasures(old)

    def _due(self, names: Sequence[Name]) -> tuple[int, Sequence[Name]]:
        """Returns the largest step that is reached, and just as many small blocks as reach it."""
        for step in reversed(self._steps):
            rows = 0
            for count, name in enumerate(small := [name for name in names if name.rows < step], start=1):
                rows += name.rows
                if rows >= step:
                    return step, small[:count]
        return 0, ()

    def _replace(self, parts: Sequence[Name], block: Block, began_s: float) -> bool:
        if self._clock() - began_s > MERGING_S_MAX:
            return False
        if len(block):
            self._shelf.write(parts[0].folder, max(name.rank for name in parts) + 1, block)
        self._shelf.delete(parts)
        return True


def _kept(block: Block, gone: frozenset[str]) -> Block:
    if not gone:
        return block
    return block.without({turn for turn in block.turns if trace(turn) in gone})
