"""Erases an identity or a person, whatever ends in the middle, and whoever writes meanwhile.

The steps: a mark is written; the head goes, and with it all that a reader can reach; what there is, is counted, and
its folders are written into the mark; they are deleted until a listing finds nothing; the record and the mark say that
it is done. Each step is the same when it is done again, by this process, by another, or by several at once.

A writer that found the head before it went may write after the last listing. It looks for the head then, and takes
back what it wrote; should it die before that, its object would stay. So the mark stays longer than any write takes,
and as long as it does, every sweep of every replica empties its folders again: those of the erased generations, never
one of a later addition, which has another.
"""

import logging
import secrets
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from services.common.errors import Damaged, InvalidRequest, NotFound
from services.memory import keys
from services.memory.checks import check_handle, check_id, check_line
from services.memory.domain import Audit
from services.memory.forgetting import marks
from services.memory.forgetting.audits import Audits
from services.memory.forgetting.leaving import Leaving
from services.memory.forgetting.marks import Found, Mark, with_folders
from services.memory.forgetting.store_time import now_s
from services.memory.forgetting.subjects import (
    Contents,
    IdentitySubject,
    PersonSubject,
    Subject,
    counted,
    head_of,
    kind_of,
    subject_of,
)
from services.memory.forgetting.taking import TAKEN_UP_AFTER_S, Taking
from services.memory.store import SAME, Store

CLOSED_AFTER_S = 600.0
"""What late writers leave is looked for so long after an erasure was done: longer than any write takes."""

ASKED_BY_CHARS_MAX = 100
"""Longest name of who asks for an erasure."""

log = logging.getLogger(__name__)


def _nothing(folder: str) -> None:
    """Holds nothing."""


