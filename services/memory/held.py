"""What a process holds in its memory for a while: bounded by bytes, gone some time after its last use."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from services.memory import metrics

COPY_BYTES = 500
"""What a copy takes beside what it holds, about."""

SHARE_MAX = 8
"""What takes more than one of so many parts of the room is not held: it would put all else out."""


@dataclass
class Copy:
    """What was said about something when it was last asked for.

    Attributes:
        value: What it was.
        size_bytes: How much memory that takes, about.
        known_s: When it was so, by the clock.
        used_s: When somebody last used it.
        order: Which of several answers it is: a later one counts.
    """

    value: object
    size_bytes: int
    known_s: float
    used_s: float
    order: int


class Held:
    """Copies by name. Any thread may call.

    Answers may come in another order than they were given in: whoever asks takes a number first, and what it brings
    is not kept when something newer is known by then.

    Args:
        bytes_max: So much memory the copies may take, about; those that were used last stay.
        keep_s: A copy that was not used for so long goes.
        clock: Seconds that only grow.
    """

    def __init__(self, bytes_max: int, keep_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._bytes_max = bytes_max
        self._keep_s = keep_s
        self._clock = clock
        self._lock = threading.Lock()
        self._copies: OrderedDict[Hashable, Copy] = OrderedDict()  # the one that was used last stands last
        self._bytes = 0
        self._numbers = 0
        self._fence = 0

    def number(self) -> int:
        """Returns the next number: whoever asks takes it before, whoever writes after."""
        with self._lock:
            self._numbers += 1
            return self._numbers

    def get(self, name: Hashable, use: bool = True) -> Copy | None:
        """Returns the copy of `name`; `use` says whether that makes it stay longer."""
        with self._lock:
            self._tidy()
            copy = self._copies.get(name)
            if copy and use:
                copy.used_s = self._clock()
                self._copies.move_to_end(name)
            return copy

    def keep(self, name: Hashable, value: object, size_bytes: int, number: int) -> None:
        """Keeps what somebody with `number` was told, if nothing newer is known."""
        size_bytes += COPY_BYTES
        with self._lock:
            before = self._copies.get(name)
            if number <= self._fence or (before and before.order > number):
                return
            self._drop(name)
            if size_bytes * SHARE_MAX <= self._bytes_max:
                now_s = self._clock()
                self._copies[name] = Copy(value, size_bytes, now_s, now_s, number)
                self._bytes += size_bytes
                metrics.HELD_BYTES.set(self._bytes)
            while self._bytes > self._bytes_max:
                self._drop(next(iter(self._copies)))
            self._tidy()

    def drop(self, *names: Hashable) -> None:
        """Drops copies; whoever is asking already brings none either."""
        with self._lock:
            self._fence = self._numbers
            for name in names:
                self._drop(name)

    def drop_where(self, meant: Callable[[Hashable], bool]) -> None:
        """Drops the copies that are meant, likewise."""
        with self._lock:
            names = [name for name in self._copies if meant(name)]
        self.drop(*names)

    def tidy(self) -> None:
        """Drops what was not used for too long; call it now and then, for nobody may ask."""
        with self._lock:
            self._tidy()

    @property
    def bytes(self) -> int:
        """How much memory the copies take, about."""
        return self._bytes

    def _tidy(self) -> None:
        end_s = self._clock() - self._keep_s
        while self._copies and next(iter(self._copies.values())).used_s <= end_s:
            self._drop(next(iter(self._copies)))

    def _drop(self, name: Hashable) -> None:
        if copy := self._copies.pop(name, None):
            self._bytes -= copy.size_bytes
            metrics.HELD_BYTES.set(self._bytes)
