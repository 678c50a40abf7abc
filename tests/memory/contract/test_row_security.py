"""On PostgreSQL, a query that forgets the tenant sees that of its transaction only."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import asyncpg
import pytest

from services.memory.migrate import migrate
from services.memory.schema import TENANT_TABLES
from tests.support.conversations import connection, put_derived, remember, rows
from tests.support.memory import MP4, TENANT, Stubs, header, parts, serving
from tests.support.stacks import Stack

if TYPE_CHECKING:
    from asyncpg import Connection, Record

WAYS_OUT = (
    "ALTER TABLE turns DISABLE ROW LEVEL SECURITY",
    "ALTER TABLE turns NO FORCE ROW LEVEL SECURITY",
    "DROP POLICY tenant_isolation ON turns",
    "CREATE POLICY everything ON turns USING (true)",
    "ALTER ROLE CURRENT_USER BYPASSRLS",
    "SET ROLE postgres",
    "TRUNCATE turns",
    "CREATE TABLE copies AS SELECT * FROM turns",
)


@pytest.fixture
async def stubs(clustered: Stack) -> AsyncIterator[Stubs]:
    """A memory with turns of two tenants."""
    async with serving(clustered.settings()) as stubs:
        for tenant in (TENANT, "other"):
            identity = await stubs.add(parts(header(tenant=tenant)))
            await remember(stubs, 1, f"secret of {tenant}", {"tenant": tenant, "person": "bob"})
            if tenant == TENANT:
                await stubs.put_clip(2, MP4, person="bob")  # type: ignore[arg-type]
                await put_derived(stubs, identity, b"embedding")
        yield stubs


@pytest.fixture
async def service(clustered: Stack, stubs: Stubs) -> AsyncIterator["Connection[Record]"]:
    """A connection as the role of the service."""
    assert clustered.urls
    async with connection(clustered.urls.service) as opened:
        yield opened


async def visible(service: "Connection[Record]") -> dict[str, set[str]]:
    """The tenants that queries without a filter see, by table."""
    found = {
        table.name: {row["tenant"] for row in await service.fetch(f"SELECT tenant FROM {table.name}")}
        for table in TENANT_TABLES
    }
    return {name: tenants for name, tenants in found.items() if tenants}


async def test_a_query_that_forgets_the_tenant_sees_that_of_its_transaction(
    service: "Connection[Record]", clustered: Stack
) -> None:
    assert await visible(service) == {}
    for tenant in (TENANT, "other"):
        kept = await rows(clustered, tenant)
        async with service.transaction():
            await service.execute(f"SET LOCAL e3rg.tenant = '{tenant}'")
            seen = await visible(service)
            seen.pop("requests", None)
            assert seen == {name: {tenant} for name in kept}
            assert await service.fetchval("SELECT user_text FROM turns") == f"secret of {tenant}"
        assert await visible(service) == {}
    async with service.transaction():
        await service.execute("SET LOCAL e3rg.tenant = ''")
        assert await visible(service) == {}


async def test_a_row_of_another_tenant_is_neither_inserted_changed_nor_deleted(
    service: "Connection[Record]", clustered: Stack
) -> None:
    before = await rows(clustered, "other")
    insert = "INSERT INTO users (id, tenant, kind, name, created_at_s) VALUES ('x', 'other', 'user', 'eve', 0)"
    update = "UPDATE turns SET tenant = 'other'"
    for tenant, statement in ((TENANT, insert), ("", insert), (TENANT, update)):
        opened = service.transaction()
        await opened.start()
        await service.execute(f"SET LOCAL e3rg.tenant = '{tenant}'")
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security policy"):
            await service.execute(statement)
        await opened.rollback()
    async with service.transaction():
        await service.execute(f"SET LOCAL e3rg.tenant = '{TENANT}'")
        assert await service.execute("UPDATE turns SET user_text = 'x' WHERE tenant = 'other'") == "UPDATE 0"
        await service.execute("DELETE FROM turns")
        await service.execute("DELETE FROM users")
        await service.execute("DELETE FROM tenants")
    assert await rows(clustered, "other") == before


@pytest.mark.parametrize("statement", WAYS_OUT)
async def test_the_service_cannot_switch_it_off(service: "Connection[Record]", statement: str) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await service.execute(statement)
    assert await visible(service) == {}


async def test_switching_filters_off_refuses_queries_instead_of_telling_more(service: "Connection[Record]") -> None:
    await service.execute("SET row_security = off")
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
        await service.fetch("SELECT * FROM turns")


async def test_every_table_with_a_tenant_is_secured_also_against_its_owner(stubs: Stubs, clustered: Stack) -> None:
    assert clustered.urls
    await migrate(clustered.settings())  # Again: it changes nothing.
    async with connection(clustered.urls.admin) as admin:
        tables = await admin.fetch("""
            SELECT relname FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
            WHERE relkind = 'r' AND attname = 'tenant' AND relnamespace = 'public'::regnamespace
            AND relrowsecurity AND relforcerowsecurity
        """)
    assert {each["relname"] for each in tables} == {table.name for table in TENANT_TABLES}
    async with connection(clustered.urls.migrator) as owner:
        assert await visible(owner) == {}


async def test_every_table_with_a_tenant_has_the_two_policies_of_turns_and_no_other(clustered: Stack) -> None:
    assert clustered.urls
    policies: dict[str, set[tuple[str, ...]]] = {}
    async with connection(clustered.urls.admin) as admin:
        for table, *policy in await admin.fetch(
            "SELECT tablename, policyname, cmd, permissive, roles::text, qual, with_check FROM pg_policies"
        ):
            policies.setdefault(table, set()).add(tuple(policy))
    assert policies == {table.name: policies["turns"] for table in TENANT_TABLES}
    assert {policy[0] for policy in policies["turns"]} == {"tenant_isolation", "maintenance"}
    assert all(read == written for *_, read, written in policies["turns"])
