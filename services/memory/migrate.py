"""Schema migrations: `python -m services.memory migrate`, and at start on SQLite."""

import logging
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import DBAPIError

from services.common.errors import FailedPrecondition, NotReady
from services.memory.blobs import make_folder, refuse_old_folder
from services.memory.database import engine_of
from services.memory.schema import metadata
from services.memory.settings import DatabaseSettings

FOLDER = Path(__file__).parent / "migrations"

_LOCK = 0x6533_7267  # "e3rg": migrations of replicas that start at once run one after the other

log = logging.getLogger(__name__)
logging.getLogger("alembic").setLevel(logging.WARNING)  # It tells of its own contexts at INFO.


async def migrate(settings: DatabaseSettings, revision: str = "head", versions: str = "") -> tuple[str, str]:
    """Bring the schema to a revision, under a lock; return the revision before and after.

    Args:
        settings: The database; on PostgreSQL `migration_url` names the role that owns the schema.
        revision: Which; the newest unless told.
        versions: More folders of migrations, separated by spaces.

    Raises:
        FailedPrecondition: On PostgreSQL, when the extension `vector` is missing; on SQLite, when its folder has a
            store of an earlier version.
    """
    url = settings.owner_url
    if url.get_backend_name() == "sqlite":
        if not settings.database_url.get_secret_value():
            refuse_old_folder(settings.folder)
            make_folder(settings.folder)
        Path(url.database or "").touch(0o600)  # What is said to an avatar is nobody else's to read.
    engine = engine_of(settings, url, is_creating=True)
    config = _config(versions)
    try:
        async with engine.connect() as plain:
            connection = await plain.execution_options(e3rg_begin="BEGIN IMMEDIATE")
            async with connection.begin():
                if connection.dialect.name == "postgresql":
                    await connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
                    await connection.run_sync(_require_vector)
                before = await connection.run_sync(current)
                if not is_newer(before, versions):
                    await connection.run_sync(_upgrade, config, revision)
                role = settings.url.username
                if connection.dialect.name == "postgresql" and role and role != url.username:
                    await connection.run_sync(_grant, role)
                after = await connection.run_sync(current)
    finally:
        await engine.dispose()
    if before != after:
        log.info("migrated", extra={"from": before or "nothing", "to": after})
    return before, after


async def revision_of(settings: DatabaseSettings) -> str:
    """Return the revision of the schema; empty without one."""
    url = settings.owner_url
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").exists():
        return ""
    engine = engine_of(settings, url)
    try:
        async with engine.connect() as connection:
            return await connection.run_sync(current)
    finally:
        await engine.dispose()


def check_revision(connection: Connection) -> None:
    """Refuse a schema that is older than this version's; a newer one is served on.

    Raises:
        NotReady: It is older; the message names the command.
    """
    found = current(connection)
    if found == head():
        return
    if found and is_newer(found):
        log.warning("the schema is newer than this version", extra={"revision": found, "known": head()})
        return
    problem = f"the database's schema is at revision {found or 'none'}, this version needs {head()}"
    raise NotReady(f"{problem}; run `python -m services.memory migrate` with E3RG_MEMORY_MIGRATION_URL")


def head() -> str:
    """Return the newest revision of this version."""
    return ScriptDirectory.from_config(_config()).get_current_head() or ""


def current(connection: Connection) -> str:
    """Return the revision of a database; empty without a schema."""
    return MigrationContext.configure(connection).get_current_revision() or ""


def is_newer(revision: str, versions: str = "") -> bool:
    """Tell whether a revision is of a later version: this one does not know it."""
    try:
        return bool(revision) and ScriptDirectory.from_config(_config(versions)).get_revision(revision) is None
    except CommandError:
        return True


def _config(versions: str = "") -> Config:
    config = Config()
    config.set_main_option("script_location", str(FOLDER))
    config.set_main_option("version_locations", f"{FOLDER / 'versions'} {versions}".strip())
    config.set_main_option("path_separator", "space")
    return config


def _upgrade(connection: Connection, config: Config, revision: str) -> None:
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def _grant(connection: Connection, role: str) -> None:
    """Let the service's role use the tables of this version, and read the revision.

    Raises:
        FailedPrecondition: There is no such role.
    """
    if not connection.scalar(text("SELECT 1 FROM pg_roles WHERE rolname = :role"), {"role": role}):
        problem = f"E3RG_MEMORY_DATABASE_URL: the role {role!r} does not exist; create it, and run migrate again"
        raise FailedPrecondition(problem)
    tables = ", ".join(sorted(metadata.tables.keys() & set(inspect(connection).get_table_names())))
    rights = "SELECT, INSERT, UPDATE, DELETE ON " + tables, "SELECT ON alembic_version"
    for right in (*rights, "USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public"):
        quoted = connection.dialect.identifier_preparer.quote_identifier(role)
        connection.exec_driver_sql(f"GRANT {right} TO {quoted}")


def _require_vector(connection: Connection) -> None:
    """Create the extension `vector` where the role may.

    Raises:
        FailedPrecondition: It is missing and the role may not create it.
    """
    if connection.scalar(text("SELECT 1 FROM pg_extension WHERE extname = 'vector'")):
        return
    try:
        with connection.begin_nested():
            connection.execute(text("CREATE EXTENSION vector"))
    except DBAPIError as error:
        reason = str(error.orig).split("\n", maxsplit=1)[0]
        problem = f"the database lacks the extension vector (pgvector), and this role cannot create it ({reason})"
        raise FailedPrecondition(f"{problem}; have an administrator run CREATE EXTENSION vector in it") from error
