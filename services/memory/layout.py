"""Which arrangement of keys a store has: refused is one that another version wrote, before anything is read of it."""

import json

from services.common.errors import NotReady
from services.memory import keys
from services.memory.store import Store, content_of

VERSION = 2
"""The arrangement that `keys.py` describes."""

_CONTENT = json.dumps({"version": VERSION}).encode()
_OTHERS = ("banks/", "erasing/", "identities/", "kept/", "removed/", "removing/", "retentions/", "tenants/")
"""Folders of this version and of the one before, which said nothing of its arrangement."""


class WrongLayout(NotReady):
    """The store is another version's."""


def check_layout(store: Store) -> None:
    """Writes into an empty store which arrangement it has; looks in one that is not empty.

    Raises:
        WrongLayout: It has another one, or objects and none; the message says what to do.
    """
    content = content_of(store.get(keys.LAYOUT))
    if content is None:
        for folder in _OTHERS:
            # Asked for again: another replica may have begun meanwhile.
            if store.list(folder, limit=1) and store.get(keys.LAYOUT) is None:
                raise WrongLayout(
                    f"the memory's store has objects in {folder!r} and no object {keys.LAYOUT!r}: an earlier version"
                    " wrote them, and this one cannot read them; use an empty store, or that version"
                )
        store.create(keys.LAYOUT, _CONTENT)
        content = content_of(store.get(keys.LAYOUT))
    if content != _CONTENT:
        raise WrongLayout(
            f"the memory's store says {content!r} in the object {keys.LAYOUT!r}, where this version needs"
            f" {_CONTENT.decode()}; use the version that wrote it, or an empty store"
        )
