"""Settings of the memory service."""

from pathlib import Path

from pydantic import Field, FilePath, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from services.common.settings import ServiceSettings

_IMPORT = "a store of that version is brought in with `python -m services.memory import-layout-2 --from FOLDER|BUCKET`"

_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_PARAMETERS: dict[str, dict[str, tuple[str, ...]]] = {
    "postgresql": {"sslmode": _SSL_MODES, "sslrootcert": ()},
    "sqlite": {},
}
"""Parameters that a URL of each engine may have, and their values; empty for any."""

KEY_BYTES_MIN = 16
"""Shortest key for pseudonyms: with a shorter one names could be guessed."""


class DatabaseSettings(BaseSettings):
    """The database and the object storage."""

    model_config = SettingsConfigDict(env_prefix="E3RG_MEMORY_", frozen=True, hide_input_in_errors=True)

    folder: Path = Path(".run/memory")
    """Folder of the embedded database and of media; made when absent, for its owner only."""
    database_url: SecretStr = SecretStr("")
    """`postgresql://USER@HOST/NAME?sslmode=verify-full`, or `sqlite:///FILE`; empty for a file in `folder`."""
    migration_url: SecretStr = SecretStr("")
    """The same database as the role that owns the schema; for `migrate` and `migrate --check` on PostgreSQL."""
    database_password_file: Path | None = None
    """File with the password, read for each new connection; a URL that has one keeps its own."""
    database_ca_file: FilePath | None = None
    """PEM file of the authorities that certify the database; with it, certificate and host name are verified."""
    database_connections: int = Field(default=8, ge=1, le=200)
    """Connections of this replica at most."""
    database_timeout_s: float = Field(default=10, gt=0, le=600)
    """A statement takes at most so long; a connection is waited for at most so long."""
    database_prepared: bool = True
    """Whether to keep prepared statements; false behind PgBouncer in transaction mode."""
    s3_endpoint: str = Field(default="", pattern=r"^[A-Za-z0-9.\-\[\]:]*$")
    """Host, and port where it is not the protocol's, of the object storage; empty keeps media in `folder`."""
    s3_bucket: str = Field(default="", pattern=r"^([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])?$")
    """The bucket; everything in it is the memory's."""
    s3_region: str = "us-east-1"
    """Region of the bucket."""
    s3_tls: bool = True
    """Whether to speak HTTPS."""
    s3_ca_file: FilePath | None = None
    """PEM file of the authorities that certify the object storage; the system's without."""
    s3_access_key: SecretStr = SecretStr("")
    """Access key, or a file with it below."""
    s3_secret_key: SecretStr = SecretStr("")
    """Secret key, or a file with it below."""
    s3_access_key_file: Path | None = None
    """File with the access key, read again when it changes."""
    s3_secret_key_file: Path | None = None
    """File with the secret key, read again when it changes."""
    s3_create_bucket: bool = False
    """Whether to make the bucket when there is none."""
    s3_timeout_s: float = Field(default=5, gt=0, le=600)
    """Longest wait for an answer of the object storage."""
    backend: str = ""
    """Removed: the object storage follows from `s3_endpoint`."""
    threads: str = ""
    """Removed: see `database_connections`."""

    @field_validator("backend", "threads")
    @classmethod
    def _removed(cls, value: str) -> str:
        if value:
            raise ValueError(f"it means nothing any more; unset it. {_IMPORT}")
        return value

    @field_validator("database_url", "migration_url")
    @classmethod
    def _of_known_engine(cls, value: SecretStr) -> SecretStr:
        try:
            url = make_url(value.get_secret_value() or "sqlite://")
        except ArgumentError:
            raise ValueError("it is no URL; write postgresql://USER@HOST/NAME or sqlite:///FILE") from None
        if (engine := url.get_backend_name()) not in _PARAMETERS:
            raise ValueError(f"its scheme is {engine!r}; use postgresql:// or sqlite:///")
        known = _PARAMETERS[engine]
        for name, found in url.query.items():
            if name not in known:
                raise ValueError(f"its parameter {name!a} is unknown; known are: {', '.join(known) or 'none'}")
            if known[name] and found not in known[name]:
                raise ValueError(f"its {name} is {found!a}; use one of: {', '.join(known[name])}")
        return value

    @model_validator(mode="after")
    def _complete(self) -> "DatabaseSettings":
        if self.migration_url.get_secret_value() and not self.database_url.get_secret_value():
            raise ValueError("E3RG_MEMORY_DATABASE_URL: missing; name the role that E3RG_MEMORY_MIGRATION_URL serves")
        mine, owners = (
            (each.get_backend_name(), each.database or each.username) for each in (self.url, self.owner_url)
        )
        if mine != owners:
            problem = (
                f"its database is {owners[1]!a}, that of E3RG_MEMORY_DATABASE_URL is {mine[1]!a}; name the same one"
            )
            raise ValueError(f"E3RG_MEMORY_MIGRATION_URL: {problem}")
        if self.s3_endpoint and not self.s3_bucket:
            raise ValueError("E3RG_MEMORY_S3_BUCKET: missing; name the bucket at E3RG_MEMORY_S3_ENDPOINT")
        if self.s3_bucket and not self.s3_endpoint:
            raise ValueError("E3RG_MEMORY_S3_ENDPOINT: missing; name the host of E3RG_MEMORY_S3_BUCKET")
        for key in ("access_key", "secret_key"):
            given = bool(getattr(self, f"s3_{key}").get_secret_value()), getattr(self, f"s3_{key}_file") is not None
            if self.s3_endpoint and sum(given) != 1:
                name = f"E3RG_MEMORY_S3_{key.upper()}"
                raise ValueError(f"{name}: {'set' if all(given) else 'missing'}, as is {name}_FILE; set one of them")
        return self

    @property
    def url(self) -> URL:
        """The database's URL, with its driver."""
        return with_driver(self.database_url.get_secret_value() or f"sqlite:///{self.folder}/memory.db")

    @property
    def owner_url(self) -> URL:
        """The URL of the role that migrates."""
        return with_driver(self.migration_url.get_secret_value()) if self.migration_url.get_secret_value() else self.url


