"""Keeps a native library's hands off the process's signal handlers."""

import ctypes
import signal
from collections.abc import Iterator
from contextlib import contextmanager

SIGACTION_BYTES = 256
"""Room for a `struct sigaction`; on Linux it takes 152 bytes at most."""


@contextmanager
def kept(*numbers: signal.Signals) -> Iterator[None]:
    """Puts the handlers of `numbers` back, as they were, when the block ends.

    llama.cpp's server installs its own handlers for SIGINT and SIGTERM while it loads, which would take the
    orderly stop away from this process. `signal.signal` cannot undo that (it works in the main thread only, and
    Python's own record never changed), so the C structures are saved and restored as they are.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    saved = {number: ctypes.create_string_buffer(SIGACTION_BYTES) for number in numbers}
    for number, action in saved.items():
        libc.sigaction(int(number), None, action)
    try:
        yield
    finally:
        for number, action in saved.items():
            libc.sigaction(int(number), action, None)
