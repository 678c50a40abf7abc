"""Changes of examples that have begun: should one be killed, what it leaves of rows goes all the same.

A row comes before its example and goes after it, and nothing but the example tells of it. So a mark names the examples
for as long as they are put or removed. One that is older than any call is of one that was killed: the rows go of those
examples that are not there. No later example has the id of an earlier one.
"""

import logging
import secrets
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from services.common.errors import Damaged, NotReady
from services.memory import keys
from services.memory.forgetting.store_time import now_s
from services.memory.records import Codec
from services.memory.store import Store, content_of
from services.memory.vectors.index import Vectors
from services.memory.vectors.renewal import by_model

KILLED_AFTER_S = 3600.0
"""A change takes less: its call has a deadline."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Change:
    """Which examples are put or removed: their ids, and the folder of whose they are."""

    folder: str
    ids: tuple[str, ...]


_CHANGES = Codec(Change)


class ExampleChanges:
    """The changes under way in `store`. Calls block; any thread and any number of processes may call."""

    def __init__(self, store: Store, vectors: Vectors) -> None:
        self._store = store
        self._vectors = vectors

    @contextmanager
    def begun(self, examples: keys.Examples, ids: Sequence[str]) -> Iterator[None]:
        """Puts or removes these examples within the block; when that fails, a sweep takes away what is left."""
        mark = f"{keys.CHANGING}{secrets.token_hex(16)}"
        self._store.put(mark, _CHANGES.encode(Change(examples.folder, tuple(ids))))
        yield
        if self._store.get(mark) is None:
            # It stood still for so long that a sweep took it for killed: what it put since has no rows.
            self._store.delete([examples.items + one for one in ids])
            self.erase_rows(examples, ids)
            raise NotReady("the change took more than an hour, and was ended; retry")
        self._store.delete([mark])

    def erase_rows(self, examples: keys.Examples, ids: Collection[str]) -> None:
        """Erases the rows of examples that are not there any more, or never were."""
        for folder in by_model(self._store, examples.models):
            self._vectors.erase(folder, ids)

    def resume(self, killed_after_s: float = KILLED_AFTER_S) -> None:
        """Erases the rows that killed changes left. What cannot be read is logged, and does not stop the others."""
        entries = self._store.list(keys.CHANGING)
        store_now_s = now_s(self._store) if entries else 0.0
        for entry in entries:
            if store_now_s - entry.modified_s < killed_after_s:
                continue
            try:
                self._end(entry.key)
            except Damaged as error:
                log.error("rows of examples stay that a change left", extra={"mark": entry.key, "why": str(error)})
                continue
            self._store.delete([entry.key])

    def _end(self, mark: str) -> None:
        content = content_of(self._store.get(mark))
        if content is None:
            return  # Another replica has ended it.
        change = _CHANGES.decode(mark, content)
        examples = keys.Examples(change.folder)
        self.erase_rows(examples, {one for one in change.ids if self._store.get(examples.items + one) is None})
