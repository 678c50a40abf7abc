"""Whether somebody still waits, as models ask it."""

import itertools
from collections.abc import Callable


def never() -> bool:
    return False


def after(count: int) -> Callable[[], bool]:
    """Returns what says yes from the `count`th time on that it is asked."""
    times = itertools.count(1)
    return lambda: next(times) >= count
