"""A store that remembers what it read, and is never behind another process by that.

What never changes (`keys.is_fixed`) is read once. Whatever can change is asked for each time by its ETag, so that a
change or an erasure elsewhere is seen at the next call; what that saves is the way of the content. Nobody can reach
what lies below the head of an identity once that is gone, and what nobody uses goes after `keep_s`.

`allowing_stale` is for calls that would rather know what was so a moment ago than nothing: in its block a store that is
away, or slow, is stood in for by what it said less than `keep_s` ago. And what the same call asked for last time is
asked for at once, not one after the other, if the store can (`Ahead`): of one that is some milliseconds away that takes
one way instead of three. The answers are used where the call really asks for them, and only there.
"""

import contextvars
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar, cast, runtime_checkable

from services.common import deadline
from services.common.errors import DeadlineExceeded, NotReady
from services.memory import keys, metrics
from services.memory.held import Copy, Held
from services.memory.records import digest_of
from services.memory.store import SAME, Entry, Object, Same, Store

PATIENCE_S = 0.5
"""Who has something to stand in for the store waits no longer for it."""

FAIR_S = PATIENCE_S / 2
"""That a store did not answer is its problem if it had so long; a call with less time left asks too much of it."""

WRITTEN_BYTES_MAX = 2**16
"""What is larger is not held when it is written: it may never be read here."""

Result = TypeVar("Result")


class _Get(NamedTuple):
    """Asks for an object that can change."""

    key: str


class _List(NamedTuple):
    """Asks for a listing."""

    folder: str
    limit: int | None
    after: str


_Request = _Get | _List
_Answer = Object | None | tuple[Entry, ...]


@runtime_checkable
class Ahead(Protocol):
    """A store that can be asked several things at once."""

    def ahead(
        self, gets: Sequence[tuple[str, str]], lists: Sequence[tuple[str, int | None, str]]
    ) -> AbstractContextManager[None]:
        """Asks for what `get` and `list`, with these arguments, will answer in the block on this thread.

        It waits for no answer and raises nothing: what went wrong is told by the method.
        """


@dataclass
class Call:
    """A call that may be answered from what was known. `stale_s` is above 0 when it was: so old is the oldest of it.

    `ahead` are the numbers with which was asked ahead.
    """

    stale_s: float = 0.0
    asked: list[_Request] = field(default_factory=list)
    ahead: dict[_Request, int] = field(default_factory=dict)


_call: contextvars.ContextVar[Call | None] = contextvars.ContextVar("call", default=None)


