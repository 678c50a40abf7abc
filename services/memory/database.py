"""Database transactions: one tenant each, retried where the engine asks for it, errors named."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote
from uuid import uuid4

import asyncpg
from sqlalchemy import Executable, Row, event, text
from sqlalchemy import exc as sql
from sqlalchemy.engine import URL, Connection, ExceptionContext
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from services.common import idempotency
from services.common.errors import Damaged, DeadlineExceeded, NotReady, Overloaded, ServiceError
from services.memory import metrics
from services.memory.session import InterferedError, Session
from services.memory.settings import DatabaseSettings

Result = TypeVar("Result")

ATTEMPTS, RETRY_S = 4, 0.05
"""A transaction is tried so often where another try may succeed; the wait before the second one, which doubles."""

ERRORS = (InterferedError, sql.SQLAlchemyError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError)
"""Errors of the engines and their drivers; a connection that cannot be opened raises plain errors."""

_READ_ONLY = "25006"
_UNUSABLE = (_READ_ONLY, "3D000", "55000")
"""States of a database that only reads, is unknown, or accepts no connections."""

_PRAGMAS = (
    *("journal_mode=WAL", "foreign_keys=ON", "secure_delete=ON", "busy_timeout=5000", "cache_size=-16000"),
    "synchronous=FULL",  # A commit that was acknowledged survives the loss of power.
)
_TENANT = text(
    "SELECT set_config('e3rg.tenant', :tenant, true), set_config('e3rg.maintenance', :maintenance, true),"
    " set_config('statement_timeout', :timeout, true)"
)


class Works:
    """Works whose end is waited for, also when their callers are cancelled."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def finished(self, work: Coroutine[Any, Any, Result], is_cancelled: bool = False) -> Result:
        """Return what `work` returns.

        When the caller is cancelled, however often, the end of the work is waited for; with `is_cancelled` it is
        cancelled too, once.
        """
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if is_cancelled:
                task.cancel()
            while not task.done():
                with suppress(asyncio.CancelledError):  # gRPC cancels a call twice that is reading.
                    await asyncio.wait([task])
            if not task.cancelled():
                task.exception()  # Nobody else wants it any more.
            raise

    async def ended(self) -> None:
        """Return when no work is left."""
        while self._tasks:
            await asyncio.wait(self._tasks)


