"""A page of a tenant's identities: those that can be read, and what is wrong with the others."""

import logging
from dataclasses import dataclass

from services.common.errors import Damaged
from services.memory import keys
from services.memory.checks import check_id
from services.memory.domain import Identity
from services.memory.registry.heads import identity_in
from services.memory.store import Entry, Store, content_of

PAGE_BYTES_MAX = 2**20
"""At most so many bytes of heads are read for a page, so that it fits into one message; one always is."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DamagedIdentity:
    """An identity whose head is not what was written. `problem` says what is wrong, and names the object."""

    id: str
    problem: str


@dataclass(frozen=True)
class Page:
    """Identities of a page and those that are damaged, each by id; the next page is `after` this id, "" for none."""

    identities: tuple[Identity, ...]
    damaged: tuple[DamagedIdentity, ...]
    following: str


def page_of(store: Store, tenant: str, page_size: int, after: str) -> Page:
    """Returns the page behind the id `after`; `page_size` counts the damaged ones too.

    A page ends early when there is much to say of its identities; the last one is followed by "".

    Raises:
        InvalidRequest: `tenant` is no name, or `after` is none.
    """
    check_id("tenant", tenant)
    if after:
        check_id("page_token", after)
    folder = keys.heads(tenant)
    entries = store.list(folder, limit=page_size + 1, after=folder + after if after else "")
    identities: list[Identity] = []
    damaged: list[DamagedIdentity] = []
    left_bytes, last = PAGE_BYTES_MAX, after
    for entry in entries:
        left_bytes -= entry.size_bytes
        count = len(identities) + len(damaged)
        if count == page_size or (count and left_bytes < 0):
            return Page(tuple(identities), tuple(damaged), last)
        last = entry.key.removeprefix(folder)
        try:
            identities += _read(store, entry)
        except Damaged as error:
            damaged.append(DamagedIdentity(last, str(error)))
            log.error("an identity is damaged", extra={"identity": last, "why": str(error)})
    return Page(tuple(identities), tuple(damaged), last if len(entries) > page_size else "")


def _read(store: Store, entry: Entry) -> tuple[Identity, ...]:
    """Returns the identity; nothing when it was erased since the listing."""
    content = content_of(store.get(entry.key))
    return () if content is None else (identity_in(entry.key, content),)
