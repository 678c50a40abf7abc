"""Migrations: by the command, at the start on SQLite, beside running services, and against the tables of the code."""

import asyncio
import warnings
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection

from e3rg.memory.v1 import memory_pb2
from services.common.errors import FailedPrecondition
from services.memory.database import Database
from services.memory.migrate import head, migrate, revision_of
from services.memory.schema import metadata
from tests.serving import refused
from tests.support.conversations import connection
from tests.support.memory import WAV, Log, Stubs, green, header, parts, process_of, program, serving
from tests.support.postgres import Urls
from tests.support.stacks import Stack

LATER = str(Path(__file__).parents[1] / "migrations")
EXPANDED, CONTRACTED = "9001", "9002"


@pytest.fixture(params=["sqlite", "postgres"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Stack:
    """A database without a schema, of each engine."""
    urls: Urls | None = request.getfixturevalue("database") if request.param == "postgres" else None
    (tmp_path / "memory").mkdir()
    return Stack(f"{request.param}-folder", tmp_path / "memory", urls)


async def test_the_command_migrates_once_and_tells_what_it_found(database: Urls) -> None:
    variables = {"E3RG_MEMORY_MIGRATION_URL": database.migrator, "E3RG_MEMORY_DATABASE_URL": database.service}
    ended = [await program(variables, "migrate", *arguments) for arguments in (["--check"], [], [], ["--check"])]
    assert [(each.status, each.out, each.err) for each in ended] == [
        (3, f"schema: none, this version: {head()}; run migrate\n", ""),
        (0, f"schema: none -> {head()}\n", ""),
        (0, f"schema: {head()}, nothing to do\n", ""),
        (0, f"schema: {head()}, this version: {head()}\n", ""),
    ]


async def test_a_role_that_does_not_exist_is_named_and_nothing_is_migrated(database: Urls, tmp_path: Path) -> None:
    missing = Stack("postgres-folder", tmp_path, replace(database, service=database.service.replace("//", "//no_")))
    with pytest.raises(
        FailedPrecondition, match=r"E3RG_MEMORY_DATABASE_URL: the role 'no_.*' does not exist; create it"
    ):
        await migrate(missing.settings())
    assert await revision_of(missing.settings()) == ""


async def test_without_the_role_that_is_to_be_granted_its_rights_nothing_is_migrated(database: Urls) -> None:
    ended = await program({"E3RG_MEMORY_MIGRATION_URL": database.migrator}, "migrate")
    text = "E3RG_MEMORY_DATABASE_URL: missing; name the role that E3RG_MEMORY_MIGRATION_URL serves"
    assert (ended.status, text in ended.err) == (2, True)


async def test_a_role_that_is_named_after_the_migration_gets_its_rights_by_the_next_one(clustered: Stack) -> None:
    assert clustered.urls
    name, later = clustered.urls.admin.rpartition("/")[2], clustered.urls.service.replace("_service:", "_later:", 1)
    async with connection(clustered.urls.admin) as admin:
        await admin.execute(f"CREATE ROLE {name}_later LOGIN PASSWORD '{later.split(':')[2].partition('@')[0]}'")
        await admin.execute(f"GRANT CONNECT ON DATABASE {name} TO {name}_later")
        await admin.execute(f"GRANT USAGE ON SCHEMA public TO {name}_later")
        try:
            settings = clustered.settings(database_url=later)
            assert await migrate(settings) == (head(), head())
            async with serving(settings) as stubs:
                await check_serving(stubs, 1)
                assert stubs.upkeep
                await stubs.upkeep.sweep()
        finally:
            await admin.execute(f"DROP OWNED BY {name}_later; DROP ROLE {name}_later")


async def test_a_file_that_is_not_there_has_no_schema_is_not_made_by_looking_and_is_by_migrating(
    tmp_path: Path,
) -> None:
    ended = await program({"E3RG_MEMORY_FOLDER": str(tmp_path / "memory")}, "migrate", "--check")
    assert (ended.status, ended.out) == (3, f"schema: none, this version: {head()}; run migrate\n")
    assert list(tmp_path.iterdir()) == []
    ended = await program({"E3RG_MEMORY_FOLDER": str(tmp_path / "new" / "memory")}, "migrate")
    assert (ended.status, ended.out) == (0, f"schema: none -> {head()}\n")


async def test_the_command_tells_why_a_database_refuses_in_one_line(database: Urls) -> None:
    wrong = database.migrator.replace(database.migrator.split(":")[2].partition("@")[0], "wrong-password")
    for arguments in ([], ["--check"]):
        variables = {"E3RG_MEMORY_MIGRATION_URL": wrong, "E3RG_MEMORY_DATABASE_URL": database.service}
        ended = await program(variables, "migrate", *arguments)
        text = "memory cannot start: the memory's database refuses: password authentication failed for user"
        assert (ended.status, ended.err[: len(text)], ended.err.count("\n")) == (1, text, 1)
        assert "wrong-password" not in ended.err


async def test_of_several_migrations_at_once_one_migrates(empty: Stack) -> None:
    ended = await asyncio.gather(*(migrate(empty.settings()) for _ in range(4)))
    assert sorted(ended) == [("", head()), *[(head(), head())] * 3]


async def test_the_migrated_schema_is_that_of_the_code(empty: Stack) -> None:
    await migrate(empty.settings())
    database = Database(empty.settings(database_url=empty.urls.migrator) if empty.urls else empty.settings())

    def differences(connection: Connection) -> list[object]:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        return [each for each in compare_metadata(context, metadata) if not is_for_postgresql(each)]

    try:
        async with database.engine.connect() as connection:
            with warnings.catch_warnings():
                # They tell that indexes over expressions, on SQLite, and pgvector's type are not compared.
                warnings.simplefilter("ignore")
                found = await connection.run_sync(differences)
    finally:
        await database.close()
    assert found == []


def is_for_postgresql(difference: object) -> bool:
    """The approximate index has no counterpart in the tables, which are those of both engines."""
    return isinstance(difference, tuple) and getattr(difference[1], "name", "") == "ix_turn_embeddings_hnsw"


async def check_serving(stubs: Stubs, number: int) -> None:
    """Checks reading, writing and erasing."""
    name = f"ada-{number}"
    await stubs.add(parts(header(name)))
    await stubs.say(number, name, person=f"person-{number}")
    place = {"identity": name, "person": f"person-{number}"}
    await stubs.put_clip(memory_pb2.CLIP_KIND_SPEECH, WAV, f"turn-{number}", **place)
    recalled = await stubs.recall(name, person=f"person-{number}")
    assert [turn.id for turn in recalled.turns] == [f"turn-{number}"]


async def while_serving(stubs: Stubs, work: Callable[[], Awaitable[object]], number: int) -> None:
    """Serves without a pause while the schema changes."""
    changing = asyncio.ensure_future(work())
    while not changing.done():
        await stubs.say(number, "ada-1", person="person-1")
        await stubs.recall("ada-1", person="person-1")
        number += 1
    await changing


async def test_a_release_goes_on_serving_on_the_schema_of_the_next_ones(stack: Stack) -> None:
    settings = stack.settings()
    async with process_of(stack.variables) as (running, _):
        await green(running)
        await check_serving(running, 1)
        for place, revision in enumerate((EXPANDED, CONTRACTED)):
            before, after = (head(), EXPANDED, CONTRACTED)[place : place + 2]

            async def expand(revision: str = revision, steps: tuple[str, str] = (before, after)) -> None:
                assert await migrate(settings, revision, LATER) == steps

            await while_serving(running, expand, 1000 * (place + 1))
            await check_serving(running, 2 * place + 2)
            log = Log()
            async with process_of(stack.variables, log=log) as (restarted, _):
                await green(restarted)
                warning = await log.line("the schema is newer than this version")
                assert revision in warning
                assert head() in warning
                assert '"WARNING"' in warning
                await check_serving(restarted, 2 * place + 3)
            # Its own migration leaves what is newer as it is.
            assert await migrate(settings) == (after, after)


async def test_a_schema_that_is_older_is_not_served_until_it_is_migrated(database: Urls, tmp_path: Path) -> None:
    stack = Stack("postgres-folder", tmp_path / "memory", database)
    await migrate(stack.settings(), "0001")
    async with serving(stack.settings(), is_opened=False) as stubs:
        assert stubs.upkeep
        with pytest.raises(Exception, match="schema is at revision 0001"):
            await stubs.upkeep.open_once()
        with refused(grpc.StatusCode.UNAVAILABLE, "is being opened"):
            await stubs.recall()
        checked = await program(stack.variables, "migrate", "--check")
        assert (checked.status, checked.out) == (
            3,
            f"schema: 0001, this version: {head()}; run migrate\n",
        )
        assert await migrate(stack.settings()) == ("0001", head())
        await stubs.upkeep.open_once()
        await check_serving(stubs, 1)
