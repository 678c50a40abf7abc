"""Objects in a bucket of an S3 store: MinIO, SeaweedFS, Ceph, a cloud's. Any number of processes may share it.

The store must keep conditional writes (`If-None-Match` and `If-Match`) and keep no versions of what is deleted;
`check` tries both. An object is written in one piece, so none can stay behind half-uploaded.
"""

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Self
from xml.etree import ElementTree

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from services.common.errors import NotReady
from services.memory.records import damaged
from services.memory.s3.ahead import read_of
from services.memory.s3.bucket import ATTEMPTS, Bucket, md5_of
from services.memory.s3.connection import Address, Answer
from services.memory.s3.credentials import Keys
from services.memory.s3.refusals import meaning
from services.memory.s3.trial import try_bucket
from services.memory.store import SAME, Entry, Object, Same, Store, check_folder, check_key

PAGE_KEYS = 1000
"""As many keys as S3 lists or deletes at once."""

_CHECKSUM = "x-amz-checksum-sha256"


class Settings(BaseSettings):
    """Where the bucket is, and who may use it."""

    model_config = SettingsConfigDict(env_prefix="E3RG_MEMORY_", frozen=True, hide_input_in_errors=True)

    s3_endpoint: str = Field(pattern=r"^[A-Za-z0-9.\-\[\]:]+$")
    """Host, and port where it is not the protocol's ("minio:9000"), without "http://"."""
    s3_bucket: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")
    """The bucket; everything in it is the memory's."""
    s3_region: str = "us-east-1"
    """Region of the bucket; most stores of one's own have this one."""
    s3_tls: bool = True
    """Whether the store is spoken to by HTTPS."""
    s3_ca_file: Path | None = None
    """PEM file of the authorities that certify the store; the system's when unset."""
    s3_access_key: SecretStr | None = None
    """Access key, if no file has it."""
    s3_secret_key: SecretStr | None = None
    """Secret key, if no file has it."""
    s3_access_key_file: Path | None = None
    """File with the access key; read again when it changes."""
    s3_secret_key_file: Path | None = None
    """File with the secret key; read again when it changes."""
    s3_create_bucket: bool = False
    """Whether to make the bucket when there is none."""
    s3_timeout_s: float = Field(default=5, gt=0)
    """Longest wait for an answer, if the caller does not allow less; a large upload gets a second per MiB more."""

    @model_validator(mode="after")
    def _has_credentials_once(self) -> Self:
        for name in ("access_key", "secret_key"):
            if bool(getattr(self, f"s3_{name}")) == bool(getattr(self, f"s3_{name}_file")):
                upper = f"E3RG_MEMORY_S3_{name.upper()}"
                raise ValueError(f"set {upper} or {upper}_FILE, one of the two")
        return self

    @property
    def address(self) -> Address:
        """Where the bucket is."""
        ca_file = str(self.s3_ca_file or "")
        return Address(self.s3_endpoint, self.s3_bucket, self.s3_region, self.s3_tls, ca_file)

    @property
    def keys(self) -> Keys:
        """The credentials, wherever they are."""
        access, secret = self.s3_access_key, self.s3_secret_key
        return Keys(
            access.get_secret_value() if access else self.s3_access_key_file or Path(),
            secret.get_secret_value() if secret else self.s3_secret_key_file or Path(),
        )


