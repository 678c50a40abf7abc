"""Reads the clock of the event loop, which tests may replace."""

import asyncio


def now_s() -> float:
    """Return the running loop's time: monotonic, in seconds from an arbitrary point."""
    return asyncio.get_running_loop().time()
