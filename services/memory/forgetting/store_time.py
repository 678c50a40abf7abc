"""What time it is by the clock of a store: ages of its objects are told by that, and by no replica's own clock."""

import secrets

from services.memory.store import Store

LEFT_AFTER_S = 3600.0
"""Whoever has not deleted the object for so long by which it told the time was killed."""

_FOLDER = "probe/"


def now_s(store: Store) -> float:
    """Returns the time, Unix time: that of an object which is written now."""
    key = f"{_FOLDER}{secrets.token_hex(16)}"
    left: list[str] = []
    try:
        store.put(key, b"")
        entries = store.list(_FOLDER)
        # Its own: one that was left while the clock was ahead is of the future.
        time_s = max(entry.modified_s for entry in entries if entry.key == key)
        left = [entry.key for entry in entries if abs(time_s - entry.modified_s) > LEFT_AFTER_S]
        return time_s
    finally:
        store.delete([key, *left])
