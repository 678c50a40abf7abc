"""How much of its time the caller of this call still allows: for whoever waits for something, on any thread."""

import contextvars
import time
from collections.abc import Iterator
from contextlib import contextmanager

_end_s: contextvars.ContextVar[float | None] = contextvars.ContextVar("deadline_s", default=None)


def remaining_s() -> float | None:
    """Returns the seconds that the caller of this call still allows; None when it set no deadline."""
    end_s = _end_s.get()
    return None if end_s is None else max(0.0, end_s - time.monotonic())


def start(allowed_s: float | None) -> None:
    """Starts the time of the call that this context serves; None sets no deadline."""
    _end_s.set(None if allowed_s is None else time.monotonic() + allowed_s)


@contextmanager
def within(allowed_s: float) -> Iterator[None]:
    """Allows what runs in the block so many seconds, or fewer when the caller allows fewer."""
    outer_s = remaining_s()
    token = _end_s.set(time.monotonic() + (allowed_s if outer_s is None else min(allowed_s, outer_s)))
    try:
        yield
    finally:
        _end_s.reset(token)
