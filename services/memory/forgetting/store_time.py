"""What time it is by the clock of a store: ages of its objects are told by that, and by no replica's own clock."""

import secrets

from services.memory.store import Store

_FOLDER = "probe/"


def now_s(store: Store) -> float:
    """Returns the time, Unix time: that of an object which is written now."""
    key = f"{_FOLDER}{secrets.token_hex(16)}"
    try:
        store.put(key, b"")
        return max(entry.modified_s for entry in store.list(_FOLDER))
    finally:
        store.delete([key])
