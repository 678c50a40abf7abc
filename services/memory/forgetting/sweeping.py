"""What every replica does now and then: ends what was cut short, and deletes what is too old."""

import time
from collections.abc import Callable, Iterator
from itertools import islice
from math import inf

from services.memory.forgetting.erasing import Eraser
from services.memory.forgetting.expiring import Expired, Expiring
from services.memory.registry.additions import Additions
from services.memory.registry.example_changes import ExampleChanges
from services.memory.store import Store
from services.memory.vectors.index import Vectors

EXPIRING_EVERY_S = 3600.0
"""A replica begins to look for what is too old at most so often."""

STEPS_A_SWEEP = 500
"""So many identities at most are looked at in one sweep; the next one goes on."""


class Sweeper:
    """Sweeps `store`. One thread calls at a time.

    Args:
        store: Where everything is.
        eraser: Erases.
        vectors: The rows by which turns are found.
        clock: Monotonic, in seconds.
    """

    def __init__(
        self, store: Store, eraser: Eraser, vectors: Vectors, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._eraser = eraser
        self._additions = Additions(store)
        self._changes = ExampleChanges(store, vectors)
        self._expiring = Expiring(store, vectors)
        self._clock = clock
        self._steps: Iterator[Expired] = iter(())
        self._next_s = -inf

    def run_once(self) -> Expired:
        """Sweeps once; what cannot be read is logged.

        Returns:
            How much was too old.

        Raises:
            NotReady: The store cannot be reached; the next sweep begins again.
        """
        self._store.sweep()
        self._eraser.resume()
        self._additions.resume()
        self._changes.resume()
        try:
            done = list(islice(self._steps, STEPS_A_SWEEP))
            if not done and self._clock() >= self._next_s:
                self._next_s = self._clock() + EXPIRING_EVERY_S
                self._steps = self._expiring.steps()
                done = list(islice(self._steps, STEPS_A_SWEEP))
        except BaseException:
            self._next_s = -inf
            raise
        return Expired(sum(each.objects for each in done), sum(each.failures for each in done))
