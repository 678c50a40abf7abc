"""Additions of identities that have begun: should one be killed before its head is there, its files go all the same.

Nobody can find files without a head, so a mark says where they are for as long as an addition takes. One that is older
than any addition is of one that was killed.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from services.common.errors import Damaged, NotFound
from services.memory import keys
from services.memory.forgetting.store_time import now_s
from services.memory.keys import Scope
from services.memory.registry.heads import Heads
from services.memory.store import Store

KILLED_AFTER_S = 3600.0
"""An addition takes less: its call has a deadline."""

log = logging.getLogger(__name__)


class Additions:
    """The additions under way in `store`. Calls block; any thread and any number of processes may call."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._heads = Heads(store)

    @contextmanager
    def begun(self, scope: Scope) -> Iterator[None]:
        """Puts things below `scope.folder` within the block, then the head; when that fails, nothing is left."""
        mark = keys.adding(scope)
        self._store.put(mark, b"")
        try:
            yield
        except BaseException:
            self._heads.withdraw(scope)
            self._store.delete([mark])
            raise
        self._store.delete([mark])

    def resume(self, killed_after_s: float = KILLED_AFTER_S) -> None:
        """Deletes what additions left that were killed. What cannot be read is logged, and does not stop the others."""
        entries = self._store.list(keys.ADDING)
        store_now_s = now_s(self._store) if entries else 0.0
        for entry in entries:
            if store_now_s - entry.modified_s < killed_after_s:
                continue
            scope = keys.added_scope(entry.key)
            try:
                if not self._has_appeared(scope):
                    self._heads.delete_below(scope.folder)
            except Damaged as error:
                log.error("what an addition left stays", extra={"mark": entry.key, "why": str(error)})
                continue
            self._store.delete([entry.key])

    def _has_appeared(self, scope: Scope) -> bool:
        try:
            return self._heads.read(scope.tenant, scope.identity).kept.scope == scope
        except NotFound:
            return False