class Eraser:
    """Erases in `store`. Calls block; any thread and any number of processes may call.

    Args:
        store: Where it is.
        caches_s: A replica holds nothing in its memory for longer after its last use.
        ready: Heads of the identities that come with the project: that those were erased is remembered, so that they
            stay away.
        forget: Called with each erased folder, so that this replica holds nothing of it.
        clock: Unix time, for the records.
        closed_after_s: How long late writers are looked for.
        taken_up_after_s: When another who takes a head away counts as dead.
        wait: Waits so many seconds.
    """

    def __init__(
        self,
        store: Store,
        caches_s: float,
        ready: Collection[str] = (),
        forget: Callable[[str], None] = _nothing,
        clock: Callable[[], float] = time.time,
        closed_after_s: float = CLOSED_AFTER_S,
        taken_up_after_s: float = TAKEN_UP_AFTER_S,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._store = store
        self._caches_s = caches_s
        self._forget = forget
        self._clock = clock
        self._closed_after_s = closed_after_s
        self._audits = Audits(store)
        self._leaving = Leaving(store)
        self._taken_up_after_s = taken_up_after_s
        self._taking = Taking(store, frozenset(ready), taken_up_after_s, wait)

    def identity(self, tenant: str, identity: str, asked_by: str) -> Audit:
        """Erases an identity with all that was ever kept of it; ends an erasure of it that is under way.

        Raises:
            InvalidRequest: A name is not allowed.
            NotFound: Nothing of it is there.
            NotReady: Also when another has begun a moment ago and does not go on.
        """
        check_id("tenant", tenant)
        check_id("identity", identity)
        check_line("asked_by", asked_by, ASKED_BY_CHARS_MAX)
        return self._erase(IdentitySubject(tenant, identity), asked_by)

    def person(self, tenant: str, person: str, conversation: str, asked_by: str) -> Audit:
        """Erases all that was kept of a person, with every identity; ends an erasure of them that is under way.

        Args:
            tenant: Whose.
            person: Empty for somebody who is known in `conversation` only.
            conversation: Empty for a person.
            asked_by: For the record.

        Raises:
            InvalidRequest: A name is not allowed, or not exactly one of person and conversation is named.
            NotFound: Nothing of them is there.
        """
        check_id("tenant", tenant)
        if bool(person) == bool(conversation):
            raise InvalidRequest("conversation", "name a person, or the conversation of somebody without a name")
        check_handle(*(("person", person) if person else ("conversation", conversation)))
        check_line("asked_by", asked_by, ASKED_BY_CHARS_MAX)
        return self._erase(PersonSubject(tenant, keys.person_of(person, conversation)), asked_by)

    def resume(self) -> None:
        """Ends erasures that were cut short, and deletes what late writers left of those that were done a moment ago.

        What cannot be read is logged, and does not stop the others.
        """
        entries = self._store.list(keys.ERASING)
        store_now_s = now_s(self._store) if entries else 0.0
        over: list[Found] = []
        for entry in entries:
            try:
                found = self._resume(entry.key, store_now_s - entry.modified_s)
            except Damaged as error:
                log.error("an erasure cannot be ended", extra={"mark": entry.key, "why": str(error)})
                continue
            over += [found] if found else []
        self._close(over)

    def _erase(self, subject: Subject, asked_by: str) -> Audit:
        found = marks.read(self._store, subject.mark)
        if found is None or found.mark.is_done:
            found = self._begin(subject, asked_by, found)
        return self._end(subject, found)

    def _begin(self, subject: Subject, asked_by: str, before: Found | None) -> Found:
        """Writes the mark: with what the head names, and what the last erasure still looks after."""
        head = head_of(self._store, subject)
        old = before.mark.folders if before else ()
        there = self._taking.folders(subject, head) if head else set(subject.contents(self._store))
        folders = there if head else there.difference(old)
        if not head and not folders:
            raise NotFound(f"{subject.what}: nothing is there to be erased")
        audit = Audit(
            id=secrets.token_hex(8),
            what=subject.what,
            asked_by=asked_by,
            begun_at_s=self._clock(),
            counts=counted([(subject.head_kind, len(head.content))]) if head else (),
        )
        mark = Mark(audit, tuple(sorted({*old, *folders})))
        return marks.write(self._store, subject.mark, mark, before)

    def _end(self, subject: Subject, found: Found) -> Audit:
        """Goes on with an erasure until it is done."""
        me = secrets.token_hex(8)
        while not found.mark.is_done:
            self._audits.keep(subject.tenant, found.mark.audit)
            if not found.mark.is_headless:
                found = self._taking.take(subject, found, me)
                continue
            if subject.takes_later_ones and head_of(self._store, subject):
                # An addition that was under way when this began has ended since.
                found, _ = marks.change(self._store, found, lambda mark: replace(mark, taker="", is_headless=False))
                continue
            there = self._there(subject, found.mark)
            if not found.mark.is_counted or not set(there).issubset(found.mark.folders):
                found = self._count(found, there)
            elif there:
                self._delete(there)
            else:
                found, _ = marks.change(self._store, found, self._done)
        self._audits.keep(subject.tenant, found.mark.audit)
        return found.mark.audit

    def _resume(self, key: str, age_s: float) -> Found | None:
        """Goes on with an erasure; returns its mark when it was done so long ago that nobody is late any more."""
        found = marks.read(self._store, key)
        if found is None:
            return None
        subject = subject_of(key)
        if not found.mark.is_done:
            if age_s >= self._taken_up_after_s:
                self._end(subject, found)
            return None
        self._taking.take_late(subject, found.mark)
        self._delete(subject.contents_of(self._store, found.mark.folders))
        for folder in found.mark.folders:
            self._forget(folder)
        self._audits.keep(subject.tenant, found.mark.audit)
        return found if age_s > self._closed_after_s else None

    def _close(self, over: Sequence[Found]) -> None:
        """Takes marks away, and before them what nothing below their folders tells of."""
        self._leaving.end_all(folder for found in over for folder in found.mark.folders)
        unchanged = {found.key for found in over if self._store.get(found.key, found.etag) is SAME}
        self._store.delete(unchanged)

    def _there(self, subject: Subject, mark: Mark) -> Contents:
        if subject.takes_later_ones:
            return subject.contents(self._store)
        return subject.contents_of(self._store, mark.folders)

    def _count(self, found: Found, there: Contents) -> Found:
        """Writes into the mark what is there, before anything of it goes."""
        known = found.mark.folders if found.mark.is_counted else ()
        new = [entry for folder, entries in there.items() if folder not in known for entry in entries]
        sizes = [(kind_of(entry.key), entry.size_bytes) for entry in new]
        for folder in set(there).difference(known):
            sizes += [("persons", size_bytes) for size_bytes in self._leaving.sizes(folder, there[folder])]
        counts = counted(sizes, found.mark.audit.counts)

        def changed(mark: Mark) -> Mark:
            return replace(with_folders(mark, there), audit=replace(mark.audit, counts=counts), is_counted=True)

        return marks.change(self._store, found, changed)[0]

    def _delete(self, there: Contents) -> None:
        for folder, entries in there.items():
            self._leaving.leave(folder, entries)
            self._store.delete([entry.key for entry in entries])
            self._forget(folder)

    def _done(self, mark: Mark) -> Mark:
        done_at_s = self._clock()
        gone_by_s = done_at_s + self._caches_s
        return replace(mark, audit=replace(mark.audit, done_at_s=done_at_s, caches_gone_by_s=gone_by_s))
