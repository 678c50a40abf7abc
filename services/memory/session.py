"""An open transaction: the few statements that repositories are made of."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Executable, Row, Table, and_, delete, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from services.common import idempotency
from services.common.errors import InvalidRequest
from services.memory.schema import requests, tenants

Value = TypeVar("Value")


class InterferedError(Exception):
    """Another transaction changed what this one has read; the next try sees it."""


@dataclass(frozen=True)
class Session:
    """An open transaction of one tenant; empty for maintenance across tenants.

    `key` identifies the write: it is the same when its transaction runs again, or when the caller retries it.
    """

    connection: AsyncConnection
    tenant: str
    key: str = ""

    @property
    def is_postgresql(self) -> bool:
        """Tell whether the engine is PostgreSQL."""
        return self.connection.dialect.name == "postgresql"

    async def rows(self, statement: Executable, values: Any = None) -> Sequence[Row[Any]]:
        """Return all rows of a statement."""
        return (await self.connection.execute(statement, values)).all()

    async def value(self, statement: Executable) -> Any:
        """Return the first column of the first row, None without one."""
        return await self.connection.scalar(statement)

    async def run(self, statement: Executable, values: Any = None) -> int:
        """Run a statement and return the number of rows that it changed."""
        return (await self.connection.execute(statement, values)).rowcount

    def mine(self, table: Table, **values: Any) -> ColumnElement[bool]:
        """Return the condition for the tenant's rows with these values."""
        return by(table, tenant=self.tenant, **values)

    async def find(self, table: Table, *, is_locking: bool = False, **values: Any) -> Any:
        """Return the tenant's row with these values, None without one; `is_locking` holds it until the commit."""
        statement = select(table).where(self.mine(table, **values))
        # Rows that refer to it may still be added beside, as long as its key stays.
        statement = statement.with_for_update(key_share=True) if is_locking else statement
        return (await self.connection.execute(statement)).first()

    async def find_to_delete(self, table: Table, **values: Any) -> Any:
        """Return and lock the tenant's row with these values, None without one.

        Unlike `find`, it waits for transactions that add rows which refer to it, and lets no other begin.
        """
        statement = select(table).where(self.mine(table, **values)).with_for_update()
        return (await self.connection.execute(statement)).first()

    async def add(self, table: Table, **values: Any) -> Any:
        """Insert a row of the tenant and return its primary key."""
        statement = insert(table).values(tenant=self.tenant, **values)
        return (await self.connection.execute(statement)).inserted_primary_key[0]  # type: ignore[index]

    async def add_new(self, table: Table, **values: Any) -> int:
        """Insert a row that is not there yet by any unique constraint; return how many were new."""
        dialect = postgresql if self.is_postgresql else sqlite
        return await self.run(dialect.insert(table).values(values).on_conflict_do_nothing())

    async def change(self, table: Table, condition: ColumnElement[bool], **values: Any) -> int:
        """Change rows and return how many."""
        return await self.run(update(table).where(condition).values(**values))

    async def drop(self, table: Table, *conditions: ColumnElement[bool], **values: Any) -> int:
        """Delete the tenant's rows with these values and return how many."""
        return await self.run(delete(table).where(self.mine(table, **values), *conditions))

    async def ensure_tenant(self) -> None:
        """Insert the tenant when it has no row yet."""
        await self.add_new(tenants, tenant=self.tenant)

    async def outcome(self, is_whole: bool = True) -> Any:
        """Return the outcome of this write when it was committed before; None the first time.

        Raises:
            InvalidRequest: The request, if `is_whole`, is not the one that was sent with this key before.
        """
        found = await self.value(select(requests.c.outcome).where(self.mine(requests, key=self.key)))
        if not isinstance(found, dict):
            return found  # An earlier release recorded it.
        if is_whole and found["asked"] != idempotency.asked():
            problem = "another request was sent with this key before; send each request with a key of its own"
            raise InvalidRequest(idempotency.HEADER, problem)
        return found["outcome"]

    async def record(self, outcome: Any, now_s: float) -> None:
        """Record the outcome of this write: ids and numbers, nothing that an erasure would have to find."""
        found = {"asked": idempotency.asked(), "outcome": outcome}
        await self.add(requests, key=self.key, outcome=found, done_at_s=now_s)


def by(table: Table, **values: Any) -> ColumnElement[bool]:
    """Return the condition for rows with these values."""
    return and_(
        *(table.c[name].is_(None) if value is None else table.c[name] == value for name, value in values.items())
    )


def read_as(kind: type[Value], row: Any, **others: Any) -> Value:
    """Return a dataclass of the columns that have its fields' names; `others` are fields without a column."""
    value: Value = _adapter(kind).validate_python({**row._mapping, **others})  # type: ignore[arg-type]
    return value


@cache
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
