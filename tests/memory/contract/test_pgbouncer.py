"""PgBouncer in transaction mode before the database; runs where E3RG_TEST_PGBOUNCER names its program."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from services.memory.consistency import Findings, check
from services.memory.migrate import migrate
from tests.fakes import PATIENCE_S
from tests.support.memory import serving
from tests.support.ports import free_ports
from tests.support.postgres import Postgres, Urls
from tests.support.stacks import Stack
from tests.support.writer import Service, Writer

VARIABLE = "E3RG_TEST_PGBOUNCER"
CONFIGURATION = """
[databases]
* = host={host} port={server_port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {folder}/users
pool_mode = transaction
default_pool_size = 3
"""


@pytest.fixture
async def pooled(postgres: Postgres, database: Urls) -> AsyncIterator[str]:
    """The service's URL through PgBouncer; it has three connections to the server."""
    if not (program := os.environ.get(VARIABLE)):
        pytest.skip(f"{VARIABLE} names no program")
    (port,) = free_ports(1)
    with TemporaryDirectory(prefix="test-pgbouncer-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # Root's PgBouncer runs as another user.
        role, _, password = database.service.removeprefix("postgresql://").partition("@")[0].partition(":")
        (folder / "users").write_text(f'"{role}" "{password}"\n')
        text = CONFIGURATION.format(host=postgres.host, server_port=postgres.port, port=port, folder=folder)
        (folder / "ini").write_text(text)
        user = ["-u", "nobody"] if os.getuid() == 0 else []
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen([program, *user, str(folder / "ini")], stderr=log, stdout=log)
        try:
            async with asyncio.timeout(PATIENCE_S):
                while b"process up" not in (folder / "log").read_bytes():
                    assert process.poll() is None, (folder / "log").read_text()
                    await asyncio.sleep(0.02)
            yield database.service.replace(f":{postgres.port}/", f":{port}/")
        finally:
            process.kill()
            process.wait()


async def test_behind_a_pooler_of_transactions_tenants_are_kept_apart_and_all_is_kept(
    pooled: str, database: Urls, tmp_path: Path
) -> None:
    stack = Stack("pgbouncer-folder", tmp_path / "memory", database)
    await migrate(stack.settings())
    settings = stack.settings(database_url=pooled, database_prepared=False)
    async with serving(settings, orphan_s=0) as stubs:
        service = Service()
        service.start(stubs)
        writers = [Writer(service, f"ada-{number}", number) for number in range(4)]
        await asyncio.gather(*(writer.write(40) for writer in writers))
        assert service.refusals == 0
        for writer in writers:
            await writer.check(stubs)
        assert stubs.inside
        await stubs.inside.erasure.drain()
        assert await check(stubs.inside, False, None) == Findings()
        assert not (await stubs.inside.identities.page("other", 10, ""))[0]