class Cached:
    """Satisfies `services.memory.store.Store`, over another one.

    Args:
        store: Which.
        bytes_max: So much memory the copies may take, about.
        keep_s: A copy that was not used for so long goes; nor does an older one stand in for the store.
        clock: Seconds that only grow.
    """

    def __init__(
        self,
        store: Store,
        bytes_max: int,
        keep_s: float = 60,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._ahead = store.ahead if isinstance(store, Ahead) else None
        self._clock = clock
        self._held = Held(bytes_max, keep_s, clock)
        self._problem = ""

    @contextmanager
    def allowing_stale(self, name: Hashable = None) -> Iterator[Call]:
        """Allows what this thread asks in the block to be answered from what was known.

        Args:
            name: Of the call: the next one of this name asks at once for what this one asked for.
        """
        call = Call()
        token = _call.set(call)
        copy = self._held.get(("plan", name)) if name else None
        plan = cast("tuple[_Request, ...]", copy.value) if copy else ()
        try:
            with ExitStack() as ahead:
                self._ask_ahead(call, plan, ahead)
                yield call
        finally:
            _call.reset(token)
            asked = tuple(call.asked)
            if name and asked != plan:
                size_bytes = sum(len(request[0]) + 100 for request in asked)
                self._held.keep(("plan", name), asked, size_bytes, self._held.number())

    def get(self, key: str, unless: str = "") -> Object | Same | None:
        """Returns the object; see the port."""
        if not keys.is_worth_holding(key):
            return self._watched(lambda: self._store.get(key, unless))
        found = self._fixed(key) if keys.is_fixed(key) else cast("Object | None", self._answer(_Get(key)))
        return SAME if found and unless and found.etag == unless else found

    def list(self, folder: str, limit: int | None = None, after: str = "") -> tuple[Entry, ...]:
        """Returns what is in a folder; see the port."""
        if _call.get() is None:
            return self._watched(lambda: self._store.list(folder, limit, after))
        return cast("tuple[Entry, ...]", self._answer(_List(folder, limit, after)))

    def put(self, key: str, content: bytes) -> str:
        """Writes an object; see the port."""
        return cast("str", self._write(key, content, lambda: self._store.put(key, content)))

    def create(self, key: str, content: bytes) -> str | None:
        """Writes an object where none is; see the port."""
        return self._write(key, content, lambda: self._store.create(key, content))

    def replace(self, key: str, content: bytes, etag: str) -> str | None:
        """Writes an object in the place of another; see the port."""
        return self._write(key, content, lambda: self._store.replace(key, content, etag))

    def delete(self, keys: Iterable[str]) -> None:
        """Removes objects; see the port."""
        gone = list(keys)
        if not gone:
            self._store.delete(gone)  # Not watched: a store that has nothing to delete is not asked.
            return
        try:
            self._watched(lambda: self._store.delete(gone))
        finally:
            self._held.drop(*(_Get(key) for key in gone))

    def check(self) -> None:
        """Finds out whether the store keeps what the port promises."""
        self._watched(self._store.check)

    def sweep(self) -> None:
        """Deletes what killed writers left; see the port."""
        self._store.sweep()  # Not watched: a store that has nothing to sweep is not asked.

    def close(self) -> None:
        """Frees what the store holds; the objects stay."""
        self._store.close()

    def forget(self, folder: str) -> None:
        """Holds nothing of `folder` or below it any longer."""
        self._held.drop_where(lambda name: isinstance(name, _Get | _List) and name[0].startswith(folder))

    def tidy(self) -> None:
        """Drops what nobody used for `keep_s`; call it now and then, for nobody may ask."""
        self._held.tidy()

    @property
    def problem(self) -> str:
        """Why the store did not answer when it was asked last; empty when it did."""
        return self._problem

    @property
    def held_bytes(self) -> int:
        """How much memory the copies take, about."""
        return self._held.bytes

    def _fixed(self, key: str) -> Object | None:
        """Returns what never changes."""
        call, name = _call.get(), _Get(key)
        if copy := self._held.get(name, use=not (call and call.stale_s)):
            metrics.READS.labels("held").inc()
            return cast("Object", copy.value)
        if call and call.stale_s:
            raise _unknown()
        number = self._held.number()
        found = self._watched(lambda: self._store.get(key))
        if not isinstance(found, Object):
            return None
        metrics.READS.labels("read").inc()
        if _is_whole(key, found.content):  # A damaged one would still be told of when it is repaired.
            self._held.keep(name, found, len(found.content), number)
        return found

    def _answer(self, request: _Request) -> _Answer:
        """Asks the store; in the block of `allowing_stale`, what was known stands in for it."""
        call = _call.get()
        if call is None:
            return self._ask(request)
        call.asked.append(request)
        copy = self._held.get(request, use=False)  # Asking makes what was said no younger.
        if call.stale_s:  # It was away a moment ago: this call waits for it no more.
            if copy is None:
                raise _unknown()
            return self._stale(call, copy)
        try:
            return self._patiently(request, call.ahead.pop(request, None))
        except (NotReady, DeadlineExceeded):
            if copy is None or deadline.remaining_s() == 0:
                raise
            return self._stale(call, copy)

    def _ask_ahead(self, call: Call, plan: Sequence[_Request], until: ExitStack) -> None:
        """Asks for all of a plan at once, if the store can."""
        if plan and self._ahead:
            call.ahead = dict.fromkeys(plan, self._held.number())
            gets = [(request.key, self._etag(request)) for request in plan if isinstance(request, _Get)]
            lists = [request for request in plan if isinstance(request, _List)]
            with deadline.within(PATIENCE_S):
                until.enter_context(self._ahead(gets, lists))

    def _etag(self, request: _Get) -> str:
        """Returns that of the copy."""
        copy = self._held.get(request, use=False)
        found = cast("Object | None", copy.value) if copy else None
        return found.etag if found else ""

    def _patiently(self, request: _Request, number: int | None) -> _Answer:
        """Asks the store; not for long when something can stand in for it."""
        with deadline.within(PATIENCE_S) if self._held.get(request, use=False) else nullcontext():
            return self._ask(request, number)

    def _ask(self, request: _Request, number: int | None = None) -> _Answer:
        """Asks the store; `number` is that with which it was asked ahead."""
        number = number or self._held.number()
        if isinstance(request, _List):
            listed = self._watched(lambda: self._store.list(*request))
            self._held.keep(request, listed, sum(len(entry.key) + 200 for entry in listed), number)
            return listed
        copy = self._held.get(request, use=False)
        before = cast("Object | None", copy.value) if copy else None
        found = self._watched(lambda: self._store.get(request.key, before.etag if before else ""))
        metrics.READS.labels("same" if found is SAME else "read").inc()
        now = before if isinstance(found, Same) else found
        self._held.keep(request, now, len(now.content) if now else 0, number)
        return now

    def _stale(self, call: Call, copy: Copy) -> _Answer:
        metrics.READS.labels("stale").inc()
        call.stale_s = max(call.stale_s, self._clock() - copy.known_s, 0.001)
        return cast("_Answer", copy.value)

    def _write(self, key: str, content: bytes, write: Callable[[], str | None]) -> str | None:
        if not keys.is_worth_holding(key):
            return self._watched(write)
        etag = None
        try:
            etag = self._watched(write)
        finally:
            if etag is None or len(content) > WRITTEN_BYTES_MAX:
                self._held.drop(_Get(key))
            else:
                self._held.keep(_Get(key), Object(content, etag), len(content), self._held.number())
        return etag

    def _watched(self, ask: Callable[[], Result]) -> Result:
        allowed_s = deadline.remaining_s()
        try:
            result = ask()
        except NotReady as error:
            self._told(str(error))
            raise
        except DeadlineExceeded as error:
            if allowed_s is None or allowed_s >= FAIR_S:
                self._told(str(error))
            raise
        self._told("")
        return result

    def _told(self, problem: str) -> None:
        self._problem = problem
        metrics.STORE_UP.set(0 if problem else 1)


def _unknown() -> NotReady:
    return NotReady("the memory's store is away, and nothing is known that could stand in for it; retry")


def _is_whole(key: str, content: bytes) -> bool:
    """Tells whether an object is what was written: its digest is in its name, or in its first line."""
    digest, _, body = content.partition(b"\n")
    return digest_of(content) in key or digest_of(body).encode() == digest
