"""Object storage in an S3 bucket, by the public methods of the `minio` client."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import urllib3
from minio import Minio
from minio.commonconfig import ENABLED
from minio.credentials.credentials import Credentials
from minio.credentials.providers import Provider
from minio.deleteobjects import DeleteObject
from minio.error import MinioException, S3Error
from minio.versioningconfig import SUSPENDED
from urllib3.exceptions import HTTPError, MaxRetryError

from services.common.errors import FailedPrecondition, NotReady, Overloaded
from services.memory.blobs import IMPORT, LISTED_AT_ONCE, Entry
from services.memory.settings import DatabaseSettings

Result = TypeVar("Result")

ATTEMPTS = 3
"""Writes are to keys that nobody else writes, so each request may be repeated."""

_CREDENTIALS = (
    "set E3RG_MEMORY_S3_ACCESS_KEY and _SECRET_KEY, or the files that _ACCESS_KEY_FILE and _SECRET_KEY_FILE name"
)
_REMEDIES = {
    "AccessDenied": "these credentials must list the bucket, read its versioning, and read, write and delete objects",
    "AuthorizationHeaderMalformed": "set E3RG_MEMORY_S3_REGION to the bucket's region",
    "InvalidAccessKeyId": _CREDENTIALS,
    "NoSuchBucket": "make it, or set E3RG_MEMORY_S3_CREATE_BUCKET=true",
    "PermanentRedirect": "set E3RG_MEMORY_S3_REGION to the bucket's region",
    "RequestTimeTooSkewed": "set the clocks of this machine and of the storage right",
    "SignatureDoesNotMatch": _CREDENTIALS,
}
_FULL = (
    "XMinioStorageFull",
    "EntityTooLarge",
    "QuotaExceeded",
    "XMinioAdminBucketQuotaExceeded",
    "InsufficientStorage",
)


class Keys(Provider):
    """Credentials from settings or files; a file is read again for each request, so a rotated key counts at once."""

    def __init__(self, settings: DatabaseSettings) -> None:
        self._settings = settings

    def retrieve(self) -> Credentials:
        """Return both keys; `NotReady` when a file cannot be read, or is empty."""
        settings = self._settings
        access = settings.s3_access_key.get_secret_value() or _text(settings.s3_access_key_file)
        return Credentials(access, settings.s3_secret_key.get_secret_value() or _text(settings.s3_secret_key_file))


class S3Blobs:
    """Objects in a bucket. See the port for what each method promises."""

    def __init__(self, settings: DatabaseSettings) -> None:
        self._bucket, self._settings = settings.s3_bucket, settings
        self._place = (
            f"{'https' if settings.s3_tls else 'http'}://{settings.s3_endpoint}, bucket {settings.s3_bucket!r}"
        )
        self._client = Minio(
            endpoint=settings.s3_endpoint,
            credentials=Keys(settings),
            secure=settings.s3_tls,
            region=settings.s3_region,
            http_client=urllib3.PoolManager(
                timeout=urllib3.Timeout(connect=settings.s3_timeout_s, read=settings.s3_timeout_s),
                retries=urllib3.Retry(ATTEMPTS - 1, backoff_factor=0.1, status_forcelist=[500, 502, 503, 504]),
                cert_reqs="CERT_REQUIRED",
                ca_certs=str(settings.s3_ca_file) if settings.s3_ca_file else None,
                maxsize=16,
            ),
        )

    def put(self, key: str, content: bytes) -> None:
        """Write an object in one request; see the port."""
        self._ask(f"PUT {key}", lambda: self._client.put_object(self._bucket, key, BytesIO(content), len(content)))

    def get(self, key: str) -> bytes | None:
        """Read an object; see the port."""

        def read() -> bytes:
            with closing(self._client.get_object(self._bucket, key)) as response:
                return response.read()

        try:
            return self._ask(f"GET {key}", read)
        except KeyError:
            return None

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects, a thousand in a request; see the port."""

        def remove() -> None:
            for error in self._client.remove_objects(self._bucket, map(DeleteObject, keys)):
                raise NotReady(f"the object storage at {self._place} does not delete {error.name}: {error.message}")

        self._ask(f"DELETE {len(keys)} objects", remove)

    def list(self, prefix: str) -> Iterator[Entry]:
        """Yield objects by key; see the port."""
        last = ""
        page: list[Any] = [None] * LISTED_AT_ONCE

        def read() -> list[Any]:
            # Anew for each try: a generator that has failed ends like a listing that is whole.
            found = self._client.list_objects(self._bucket, prefix, recursive=True, start_after=last or None)
            return list(islice(found, LISTED_AT_ONCE))

        while len(page) == LISTED_AT_ONCE:
            page = self._ask(f"LIST {prefix}", read)
            for each in page:
                last, modified_s = each.object_name or "", each.last_modified.timestamp() if each.last_modified else 0.0
                yield Entry(last, each.size or 0, modified_s)

    def check(self) -> None:
        """Make the bucket where that is allowed, and look at it; see the port."""
        if self._settings.s3_create_bucket and not self._ask("HEAD", lambda: self._client.bucket_exists(self._bucket)):
            self._ask("MAKE", lambda: self._client.make_bucket(self._bucket, self._settings.s3_region))
        status = self._ask("versioning", lambda: self._client.get_bucket_versioning(self._bucket)).status
        if status in (ENABLED, SUSPENDED):  # Suspended: it still has the versions of before.
            problem = f"bucket {self._bucket!r} keeps versions: erased objects would stay in it"
            raise FailedPrecondition(f"{problem}; name a bucket without versioning in E3RG_MEMORY_S3_BUCKET")
        if self.get("layout") is not None:
            problem = f"bucket {self._bucket!r} holds a store of an earlier version; nothing in it was touched"
            raise FailedPrecondition(f"{problem}. Choose another E3RG_MEMORY_S3_BUCKET and bring it in with {IMPORT}")

    def _ask(self, what: str, call: Callable[[], Result]) -> Result:
        """Return the answer to a request; one that was cut is sent again.

        Raises:
            NotReady: The storage cannot be reached, or refuses; the message says why and what to do.
            Overloaded: It is full.
            KeyError: There is no such object.
        """
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return call()
            except S3Error as error:
                if error.code in ("NoSuchKey", "NoSuchObject"):
                    raise KeyError(what) from error
                if error.code in _FULL or error.response.status == 507:
                    problem = f"is full ({error.code}); nothing of this call is kept; erase something or make room"
                    raise Overloaded(f"the object storage at {self._place} {problem}", None) from error
                is_made = error.code == "NoSuchBucket" and self._settings.s3_create_bucket
                remedy = "start the service, which makes it" if is_made else _REMEDIES.get(error.code or "")
                problem = f"refuses {what} ({error.code}): {remedy or 'its log says why'}"
                is_last = attempt == ATTEMPTS or error.response.status < 500
                cause: Exception = error
            # SyntaxError: an answer that is no XML.
            except (HTTPError, OSError, MinioException, ValueError, SyntaxError) as error:
                reason = getattr(error, "reason", None) or error
                problem = f"cannot be reached ({type(reason).__name__} at {what}); retry"
                is_last, cause = attempt == ATTEMPTS or isinstance(error, MaxRetryError), error
            if is_last:
                raise NotReady(f"the object storage at {self._place} {problem}") from cause
        raise AssertionError("unreachable")


def _text(file: Path | None) -> str:
    try:
        text = file.read_text("utf-8").strip() if file else ""
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8"
        raise NotReady(f"the object storage's credentials cannot be read: {file}: {reason}") from error
    if not text:
        raise NotReady(f"the object storage's credentials cannot be read: {file} is empty")
    return text