class MemorySettings(DatabaseSettings, ServiceSettings):
    """All settings of a replica."""

    model_config = SettingsConfigDict(env_prefix="E3RG_MEMORY_", frozen=True, hide_input_in_errors=True)

    queue_waiting_max: int = Field(default=64, ge=0)
    """Calls that may wait for the sentence embedding; more are refused with RESOURCE_EXHAUSTED."""
    cache_bytes: int = Field(default=2**28, ge=0)
    """Memory for cached reference files, and as much again for cached embeddings."""
    cache_keep_s: float = Field(default=60, gt=0, le=3600)
    """Seconds that anything is cached; nothing older stands in for a database that is away."""
    pseudonym_key_file: Path | None = None
    """File with the key, of 16 bytes or more, by which research exports name users; without it there are none."""

    @field_validator("pseudonym_key_file")
    @classmethod
    def _holding_a_key(cls, file: Path | None) -> Path | None:
        try:
            size = len(file.read_bytes().strip()) if file else KEY_BYTES_MIN
        except OSError as error:
            raise ValueError(f"{file} cannot be read: {error.strerror}") from None
        if size < KEY_BYTES_MIN:
            raise ValueError(f"the key in {file} has {size} bytes; make one of {KEY_BYTES_MIN} or more")
        return file

    def pseudonym_key(self) -> bytes:
        """Return the key for pseudonyms; empty without a file that can be read."""
        try:
            return self.pseudonym_key_file.read_bytes().strip() if self.pseudonym_key_file else b""
        except OSError:
            return b""


def with_driver(url: str) -> URL:
    """Return a URL with the driver that this service uses."""
    parsed = make_url(url)
    drivers = {"postgresql": "postgresql+asyncpg", "sqlite": "sqlite+aiosqlite"}
    return parsed.set(drivername=drivers[parsed.get_backend_name()])
