"""How long things are kept: set for each tenant; what is older goes with the next sweep."""

from dataclasses import fields

from services.common.errors import InvalidRequest
from services.memory import keys
from services.memory.checks import check_id
from services.memory.domain import Retention
from services.memory.records import Codec
from services.memory.store import Store, content_of

DAYS_MAX = 36_500
"""Longest time: a hundred years."""

_RETENTIONS = Codec(Retention)


class Retentions:
    """The retentions in `store`. Calls block; any thread may call."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, tenant: str) -> Retention:
        """Returns how long a tenant's things are kept: for ever, until it is set.

        Raises:
            Damaged: The stored object is not what was written; the message names it.
        """
        check_id("tenant", tenant)
        key = keys.retention(tenant)
        content = content_of(self._store.get(key))
        return Retention() if content is None else _RETENTIONS.decode(key, content)

    def set(self, tenant: str, retention: Retention) -> None:
        """Sets how long a tenant's things are kept from now on.

        Raises:
            InvalidRequest: A number of days is too large or too small.
        """
        check_id("tenant", tenant)
        for each in fields(retention):
            days = getattr(retention, each.name)
            if not 0 <= days <= DAYS_MAX:
                raise InvalidRequest(f"retention.{each.name}", f"{days} days; use 1 to {DAYS_MAX}, or 0 to set no end")
        if retention == Retention():
            self._store.delete([keys.retention(tenant)])
        else:
            self._store.put(keys.retention(tenant), _RETENTIONS.encode(retention))

    def tenants(self) -> tuple[str, ...]:
        """Returns those who have set one."""
        return tuple(entry.key.removeprefix(keys.RETENTIONS) for entry in self._store.list(keys.RETENTIONS))