class S3Backend:
    """Satisfies `services.memory.store.Store`. Nothing is asked of the store before the first call.

    Args:
        settings: Where the bucket is.
    """

    def __init__(self, settings: Settings) -> None:
        self._bucket = Bucket(settings.address, settings.keys, settings.s3_timeout_s)
        self._make_bucket = settings.s3_create_bucket

    def put(self, key: str, content: bytes) -> str:
        """Writes an object; see the port."""
        return _etag(self._write(key, content, {})[0])

    def create(self, key: str, content: bytes) -> str | None:
        """Writes an object where none is; see the port."""
        answer, doubtful = self._write(key, content, {"If-None-Match": "*"}, "412")
        if answer.status < 300:
            return _etag(answer)
        return self._own(key, content) if doubtful else None

    def replace(self, key: str, content: bytes, etag: str) -> str | None:
        """Writes an object in the place of another; see the port."""
        answer, doubtful = self._write(key, content, {"If-Match": f'"{etag}"'}, "412", "NoSuchKey")
        if answer.status < 300:
            return _etag(answer)
        own = self._own(key, content) if doubtful else None
        if doubtful and own is None:
            raise NotReady(f"the answer to a write of {key!r} got lost, and it is another by now; read it, then retry")
        return own

    def get(self, key: str, unless: str = "") -> Object | Same | None:
        """Returns the object; see the port."""
        check_key(key)
        for _ in range(ATTEMPTS):
            answer, _ = self._bucket.ask("GET", key, headers=_unless(unless), refusals=("304", "NoSuchKey"))
            if answer.status == 304:
                return SAME
            if answer.status == 404:
                return None
            told = answer.headers.get(_CHECKSUM, "")
            if "-" in told or told in ("", _digest(answer.content)):  # One with a hyphen is that of several parts.
                return Object(answer.content, _etag(answer))
        raise damaged(key, f"its SHA-256 is not the one that {self._bucket.address} tells")

    def list(self, folder: str, limit: int | None = None, after: str = "") -> tuple[Entry, ...]:
        """Returns the objects below `folder`; see the port."""
        check_folder(folder)
        found: list[Entry] = []
        place = _place(after)
        while limit is None or len(found) < limit:
            page = self._bucket.parsed("GET", _listing(folder, None if limit is None else limit - len(found), place))
            found += [_entry(element) for element in page.iterfind("{*}Contents")]
            token = page.findtext("{*}NextContinuationToken")
            if not token:
                break
            place = {"continuation-token": token}
        return tuple(found)

    def ahead(
        self, gets: Sequence[tuple[str, str]], lists: Sequence[tuple[str, int | None, str]]
    ) -> AbstractContextManager[None]:
        """Asks at once for what `get` and `list` will be asked in the block; see `services.memory.cache.Ahead`."""
        reads = [read_of(key, _unless(unless), None) for key, unless in gets]
        reads += [read_of("", None, _listing(folder, limit, _place(after))) for folder, limit, after in lists]
        return self._bucket.ahead(reads)

    def delete(self, keys: Iterable[str]) -> None:
        """Removes objects; see the port."""
        every = list(keys)
        for key in every:
            check_key(key)
        for start in range(0, len(every), PAGE_KEYS):
            page = every[start : start + PAGE_KEYS]
            if len(page) == 1:
                self._bucket.ask("DELETE", page[0], refusals=("NoSuchKey",))
            else:
                self._delete_page(page)

    def check(self) -> None:
        """Finds the bucket, or makes it, and tries what is needed; see the port."""
        try_bucket(self._bucket, self, self._make_bucket)

    def sweep(self) -> None:
        """Finds nothing: an object is written in one piece."""

    def close(self) -> None:
        """Ends the connections."""
        self._bucket.close()

    def _write(self, key: str, content: bytes, condition: Mapping[str, str], *refusals: str) -> tuple[Answer, bool]:
        """Writes with the checksum, by which the store refuses what arrives otherwise, and which it tells with it."""
        check_key(key)
        return self._bucket.ask("PUT", key, content, {_CHECKSUM: _digest(content), **condition}, refusals=refusals)

    def _own(self, key: str, content: bytes) -> str | None:
        """Returns the ETag of an object that has this content: then the write whose answer got lost was ours."""
        found = self.get(key)
        return found.etag if isinstance(found, Object) and found.content == content else None

    def _delete_page(self, keys: Iterable[str]) -> None:
        objects = "".join(f"<Object><Key>{key}</Key></Object>" for key in keys)
        body = f"<Delete><Quiet>true</Quiet>{objects}</Delete>".encode()
        result = self._bucket.parsed("POST", {"delete": ""}, body, {"Content-MD5": md5_of(body)})
        for error in result.iterfind("{*}Error"):
            answer = Answer(200, error.findtext("{*}Code") or "")
            if answer.code != "NoSuchKey":
                raise NotReady(meaning(self._bucket.address, answer, f"DELETE {error.findtext('{*}Key')}"))


def create() -> Store:
    """Returns the store in the bucket of the settings."""
    return S3Backend(Settings())  # type: ignore[call-arg]  # the environment has them


def _digest(content: bytes) -> str:
    return base64.b64encode(hashlib.sha256(content).digest()).decode()


def _unless(etag: str) -> dict[str, str]:
    return {"x-amz-checksum-mode": "ENABLED"} | ({"If-None-Match": f'"{etag}"'} if etag else {})


def _place(after: str) -> dict[str, str]:
    return {"start-after": after} if after else {}


def _listing(folder: str, limit: int | None, place: Mapping[str, str]) -> dict[str, str]:
    keys = PAGE_KEYS if limit is None else min(PAGE_KEYS, limit)
    return {"list-type": "2", "prefix": folder, "max-keys": str(keys), **place}


def _etag(answer: Answer) -> str:
    return answer.headers["ETag"].strip('"')


def _entry(element: ElementTree.Element) -> Entry:
    texts = {child.tag.rpartition("}")[2]: child.text or "" for child in element}
    modified = datetime.fromisoformat(texts.get("LastModified", ""))
    return Entry(texts.get("Key", ""), int(texts.get("Size", "")), modified.timestamp())
