"""Remembers the last few results of expensive work, by key."""

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
    """

    def __init__(self, room: int, size_of: Callable[[Value], int] = lambda _: 1) -> None:
        self._room = room
        self._size_of = size_of
        self._values: OrderedDict[Key, Value] = OrderedDict()

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """Returns the value of `key`, made now if it is not kept."""
        value = self._values.pop(key) if key in self._values else make()
        if self._size_of(value) <= self._room:
            self._values[key] = value
        while sum(map(self._size_of, self._values.values())) > self._room:
            self._values.popitem(last=False)
        return value

    def forget(self, which: Callable[[Key], bool]) -> None:
        """Drops the values whose key is meant."""
        for key in [key for key in self._values if which(key)]:
            del self._values[key]

    def __contains__(self, key: Key) -> bool:
        return key in self._values
