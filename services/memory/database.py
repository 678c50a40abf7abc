"""Transactions of the memory's database: one tenant each, retried when the database asks for it, errors named."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote
from uuid import uuid4

import asyncpg
from sqlalchemy import Executable, Row, event, text
from sqlalchemy import exc as sql
from sqlalchemy.engine import URL, Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from services.common import idempotency
from services.common.errors import Damaged, DeadlineExceeded, NotReady, Overloaded, ServiceError
from services.memory import metrics
from services.memory.settings import DatabaseSettings

Result = TypeVar("Result")

ATTEMPTS = 4
"""A transaction is tried so often where the database says that another try may succeed."""

RETRY_S = 0.05
"""Wait before the second try; it doubles."""

_LOST = ("08", "57P")  # connection exceptions; the server shuts down, crashed, or starts
_AGAIN = ("40001", "40P01")  # serialisation failure, deadlock
_TENANT = text(
    "SELECT set_config('e3rg.tenant', :tenant, true), set_config('e3rg.maintenance', :maintenance, true),"
    " set_config('statement_timeout', :timeout, true)"
)

log = logging.getLogger(__name__)


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
        """Whether the engine is PostgreSQL."""
        return self.connection.dialect.name == "postgresql"

    async def rows(self, statement: Executable, values: Any = None) -> Sequence[Row[Any]]:
        """Return all rows of a statement."""
        return (await self.connection.execute(statement, values)).all()

    async def first(self, statement: Executable, values: Any = None) -> Row[Any] | None:
        """Return the first row of a statement, None without one."""
        return (await self.connection.execute(statement, values)).first()

    async def scalar(self, statement: Executable) -> Any:
        """Return the first column of the first row, None without one."""
        return await self.connection.scalar(statement)

    async def inserted(self, statement: Executable) -> Any:
        """Insert one row and return its primary key."""
        return (await self.connection.execute(statement)).inserted_primary_key[0]  # type: ignore[index]

    async def run(self, statement: Executable, values: Any = None) -> int:
        """Run a statement and return the number of rows that it changed."""
        return (await self.connection.execute(statement, values)).rowcount


class Database:
    """SQLite in one file, or PostgreSQL.

    Reads and writes raise `NotReady` when the database cannot be reached, `Overloaded` when its disk is full or all
    connections are busy, `DeadlineExceeded` when a statement took too long; beside what their work raises.

    Args:
        settings: Where it is and how to connect.

    Attributes:
        problem: Why the last transaction could not reach the database; empty when it could.
    """

    def __init__(self, settings: DatabaseSettings) -> None:
        self.problem = ""
        self._timeout_s = settings.database_timeout_s
        self.engine = engine_of(settings, settings.url)
        # SQLite has one writer at a time: within the process they queue here instead of polling its lock.
        self._writer = asyncio.Lock() if self.engine.dialect.name == "sqlite" else None

    async def read(self, tenant: str, work: Callable[[Session], Awaitable[Result]]) -> Result:
        """Return what `work` reads in one transaction; it may run several times."""
        return await self._tried(tenant, work, is_writing=False)

    async def write(self, tenant: str, work: Callable[[Session], Awaitable[Result]]) -> Result:
        """Return what `work` returns once its transaction is committed.

        It may run several times, also after a commit whose answer was lost: it must find its own rows then.
        """
        return await self._tried(tenant, work, is_writing=True)

    async def maintain(self, work: Callable[[Session], Awaitable[Result]]) -> Result:
        """Return what `work` returns, in a writing transaction across tenants."""
        return await self.write("", work)

    async def named(self, call: Callable[[], Awaitable[Result]]) -> Result:
        """Return what `call` returns; what the database has against it is named as in a transaction."""
        try:
            return await call()
        except (sql.SQLAlchemyError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
            raise translated(error)[0] from error

    async def forget_deleted(self) -> None:
        """On SQLite, truncate the write-ahead log: it still holds what was deleted. A reader beside may prevent it."""
        if self._writer:
            with suppress(sql.SQLAlchemyError):
                async with self._writer, self.engine.connect() as plain:
                    connection = await plain.execution_options(e3rg_begin="")
                    await connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")

    async def close(self) -> None:
        """Close all connections."""
        await self.engine.dispose()

    async def _tried(self, tenant: str, work: Callable[[Session], Awaitable[Result]], is_writing: bool) -> Result:
        wait_s, key = RETRY_S, idempotency.key() or uuid4().hex
        for attempt in range(1, ATTEMPTS + 1):
            try:
                async with asyncio.timeout(self._timeout_s * 2), self._transaction(tenant, is_writing, key) as session:
                    result = await work(session)
            except (sql.SQLAlchemyError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
                problem, is_worth_retrying = translated(error)
                if is_worth_retrying and attempt < ATTEMPTS:
                    await asyncio.sleep(wait_s)
                    wait_s *= 2
                    continue
                if isinstance(problem, NotReady | DeadlineExceeded):
                    self._told(str(problem))
                raise problem from error
            self._told("")
            return result
        raise AssertionError("unreachable")

    @asynccontextmanager
    async def _transaction(self, tenant: str, is_writing: bool, key: str) -> AsyncIterator[Session]:
        async with self._writer if is_writing and self._writer else nullcontext(), self.engine.connect() as plain:
            connection = await plain.execution_options(e3rg_begin="BEGIN IMMEDIATE" if is_writing else "BEGIN")
            async with connection.begin():
                if connection.dialect.name == "postgresql":
                    timeout = str(round(self._timeout_s * 1000))
                    values = {"tenant": tenant, "maintenance": "" if tenant else "on", "timeout": timeout}
                    await connection.execute(_TENANT, values)
                yield Session(connection, tenant, key)

    def _told(self, problem: str) -> None:
        self.problem = problem
        metrics.DATABASE_UP.set(0 if problem else 1)


def engine_of(settings: DatabaseSettings, url: URL, creates: bool = False) -> AsyncEngine:
    """Return an engine for a URL with the settings' pool, certificate and password file.

    A file of SQLite is made only where `creates`: later, a missing one is a volume that is not mounted.
    """
    if url.get_backend_name() == "sqlite":
        mode = "rwc" if creates else "rw"
        url = url.set(database=f"file:{quote(url.database or '')}", query={"mode": mode, "uri": "true"})
        engine = create_async_engine(url, pool_size=settings.database_connections, max_overflow=0)
        event.listen(engine.sync_engine, "connect", _open_sqlite)
        event.listen(engine.sync_engine, "begin", _begin_sqlite)
        return engine
    arguments: dict[str, Any] = {"timeout": settings.database_timeout_s, "command_timeout": settings.database_timeout_s}
    query = {name: str(value) for name, value in url.query.items()}
    mode, authorities = query.pop("sslmode", ""), query.pop("sslrootcert", "")
    if settings.database_ca_file or mode == "verify-full":
        arguments["ssl"] = ssl.create_default_context(cafile=str(settings.database_ca_file or authorities) or None)
    elif mode:
        arguments["ssl"] = mode
    if not settings.database_prepared:  # PgBouncer in transaction mode
        arguments |= {"statement_cache_size": 0, "prepared_statement_cache_size": 0}
        arguments["prepared_statement_name_func"] = lambda: f"e3rg_{uuid4().hex}"
    engine = create_async_engine(
        url.set(query=query),
        connect_args=arguments,
        pool_size=settings.database_connections,
        max_overflow=0,
        pool_timeout=settings.database_timeout_s,
        # Another replica's erasure or a restart must not wait for a connection that was opened long ago.
        pool_recycle=1800,
    )
    if password_file := settings.database_password_file:
        event.listen(engine.sync_engine, "do_connect", _with_password(password_file))
    return engine


def translated(error: Exception) -> tuple[ServiceError | Exception, bool]:  # noqa: PLR0911  # one line a case
    """Return the error for callers, and whether another try may succeed."""
    origin = getattr(error, "orig", None) or error
    state, name = str(getattr(origin, "sqlstate", "") or ""), str(getattr(origin, "sqlite_errorname", "") or "")
    reason = " ".join(str(origin).split("\n")[0].split()) or type(origin).__name__
    reason = reason.removeprefix("<class 'asyncpg.exceptions.").replace("Error'>: ", ": ")
    if isinstance(error, sql.IntegrityError):
        return error, True  # Somebody else wrote first: the next try sees it and names what is wrong.
    if isinstance(error, sql.TimeoutError):
        return Overloaded("all connections to the memory's database are busy; retry in 1 s", 1.0), False
    if state == "53100" or name == "SQLITE_FULL":
        problem = f"the disk of the memory's database is full ({reason}); nothing of this call is kept, reads go on"
        return Overloaded(f"{problem}; make room on it, see docs/memory.md", None), False
    if state == "57014":
        return DeadlineExceeded(f"the memory's database took too long ({reason})"), False
    if state in _AGAIN or name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return NotReady(f"the memory's database is busy ({reason}); retry"), True
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return Damaged(f"the memory's database is damaged: {reason}; restore it from a backup"), False
    lost = state.startswith(_LOST) or state == "53300" or bool(getattr(error, "connection_invalidated", False))
    is_away = isinstance(origin, OSError | asyncpg.InterfaceError | TimeoutError)
    if lost or is_away or isinstance(error, sql.InterfaceError):
        return NotReady(f"the memory's database cannot be reached: {reason}; retry"), True
    if state.startswith("28") or name.startswith(("SQLITE_CANTOPEN", "SQLITE_IOERR", "SQLITE_READONLY")):
        return NotReady(f"the memory's database refuses: {reason}"), False
    return error, False


def _open_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # Transactions begin in `_begin_sqlite`.
    cursor = connection.cursor()
    # FULL: a commit that was acknowledged survives the loss of power.
    for pragma in (
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
        "secure_delete=ON",
        "busy_timeout=5000",
        "cache_size=-16000",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    if statement := connection.get_execution_options().get("e3rg_begin", "BEGIN"):
        connection.exec_driver_sql(statement)


def _with_password(file: Path) -> Callable[[Any, Any, list[Any], dict[str, Any]], None]:
    def connect(_: Any, __: Any, ___: list[Any], parameters: dict[str, Any]) -> None:
        # Read at each connection: a rotated password counts from the next one on.
        parameters["password"] = file.read_text("utf-8").strip()

    return connect
