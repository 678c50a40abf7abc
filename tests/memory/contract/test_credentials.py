"""Passwords and keys that change, and TLS on the way to database and object storage; secrets are never told."""

import re
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import certifi
import grpc
import pytest

from e3rg.memory.v1 import memory_pb2
from services.common.errors import NotReady
from services.memory.migrate import migrate
from tests.serving import refused
from tests.support.memory import WAV, Log, Stubs, green, header, parts, process_of, serving
from tests.support.object_store import ObjectStore
from tests.support.postgres import Postgres, Urls
from tests.support.s3_proxy import S3Proxy
from tests.support.stacks import Stack
from tests.support.tls import CERTIFICATE, context, terminator

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
SPEECH = memory_pb2.CLIP_KIND_SPEECH


def split(url: str) -> tuple[str, str, str]:
    """The role and the password of a URL, and the URL without a password."""
    found = re.fullmatch(r"postgresql://(\w+):(\w+)@(.*)", url)
    assert found
    return found[1], found[2], f"postgresql://{found[1]}@{found[3]}"


@pytest.fixture
async def relational(database: Urls, tmp_path: Path) -> Stack:
    """PostgreSQL, migrated, and a folder."""
    stack = Stack("postgres-folder", tmp_path / "memory", database)
    await migrate(stack.settings())
    return stack


async def test_a_password_that_is_rotated_counts_from_the_next_connection_on_and_is_never_told(
    relational: Stack, tmp_path: Path
) -> None:
    assert relational.urls
    role, password, url = split(relational.urls.service)
    file = tmp_path / "password"
    file.write_text(f"{password}\n")
    variables = {
        "E3RG_MEMORY_FOLDER": str(relational.folder),
        "E3RG_MEMORY_DATABASE_URL": url,
        "E3RG_MEMORY_DATABASE_PASSWORD_FILE": str(file),
        "E3RG_MEMORY_LOG_LEVEL": "DEBUG",
    }
    log = Log()
    admin = await asyncpg.connect(relational.urls.admin)
    disconnect = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1"
    async with process_of(variables, log=log) as (stubs, _):
        await green(stubs)
        await stubs.add(parts(header()))
        await admin.execute(f"ALTER ROLE {role} PASSWORD 'rotated-once'")
        await stubs.say(1)  # Over a connection that is open.
        await admin.execute(disconnect, role)
        with refused(UNAVAILABLE, f'the memory\'s database refuses: password authentication failed for user "{role}"'):
            await stubs.say(2)
        file.write_text("rotated-once")
        await stubs.say(2)
        await admin.execute(f"ALTER ROLE {role} PASSWORD 'rotated-twice'")
        file.write_text("rotated-twice\n")
        await admin.execute(disconnect, role)
        await stubs.say(3)
        assert [turn.id for turn in (await stubs.recall()).turns] == ["turn-1", "turn-2", "turn-3"]
    await admin.close()
    assert "password authentication failed" in log.text
    assert not [secret for secret in (password, "rotated-once", "rotated-twice", url) if secret in log.text]


async def test_a_password_file_that_is_missing_is_named_with_its_variable(relational: Stack, tmp_path: Path) -> None:
    assert relational.urls
    _, _, url = split(relational.urls.service)
    settings = relational.settings(database_url=url, database_password_file=tmp_path / "missing")
    async with serving(settings, is_opened=False) as stubs:
        assert stubs.upkeep
        with pytest.raises(NotReady, match=f"E3RG_MEMORY_DATABASE_PASSWORD_FILE: {tmp_path}/missing: No such file"):
            await stubs.upkeep.open_once()


async def test_a_password_in_the_url_is_never_told(relational: Stack) -> None:
    assert relational.urls
    _, password, _ = split(relational.urls.service)
    wrong = relational.urls.service.replace(password, "wrong-password")
    log = Log()
    variables = relational.variables | {"E3RG_MEMORY_DATABASE_URL": wrong, "E3RG_MEMORY_LOG_LEVEL": "DEBUG"}
    async with process_of(variables, log=log) as (stubs, _):
        assert "password authentication failed" in await log.line('"not ready"')
        with refused(UNAVAILABLE, "password authentication failed") as failure:
            await stubs.recall()
        assert "wrong-password" not in str(failure.value.details())
    assert "wrong-password" not in log.text


