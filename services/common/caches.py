"""Remembers the last few results of expensive work, by key."""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class LastUsed(Generic[Key, Value]):
    """Keeps the values that were used last. Not for several threads at once.

    Args:
        room: How much is kept.
        size_of: How much of it a value takes; one each unless told. One that is larger than the room is not kept.
        keep_s: How long a value is kept after it was used last; for ever unless told.
        clock: Tells the time in seconds.
    """

    def __init__(
        self,
        room: int,
        size_of: Callable[[Value], int] = lambda _: 1,
        keep_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._room = room
        self._size_of = size_of
        self._keep_s = keep_s
        self._clock = clock
        self._values: OrderedDict[Key, tuple[Value, float]] = OrderedDict()

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """Returns the value of `key`, made now if it is not kept."""
        self.drop_unused()
        value = self._values.pop(key)[0] if key in self._values else make()
        if self._size_of(value) <= self._room:
            self._values[key] = (value, self._clock())
        while sum(self._size_of(kept) for kept, _ in self._values.values()) > self._room:
            self._values.popitem(last=False)
        return value

    def find(self, key: Key) -> Value | None:
        """Returns the value of `key`, None if it is not kept."""
        self.drop_unused()
        if key not in self._values:
            return None
        value, _ = self._values.pop(key)
        self._values[key] = (value, self._clock())
        return value

    def forget(self, which: Callable[[Key], bool]) -> None:
        """Drops the values whose key is meant."""
        for key in [key for key in self._values if which(key)]:
            del self._values[key]

    def drop_unused(self) -> float | None:
        """Drops what was not used for `keep_s`; returns the seconds until there is more to drop, None for never.

        Every use does so; for values that shall go although nobody asks, call it when it says.
        """
        if self._keep_s is None:
            return None
        while self._values:
            _, used_s = next(iter(self._values.values()))
            left_s = used_s + self._keep_s - self._clock()
            if left_s > 0:
                return left_s
            self._values.popitem(last=False)
        return None

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: Key) -> bool:
        self.drop_unused()
        return key in self._values