class Database:
    """SQLite in one file, or PostgreSQL.

    Reads and writes raise `NotReady` when the database cannot be reached, `Overloaded` when its disk is full or all
    connections are busy, `DeadlineExceeded` when a statement took too long; beside what their work raises.

    Attributes:
        problem: Why the last transaction could not reach the database; empty when it could.
        is_rewritten: Whether the last `forget_deleted` came to its end.
    """

    def __init__(self, settings: DatabaseSettings) -> None:
        self.problem, self.is_rewritten = "", True
        self._timeout_s = settings.database_timeout_s
        self._works = Works()
        self.engine = engine_of(settings, settings.url)
        self.is_embedded = self.engine.dialect.name == "sqlite"
        # SQLite has one writer at a time: within the process they queue here instead of polling its lock.
        self._writer = asyncio.Lock()
        # A single statement is a transaction of its own there, and each step saved is a change of threads.
        self._reader = engine_of(settings, settings.url, is_reader=True) if self.is_embedded else self.engine

    async def read(self, tenant: str, work: Callable[[Session], Awaitable[Result]]) -> Result:
        """Return what `work` reads in one transaction; it may run several times."""
        return await self.tried(lambda: self._worked(tenant, work, idempotency.key(), "BEGIN"))

    async def write(self, tenant: str, work: Callable[[Session], Awaitable[Result]]) -> Result:
        """Return what `work` returns once its transaction is committed; without a tenant it is maintenance of all.

        It may run several times, also after a commit whose answer was lost: it must find its own rows then.
        """
        key = idempotency.key() or uuid4().hex
        return await self.tried(lambda: self._worked(tenant, work, key, "BEGIN IMMEDIATE"))

    async def rows(self, tenant: str, statement: Executable, values: Any = None) -> Sequence[Row[Any]]:
        """Return the rows of one statement; without a tenant, those of all."""
        if not self.is_embedded:
            return await self.read(tenant, lambda session: session.rows(statement, values))

        async def read() -> Sequence[Row[Any]]:
            async with self._reader.connect() as connection:
                return (await connection.execute(statement, values)).all()

        return await self.tried(read)

    async def run(self, tenant: str, statement: Executable) -> int:
        """Run one writing statement and return the number of rows that it changed."""
        return await self.write(tenant, lambda session: session.run(statement))

    async def forget_deleted(self) -> None:
        """On SQLite, rewrite the file and truncate its log: both still hold copies of what was deleted.

        `secure_delete` misses the copies that b-tree pages keep of rows that moved to other pages. A transaction of
        another process may prevent it; the next sweep tries again.
        """
        if self.is_embedded:
            self.is_rewritten = False
            with suppress(sql.SQLAlchemyError):
                async with self._writer, self._reader.connect() as connection:
                    await connection.exec_driver_sql("VACUUM")
                    log = await connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
                    self.is_rewritten = not log.scalar_one()

    async def close(self) -> None:
        """Close all connections, those of calls that were cancelled once these have ended."""
        await self._works.ended()
        await self.engine.dispose()
        await self._reader.dispose()

    async def _worked(self, tenant: str, work: Callable[[Session], Awaitable[Result]], key: str, begin: str) -> Result:
        is_queued = self.is_embedded and begin != "BEGIN"
        async with self._writer if is_queued else nullcontext(), self.engine.connect() as plain:
            connection = await plain.execution_options(e3rg_begin=begin)
            async with connection.begin():
                if not self.is_embedded:
                    timeout = str(round(self._timeout_s * 1000))
                    values = {"tenant": tenant, "maintenance": "" if tenant else "on", "timeout": timeout}
                    await connection.execute(_TENANT, values)
                return await work(Session(connection, tenant, key))

    async def tried(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """Return what `work` returns, tried again where that may help; errors are named."""
        # Cancelled once: SQLAlchemy loses the connection of a task that is cancelled again meanwhile.
        return await self._works.finished(self._attempts(work), is_cancelled=True)

    async def _attempts(self, work: Callable[[], Awaitable[Result]]) -> Result:
        for attempt in range(ATTEMPTS):
            try:
                async with asyncio.timeout(self._timeout_s * 2):
                    result = await work()
            except ERRORS as error:
                problem, is_worth_retrying = translated(error)
                if is_worth_retrying and attempt + 1 < ATTEMPTS:
                    await asyncio.sleep(RETRY_S * 2**attempt)
                    continue
                if isinstance(problem, NotReady | DeadlineExceeded):
                    self._told(str(problem))
                raise problem from error
            self._told("")
            return result
        raise AssertionError("unreachable")

    def _told(self, problem: str) -> None:
        self.problem = problem
        metrics.DATABASE_UP.set(0 if problem else 1)


def engine_of(settings: DatabaseSettings, url: URL, is_creating: bool = False, is_reader: bool = False) -> AsyncEngine:
    """Return an engine for a URL with the settings' pool, certificate and password file.

    A file of SQLite is made only where `is_creating`: later, a missing one is a volume that is not mounted.
    """
    pool = {"pool_size": settings.database_connections, "max_overflow": 0, "pool_timeout": settings.database_timeout_s}
    if url.get_backend_name() == "sqlite":
        mode = "rwc" if is_creating else "rw"
        file = url.set(database=f"file:{quote(url.database or '')}", query={"mode": mode, "uri": "true"})
        single = {"isolation_level": "AUTOCOMMIT", "skip_autocommit_rollback": True, "pool_reset_on_return": None}
        engine = create_async_engine(file, **pool, **(single if is_reader else {}))
        event.listen(engine.sync_engine, "connect", _open_sqlite)
        if not is_reader:
            event.listen(engine.sync_engine, "begin", _begin_sqlite)
        return engine
    timeout_s = settings.database_timeout_s
    # The server gives up a statement first, and says so. A migration takes as long as it takes.
    arguments: dict[str, Any] = {"timeout": timeout_s, "command_timeout": None if is_creating else 1.5 * timeout_s}
    query = {name: str(value) for name, value in url.query.items()}
    mode, authorities = query.pop("sslmode", ""), query.pop("sslrootcert", "")
    if settings.database_ca_file or mode == "verify-full":
        arguments["ssl"] = ssl.create_default_context(cafile=str(settings.database_ca_file or authorities) or None)
    elif mode:
        arguments["ssl"] = mode
    if not settings.database_prepared:  # PgBouncer in transaction mode
        arguments |= {"statement_cache_size": 0, "prepared_statement_cache_size": 0}
        arguments["prepared_statement_name_func"] = lambda: f"e3rg_{uuid4().hex}"
    # A connection does not outlive a rotated password or certificate by more than half an hour.
    engine = create_async_engine(url.set(query=query), connect_args=arguments, pool_recycle=1800, **pool)
    event.listen(engine.sync_engine, "handle_error", _drop_read_only)
    if settings.database_password_file and url.password is None:
        event.listen(engine.sync_engine, "do_connect", _with_password(settings.database_password_file))
    return engine


def translated(error: Exception) -> tuple[ServiceError | Exception, bool]:  # noqa: PLR0911  # one line a case
    """Return the error for callers, and whether another try may succeed."""
    origin = getattr(error, "orig", None) or error
    state, name = str(getattr(origin, "sqlstate", "") or ""), str(getattr(origin, "sqlite_errorname", "") or "")
    reason = " ".join(str(origin).split("\n", maxsplit=1)[0].split()) or type(origin).__name__
    reason = reason.removeprefix("<class 'asyncpg.exceptions.").replace("Error'>: ", ": ")
    if isinstance(error, sql.IntegrityError):
        return error, True  # Somebody else wrote first: the next try sees it and names what is wrong.
    if isinstance(origin, TimeoutError):
        return NotReady("the memory's database cannot be reached: it does not answer; retry"), False
    if isinstance(error, sql.TimeoutError):
        return Overloaded("all connections to the memory's database are busy; retry in 1 s", 1.0), False
    if state == "53100" or name == "SQLITE_FULL":
        problem = f"the disk of the memory's database is full ({reason}); nothing of this call is kept, reads go on"
        return Overloaded(f"{problem}; make room on it, see docs/memory.md", None), False
    if state == "57014":
        return DeadlineExceeded(f"the memory's database took too long ({reason})"), False
    if (
        isinstance(error, InterferedError)
        or state in ("40001", "40P01")
        or name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))
    ):
        return NotReady(f"the memory's database is busy ({reason}); retry"), True
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return Damaged(f"the memory's database is damaged: {reason}; restore it from a backup"), False
    if state in _UNUSABLE:
        return NotReady(f"the memory's database refuses: {reason}; retry"), state == _READ_ONLY
    is_lost = state.startswith(("08", "57P")) or state == "53300" or getattr(error, "connection_invalidated", False)
    if is_lost or isinstance(origin, OSError | asyncpg.InterfaceError) or isinstance(error, sql.InterfaceError):
        return NotReady(f"the memory's database cannot be reached: {reason}; retry"), True
    if state == "42501":
        remedy = "run `python -m services.memory migrate`: it grants the role in E3RG_MEMORY_DATABASE_URL its rights"
        return NotReady(f"the memory's database refuses: {reason}; {remedy}"), False
    if state.startswith("28") or name.startswith(("SQLITE_CANTOPEN", "SQLITE_IOERR", "SQLITE_READONLY")):
        return NotReady(f"the memory's database refuses: {reason}"), False
    return error, False


def _open_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # Transactions begin in `_begin_sqlite`.
    cursor = connection.cursor()
    for pragma in _PRAGMAS:
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
    connection.create_function("lower", 1, _lower, deterministic=True)  # SQLite's own knows ASCII only.


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("e3rg_begin", "BEGIN"))


def _drop_read_only(context: ExceptionContext) -> None:
    """Drop all connections: each keeps the mode that the database had when it was opened."""
    if getattr(context.original_exception, "sqlstate", "") == _READ_ONLY:
        context.is_disconnect = True


def _with_password(file: Path) -> Callable[[Any, Any, list[Any], dict[str, Any]], None]:
    def connect(_: Any, __: Any, ___: list[Any], parameters: dict[str, Any]) -> None:
        try:
            parameters["password"] = file.read_text("utf-8").strip()  # At each connection: it may have been rotated.
        except OSError as error:
            raise OSError(f"E3RG_MEMORY_DATABASE_PASSWORD_FILE: {file}: {error.strerror}") from error

    return connect