async def test_a_database_that_shows_its_certificate_is_trusted_with_its_authority_only(
    postgres: Postgres, relational: Stack
) -> None:
    assert relational.urls
    async with terminator(postgres.host, postgres.port) as port:
        secured = relational.urls.service.replace(f":{postgres.port}/", f":{port}/")
        verified = f"{secured}?sslmode=verify-full"
        by_name = verified.replace("@127.0.0.1", "@localhost")
        plain = f"{relational.urls.service}?sslmode=verify-full"
        trusted = {
            "ada": relational.settings(database_url=verified, database_ca_file=CERTIFICATE),
            "eve": relational.settings(database_url=secured, database_ca_file=CERTIFICATE),
            "zoe": relational.settings(database_url=f"{verified}&sslrootcert={CERTIFICATE}"),
        }
        for name, settings in trusted.items():
            async with serving(settings) as stubs:
                await stubs.add(parts(header(name)))
        for refused_settings in (
            relational.settings(database_url=verified),
            relational.settings(database_url=verified, database_ca_file=certifi.where()),
            relational.settings(database_url=by_name, database_ca_file=CERTIFICATE),
            relational.settings(database_url=plain, database_ca_file=CERTIFICATE),
        ):
            async with serving(refused_settings, is_opened=False) as stubs:
                assert stubs.upkeep
                with pytest.raises(NotReady, match=r"cannot be reached: .*(certificate|SSL)"):
                    await stubs.upkeep.open_once()


# Object storage.


@pytest.fixture
def tls_proxy(s3: ObjectStore) -> Iterator[S3Proxy]:
    proxy = S3Proxy(s3.port, context())
    yield proxy
    proxy.close()


async def turn_kept(stubs: Stubs) -> None:
    await stubs.add(parts(header()))
    await stubs.say(1)


async def test_keys_from_files_are_read_again_when_they_change_and_never_told(
    s3: ObjectStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stack = Stack("sqlite-s3", tmp_path / "memory", bucket=s3.bucket())
    access, secret = tmp_path / "access", tmp_path / "secret"
    access.write_text(f"{s3.access_key}\n")
    secret.write_text(s3.secret_key)
    files = {"s3_access_key": "", "s3_secret_key": "", "s3_access_key_file": access, "s3_secret_key_file": secret}
    caplog.set_level("DEBUG")
    async with serving(stack.settings(**files)) as stubs:
        await turn_kept(stubs)
        for content, reason in (
            ("wrong-secret", "(SignatureDoesNotMatch): set E3RG_MEMORY_S3_ACCESS_KEY and _SECRET_KEY, or the files"),
            ("", f"credentials cannot be read: {secret} is empty"),
            (None, f"credentials cannot be read: {secret}: No such file"),
        ):
            if content is None:
                secret.unlink()
            else:
                secret.write_text(content)
            with refused(UNAVAILABLE, reason):
                await stubs.put_clip(SPEECH, WAV)
        (tmp_path / "new").write_text(f"{s3.secret_key}\n")
        (tmp_path / "new").replace(secret)
        await stubs.put_clip(SPEECH, WAV)
    assert "wrong-secret" not in caplog.text
    assert s3.secret_key not in caplog.text


async def test_object_storage_that_shows_its_certificate_is_trusted_with_its_authority_only(
    s3: ObjectStore, tls_proxy: S3Proxy, tmp_path: Path
) -> None:
    stack = Stack("sqlite-s3", tmp_path / "memory", bucket=s3.bucket())
    by_name = f"localhost:{tls_proxy.port}"
    secured = stack.settings(s3_endpoint=tls_proxy.endpoint, s3_tls=True, s3_ca_file=CERTIFICATE)
    async with serving(secured) as stubs:
        await turn_kept(stubs)
        assert (await stubs.put_clip(SPEECH, WAV)).size_bytes == len(WAV)
    for changes in (
        {"s3_endpoint": tls_proxy.endpoint},
        {"s3_endpoint": tls_proxy.endpoint, "s3_ca_file": certifi.where()},
        {"s3_endpoint": by_name, "s3_ca_file": CERTIFICATE},
        {"s3_ca_file": CERTIFICATE},
    ):
        async with serving(stack.settings(s3_tls=True, s3_timeout_s=1, **changes), is_opened=False) as stubs:
            assert stubs.upkeep
            with pytest.raises(NotReady, match=r"cannot be reached \(SSLError"):
                await stubs.upkeep.open_once()
