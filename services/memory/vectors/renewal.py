"""Makes the rows of another sentence embedding anew with the present one, and lets the old ones go at last.

Rows of different models are not comparable, so each model has a folder of its own below a root. No row is put into a
folder unless its text is there or about to be, and none leaves all of them before its text does. So the names in the
others' blocks say which rows lack in a folder: nobody has to look through the texts, and whoever is killed, or makes
the same rows as another, leaves nothing that the next one does not find.

While replicas with two models share a store, each makes what the other adds. The rows of another model go when all of
them are there anew and nothing was written beside them for a day, longer than any update takes: by the clock of the
store. Whoever uses that model after all makes its rows anew. Two cannot remove each other's at once: each one writes
into its own folder first and looks at the other's then, so one of them sees that the other is alive (as in Dekker's
algorithm: Dijkstra, "Cooperating sequential processes", 1965); no call lasts a day.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from services.common.errors import Damaged
from services.memory.store import Entry, Store
from services.memory.vectors.block import Row, trace
from services.memory.vectors.embedding import Embedding
from services.memory.vectors.index import Vectors

ROWS_A_CALL = 8
"""So many rows are made in one call, for which a reply may have to wait: 0.05 s of the sentence embedding, and three
times that on a busy machine."""

KEPT_S = 86_400.0
"""The rows of another model stay so long after the last one was written there, or was made anew from there."""

LOOKED_EVERY_S = 60.0
"""Where nothing lacks it is looked again after so long: a replica with another model may have added a row."""

log = logging.getLogger(__name__)


class Texts(Protocol):
    """What rows are made of."""

    def text(self, row: Row) -> str:
        """Returns the text of a row; empty when it is not there, or not yet."""

    def gone(self, rows: Sequence[Row]) -> Collection[str]:
        """Returns of these rows, by their turns, those whose text was deleted, or is about to be."""


class Renewal:
    """Renews rows in `store`. Calls block; any thread and any number of processes may call.

    Args:
        store: Where they are.
        vectors: The rows.
        embedding: The present model.
        clock: Monotonic, in seconds.
    """

    def __init__(
        self, store: Store, vectors: Vectors, embedding: Embedding, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store, self._vectors, self._embedding, self._clock = store, vectors, embedding, clock
        self._looked_s: dict[str, float] = {}
        self._lock = threading.Lock()

    def renew(self, root: str, texts: Texts) -> bool:
        """Makes some of the rows that lack, those of the newest turns first; when none does, removes the old ones.

        Args:
            root: The folder of the models' folders, ends with "/".
            texts: What the rows are made of.

        Returns:
            Whether something was written: whoever erases all of it meanwhile may have looked before that.
        """
        folder = f"{root}{self._embedding.digest}/"
        if self._clock() - self._looked_s.get(folder, -LOOKED_EVERY_S) < LOOKED_EVERY_S:
            return False
        listed = by_model(self._store, root)
        others = [other for other in listed if other != folder]
        lacking = self._lacking(folder, others)
        made, left, hopeless = self._make(folder, others, lacking, texts)
        if not left:
            with self._lock:
                self._looked_s[folder] = self._clock()
        if made or not _old(listed, folder):
            return made
        self._remove(root, folder, hopeless)
        return True

    def drop_idle(self, idle_s: float) -> None:
        """Forgets where nothing lacked so many seconds ago."""
        with self._lock:
            before_s = self._clock() - idle_s
            self._looked_s = {folder: looked_s for folder, looked_s in self._looked_s.items() if looked_s > before_s}

    def _lacking(self, folder: str, others: Collection[str]) -> list[Row]:
        """Returns the rows of other models that `folder` has not, of the newest turn first."""
        if not others:
            return []
        blocks, gone = self._vectors.blocks(folder)
        there = {turn for block in blocks for turn in block.turns}
        lacking: dict[str, Row] = {}
        for other in others:
            blocks, gone_there = self._vectors.blocks(other)
            erased = gone | gone_there
            rows = (row for block in blocks for row in block.without(there).rows())
            lacking.update((row.turn, row) for row in rows if trace(row.turn) not in erased)
        return sorted(lacking.values(), key=lambda row: (-row.said_at_s, row.turn))

    def _make(
        self, folder: str, others: Collection[str], lacking: Sequence[Row], texts: Texts
    ) -> tuple[bool, int, frozenset[str]]:
        """Makes rows.

        Returns:
            Whether one was made, how many were not looked at, and of which turns there is nothing to make one of.
        """
        made: list[Row] = []
        hopeless: set[str] = set()
        left = len(lacking)
        while left and not made:
            some = lacking[-left:][:ROWS_A_CALL]
            left -= len(some)
            said = {row.turn: _text(texts, row) for row in some}
            vectors = self._embedding.of_all([text or "" for text in said.values()])
            found = list(zip(some, vectors, strict=True))
            made = [replace(row, vector=vector) for row, vector in found if vector is not None]
            hopeless.update(row.turn for row, vector in found if vector is None and said[row.turn] is not None)
        if made:
            for other in others:
                self._vectors.touch(other)  # From now on it is kept for its time: its replicas may only be going.
            self._vectors.add(folder, made)
            self._vectors.erase(folder, texts.gone(made))
        return bool(made), left, frozenset(hopeless)

    def _remove(self, root: str, folder: str, hopeless: Collection[str]) -> None:
        """Removes what still is old after a sign of life of `folder`, and of which `folder` has all rows."""
        self._vectors.touch(folder)
        for other, entries in _old(by_model(self._store, root), folder).items():
            if {row.turn for row in self._lacking(folder, [other])}.issubset(hopeless):
                self._store.delete([entry.key for entry in entries])
                self._vectors.forget(other)


def by_model(store: Store, root: str) -> dict[str, tuple[Entry, ...]]:
    """Returns the folders of the models below `root`, with what is in each."""
    listed: dict[str, list[Entry]] = {}
    for entry in store.list(root):
        listed.setdefault(f"{entry.key.rpartition('/')[0]}/", []).append(entry)
    return {folder: tuple(entries) for folder, entries in listed.items()}


def _text(texts: Texts, row: Row) -> str | None:
    """Returns the text of a row; None when it is damaged: the others go on, and this one waits for its repair."""
    try:
        return texts.text(row)
    except Damaged as error:
        log.error("a row of another model is not made anew", extra={"why": str(error)})
        return None


def _old(listed: Mapping[str, Sequence[Entry]], folder: str) -> dict[str, Sequence[Entry]]:
    """Returns the folders to which nothing was written for long before the last writing to `folder`."""
    now_s = _last_s(listed.get(folder, ()))
    others = {other: entries for other, entries in listed.items() if other != folder}
    return {other: entries for other, entries in others.items() if now_s - _last_s(entries) >= KEPT_S}


def _last_s(entries: Sequence[Entry]) -> float:
    return max((entry.modified_s for entry in entries), default=0.0)
