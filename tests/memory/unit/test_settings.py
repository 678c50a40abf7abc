"""Settings of the memory that cannot be are refused by their names, and never told."""

import pytest
from pydantic import ValidationError

from services.common import start
from services.memory.settings import MemorySettings

S3 = {"S3_ENDPOINT": "s3:9000", "S3_BUCKET": "memory", "S3_ACCESS_KEY": "me", "S3_SECRET_KEY": "hidden"}


def told(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> str:
    """Return the lines that an operator reads of wrong settings."""
    for name, value in variables.items():
        monkeypatch.setenv(f"E3RG_MEMORY_{name}", value)
    with pytest.raises(ValidationError) as error:
        MemorySettings()
    return "\n".join(start.problems("E3RG_MEMORY_", error.value))


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({"BACKEND": "filesystem"}, "E3RG_MEMORY_BACKEND: it means nothing any more; unset it."),
        ({"THREADS": "4"}, "E3RG_MEMORY_THREADS: it means nothing any more; unset it."),
        ({"BACKEND": "s3"}, "`python -m services.memory import-layout-2 --from FOLDER|BUCKET`"),
        (
            {"DATABASE_URL": "mysql://me:hidden@db/memory"},
            "E3RG_MEMORY_DATABASE_URL: its scheme is 'mysql'; use postgresql:// or sqlite:///",
        ),
        ({"DATABASE_URL": "me:hidden"}, "E3RG_MEMORY_DATABASE_URL: it is no URL; write postgresql://USER@HOST/NAME"),
        (
            {"DATABASE_URL": "postgresql://me:hidden@db/memory?connect_timeout=3"},
            "E3RG_MEMORY_DATABASE_URL: its parameter 'connect_timeout' is unknown; known are: sslmode,",
        ),
        ({"DATABASE_URL": "sqlite:///memory.db?mode=ro"}, "parameter 'mode' is unknown; known are: none"),
        (
            {"MIGRATION_URL": "postgresql://me:hidden@db/memory?sslmode=bogus"},
            "E3RG_MEMORY_MIGRATION_URL: its sslmode is 'bogus'; use one of: disable, allow, prefer,",
        ),
        ({"MIGRATION_URL": "oracle://me:hidden@db"}, "E3RG_MEMORY_MIGRATION_URL: its scheme is 'oracle'"),
        (
            {"DATABASE_URL": "postgresql://me:hidden@bouncer:6432/a", "MIGRATION_URL": "postgresql://me:hidden@db/b"},
            "E3RG_MEMORY_MIGRATION_URL: its database is 'b', that of E3RG_MEMORY_DATABASE_URL is 'a'; name",
        ),
        (
            {"PSEUDONYM_KEY_FILE": "/nowhere/key"},
            "E3RG_MEMORY_PSEUDONYM_KEY_FILE: /nowhere/key cannot be read: No such file or directory",
        ),
        ({"PSEUDONYM_KEY_FILE": "/dev/null"}, "the key in /dev/null has 0 bytes; make one of 16 or more"),
        ({"DATABASE_CONNECTIONS": "0"}, "E3RG_MEMORY_DATABASE_CONNECTIONS"),
        ({"DATABASE_TIMEOUT_S": "0"}, "E3RG_MEMORY_DATABASE_TIMEOUT_S"),
        ({"CACHE_KEEP_S": "0"}, "E3RG_MEMORY_CACHE_KEEP_S"),
        (S3 | {"S3_BUCKET": ""}, "E3RG_MEMORY_S3_BUCKET: missing; name the bucket at E3RG_MEMORY_S3_ENDPOINT"),
        (S3 | {"S3_ENDPOINT": ""}, "E3RG_MEMORY_S3_ENDPOINT: missing; name the host of E3RG_MEMORY_S3_BUCKET"),
        (S3 | {"S3_ACCESS_KEY": ""}, "E3RG_MEMORY_S3_ACCESS_KEY: missing, as is E3RG_MEMORY_S3_ACCESS_KEY_FILE"),
        (S3 | {"S3_SECRET_KEY_FILE": "/run/secret"}, "E3RG_MEMORY_S3_SECRET_KEY: set, as is"),
        (S3 | {"S3_ENDPOINT": "http://s3:9000"}, "E3RG_MEMORY_S3_ENDPOINT"),
        (S3 | {"S3_BUCKET": "No_Bucket"}, "E3RG_MEMORY_S3_BUCKET"),
        (S3 | {"S3_TIMEOUT_S": "0"}, "E3RG_MEMORY_S3_TIMEOUT_S"),
    ],
)
def test_a_setting_that_cannot_be_is_told_with_what_would_be_right(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], text: str
) -> None:
    lines = told(monkeypatch, variables)
    assert text in lines
    assert "hidden" not in lines


def test_secrets_are_not_told_with_the_settings() -> None:
    settings = MemorySettings(
        **{name.lower(): value for name, value in S3.items()},  # type: ignore[arg-type]
        database_url="postgresql://me:hidden@db/memory",  # type: ignore[arg-type]
    )
    assert "hidden" not in f"{settings!r} {settings.url!r} {settings.url} {settings.owner_url}"


def test_the_service_may_reach_the_database_by_another_host_than_the_migration() -> None:
    settings = MemorySettings.model_validate(
        {"database_url": "postgresql://me@bouncer:6432/a", "migration_url": "postgresql://owner@db/a"}
    )
    assert (settings.url.host, settings.owner_url.host) == ("bouncer", "db")
