"""A small memory whose store has a clock of its own, and which is swept."""

from collections.abc import Callable

import pytest

from services.memory.domain import Retention
from services.memory.forgetting.erasing import Eraser
from services.memory.forgetting.expiring import Expired
from services.memory.forgetting.retention import Retentions
from services.memory.forgetting.sweeping import Sweeper
from tests.fake_store import FakeStore
from tests.talking import TENANT, Clock, Killed, Replica, killed_at

DAY_S = 86_400.0
STEPS_MAX = 300


class House:
    """A memory whose store has a clock of its own, and a sweeper that looks for what is old each time."""

    def __init__(self) -> None:
        self.time = Clock()
        self.store = FakeStore(self.time)
        self.memory = Replica(self.store, self.time)
        self.memory.add()

    def keep(self, tenant: str = TENANT, /, **days: int) -> None:
        Retentions(self.store).set(tenant, Retention(**days))

    def pass_days(self, days: float) -> None:
        self.time.now_s += days * DAY_S

    def sweeper(self, clock: Clock | None = None) -> Sweeper:
        eraser = Eraser(self.store, 70, clock=self.time)
        return Sweeper(self.store, eraser, self.memory.vectors, clock or Clock())

    def sweep(self) -> Expired:
        return self.sweeper().run_once()


def steps(begun: Callable[[], House], work: Callable[[House], object], then: Callable[[House, bool], object]) -> int:
    """Kills `work` before each of its steps, on a memory of its own; returns how many there are.

    `then` is told whether it was killed.
    """
    for step in range(STEPS_MAX):
        house = begun()
        killed = killed_at(house.store, step, lambda house=house: work(house))  # type: ignore[misc]
        then(house, killed)
        if not killed:
            return step
    pytest.fail("it never ended")


def die_at(operation: str, part: str) -> Callable[[str, str], None]:
    """To be called before each operation of a store: ends the process before that on a key with this part."""

    def before(done: str, key: str) -> None:
        if done == operation and part in key:
            raise Killed

    return before
