"""The records of what was erased. They name it, and hold nothing of it."""

import re

from services.common.errors import InvalidRequest
from services.memory import keys
from services.memory.checks import check_id
from services.memory.domain import Audit
from services.memory.records import Codec
from services.memory.store import Store, content_of

PAGE_MAX = 200
"""Longest page."""

_LAST_MS = 10**14 - 1
"""From here the milliseconds are counted down, so that the newest record has the smallest key; the year is 5138."""

_AUDITS = Codec(Audit)
_TOKEN = re.compile(r"[0-9]{14}-[0-9a-f]{16}\Z")


class Audits:
    """The records in `store`. Calls block; any thread may call."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def keep(self, tenant: str, audit: Audit) -> None:
        """Writes a record, in the place of what it was before."""
        key, content = keys.audits(tenant) + _name(audit), _AUDITS.encode(audit)
        if content_of(self._store.get(key)) != content:
            self._store.put(key, content)

    def list(self, tenant: str, page_size: int, after: str = "") -> tuple[tuple[Audit, ...], str]:
        """Returns at most `page_size` (1 to 200) records, the newest first, and what the next page is `after`.

        Raises:
            InvalidRequest: `after` is not what a page returned, or the page is too long.
            Damaged: A record is not what was written; the message names it.
        """
        check_id("tenant", tenant)
        if not 1 <= page_size <= PAGE_MAX:
            raise InvalidRequest("page_size", f"{page_size}; use 1 to {PAGE_MAX}")
        if after and not _TOKEN.match(after):
            raise InvalidRequest("page_token", f"{after[:80]!a} is none; use what the last page returned")
        folder = keys.audits(tenant)
        entries = self._store.list(folder, limit=page_size + 1, after=folder + after if after else "")
        names = [entry.key for entry in entries[:page_size]]
        read = ((key, content_of(self._store.get(key))) for key in names)
        audits = tuple(_AUDITS.decode(key, content) for key, content in read if content is not None)
        return audits, names[-1].removeprefix(folder) if len(entries) > page_size else ""


def _name(audit: Audit) -> str:
    return f"{_LAST_MS - int(audit.begun_at_s * 1000):014d}-{audit.id}"
