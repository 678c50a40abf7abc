"""Who may ask a store that says nothing: one request at a time. All others are refused at once, and hold no thread.

A store that answers is asked by everybody. One that hangs is found by a request that waited for at least `silent_s`
while nobody else heard anything either; a slow store, and one that loses a single answer, is not. From then on one
patient request may ask (one that can wait for `silent_s`), and beside it an impatient one and a large upload, which
takes its time also at a store that is well; each that fails is followed by none of its kind for `PAUSE_S`. The first
answer to anybody ends it.
"""

import math
import threading
import time
from bisect import bisect
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from services.common.errors import NotReady

PAUSE_S = 1.0
"""A store that hung is asked again so long after a request in vain."""


VAIN_MIN = 2
"""So many requests in vain, one after the other or at once: a single answer that gets lost says nothing."""

UPLOAD_SHARE = 3
"""Who may wait for so many times `silent_s` sends much."""


class Silent(NotReady):
    """The store did not answer another request just now; this one was not sent."""


class Silence:
    """Knows whether a store hangs. Any thread may ask.

    Args:
        store: What it is called in messages.
        silent_s: A store that says nothing to anybody for so long hangs.
        clock: Seconds that only grow.
    """

    def __init__(self, store: str, silent_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._silent_s, self._clock = store, silent_s, clock
        self._lock = threading.Lock()
        self._is_on = False
        self._heard_s = -math.inf
        self._vain = 0
        self._barred_until_s = [0.0, 0.0, 0.0]
        """When the next request may ask, impatient, patient or large; endless while one does."""

    @property
    def is_on(self) -> bool:
        """Whether the store hangs."""
        return self._is_on

    @contextmanager
    def asking(self, wait_s: float) -> Iterator[None]:
        """Asks in the block, which fails when there is no answer in `wait_s`.

        Raises:
            Silent: The store hangs, and another request tries it.
        """
        kind = bisect((self._silent_s, UPLOAD_SHARE * self._silent_s), wait_s)
        is_trying = self._admit(kind)
        try:
            with self.listening():
                yield
        except BaseException:
            if is_trying:
                with self._lock:
                    self._barred_until_s[kind] = self._clock() + PAUSE_S
            raise

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Waits in the block for an answer to what was sent before."""
        begun_s = self._clock()
        try:
            yield
        except BaseException:
            with self._lock:
                waited_s = self._clock() - begun_s
                if not self._is_on and waited_s >= self._silent_s and self._heard_s <= begun_s:
                    self._vain += 1
                    self._is_on = self._vain >= VAIN_MIN
                    # Nobody is barred yet: who waited in vain may ask again, in case only its own answer got lost.
                    self._barred_until_s = [0.0, 0.0, 0.0]
            raise
        with self._lock:
            self._heard_s = self._clock()
            self._vain = 0
            self._is_on = False

    def _admit(self, kind: int) -> bool:
        """Returns whether this request tries a store that hangs."""
        with self._lock:
            if not self._is_on:
                return False
            if self._clock() < self._barred_until_s[kind]:
                raise Silent(
                    f"{self._store} did not answer just now; one request tries it, and until that is answered all"
                    " others are refused; retry"
                )
            self._barred_until_s[kind] = math.inf
            return True
