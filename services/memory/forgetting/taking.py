"""Takes the head of what is erased away: one eraser does, and the others wait for it.

A head goes by a deletion without a condition, for S3 has no other, and it must not hit the head of a later addition. So
one takes it away, whose name is in the mark; the others wait until the mark says that it is gone, and nothing is added
before the mark says that all is. Should that one die at it, another does it half a minute later.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from math import inf

from services.common.errors import Damaged, NotReady
from services.memory import keys
from services.memory.forgetting import marks
from services.memory.forgetting.marks import Found, Mark, with_folders
from services.memory.forgetting.store_time import now_s
from services.memory.forgetting.subjects import IdentitySubject, Subject, head_of
from services.memory.store import Object, Store

TAKEN_UP_AFTER_S = 30.0
"""An erasure that has not moved for so long is ended by whoever finds it."""

WAITS, WAIT_S = 40, 0.05
"""Who finds another at the head, which takes milliseconds, looks again so often."""


class Taking:
    """Takes heads away from `store`.

    Args:
        store: Where they are.
        ready: Heads of the identities that come with the project.
        taken_up_after_s: When another who takes a head away counts as dead.
        wait: Waits so many seconds.
    """

    def __init__(
        self, store: Store, ready: Collection[str], taken_up_after_s: float, wait: Callable[[float], None]
    ) -> None:
        self._store = store
        self._ready = ready
        self._taken_up_after_s = taken_up_after_s
        self._wait = wait

    def take(self, subject: Subject, found: Found, me: str) -> Found:
        """Deletes the head, if it is of a generation that is erased, and nobody else is at it; returns the mark.

        Raises:
            NotReady: Another is at it, and does not go on.
        """
        if found.mark.taker not in ("", me) and not self._is_left(found):
            return self._waited(found)
        found, is_mine = marks.change(self._store, found, lambda mark: replace(mark, taker=me))
        if not is_mine:
            return found
        if isinstance(subject, IdentitySubject) and subject.head in self._ready:
            self._store.put(keys.removed(subject.tenant, subject.identity), b"")
        head = head_of(self._store, subject)
        folders = self.folders(subject, head) if head else set()
        if head and (subject.takes_later_ones or folders.issubset(found.mark.folders)):
            found, is_mine = marks.change(self._store, found, lambda mark: with_folders(mark, folders))
            if not is_mine:
                return found
            self._store.delete([subject.head])
        return marks.change(self._store, found, lambda mark: replace(mark, is_headless=True))[0]

    def take_late(self, subject: Subject, mark: Mark) -> None:
        """Deletes the head of an addition that was erased, and whose author died before looking for that."""
        head = head_of(self._store, subject)
        folders = self.folders(subject, head) if head else set()
        if folders and folders.issubset(mark.folders):
            self._store.delete([subject.head])

    def folders(self, subject: Subject, head: Object) -> set[str]:
        """Returns the folder that a head names; of a damaged one, all that there are: it names any of them."""
        try:
            return {subject.folder(head)}
        except Damaged:
            return set(subject.contents(self._store))

    def _is_left(self, found: Found) -> bool:
        """Tells whether who takes the head away has not moved for so long that it must be dead."""
        ages = {entry.key: entry.modified_s for entry in self._store.list(found.key.rpartition("/")[0] + "/")}
        return now_s(self._store) - ages.get(found.key, inf) >= self._taken_up_after_s

    def _waited(self, found: Found) -> Found:
        """Returns the mark as another leaves it who takes the head away."""
        for _ in range(WAITS):
            self._wait(WAIT_S)
            now = marks.read(self._store, found.key)
            if now and now != found:
                return now
        what = found.mark.audit.what
        raise NotReady(f"{what}: another erases it, and does not go on; ask again in {self._taken_up_after_s:g} s")
