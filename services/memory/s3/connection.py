"""One request to an S3 store: signed by the `minio` client, sent once, and answered in the time that is left or not.

The client's public methods know no conditional writes, and repeat a request whose answer got lost; a conditional write
that is repeated is refused for its own success. So this asks by the method below them, of exactly one version.
"""

import ssl
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, cast
from xml.etree import ElementTree

import urllib3
from minio import Minio
from minio.credentials.providers import Provider
from minio.error import InvalidResponseError, S3Error, ServerError
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, ReadTimeoutError, SSLError

from services.common import deadline
from services.common.errors import DeadlineExceeded
from services.memory.s3.ahead import BROKEN, PIECE_BYTES, Ahead, Read, Sent, read_of
from services.memory.s3.silence import Silence

UPLOAD_BYTES_PER_S_MIN = 2**20
"""A large object gets this much more time than a small one."""

SILENT_SHARE = 0.5
"""A store that says nothing to anybody for this share of the longest wait hangs. Callers allow less than all of it."""


class NoAnswer(Exception):
    """No answer came, or half of one. `sent` tells whether the store may have done what it was asked for."""

    def __init__(self, why: str, sent: bool) -> None:
        super().__init__(why)
        self.sent = sent


@dataclass(frozen=True)
class Answer:
    """What the store says; `code` is S3's name of an error, empty when there is none or the store names none."""

    status: int
    code: str = ""
    content: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Address:
    """Where a bucket is; `ca_file` is empty for the system's authorities."""

    endpoint: str
    bucket: str
    region: str
    tls: bool
    ca_file: str

    def __str__(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.endpoint}"


class Connection:
    """The way to a bucket. Any thread may ask.

    Args:
        address: Of the bucket.
        keys: The credentials.
        timeout_s: Longest wait for the store to accept a connection, to answer, and to go on answering.
    """

    def __init__(self, address: Address, keys: Provider, timeout_s: float) -> None:
        self._address = address
        self._silence = Silence(f"the object store at {address}", SILENT_SHARE * timeout_s)
        self._pool = _Once(timeout_s, address.ca_file, self._silence)
        self._client = Minio(
            endpoint=address.endpoint,
            credentials=keys,
            secure=address.tls,
            region=address.region,
            http_client=self._pool,
        )
        self._client.disable_virtual_style_endpoint()  # type: ignore[no-untyped-call]
        url = self._client._base_url.build(method="GET", region=address.region, bucket_name=address.bucket)
        pool = self._pool.connection_from_url(f"{url.scheme}://{url.netloc}")
        self._ahead = Ahead(pool, url, address.region, keys)

    def ask(
        self,
        method: str,
        key: str = "",
        content: bytes = b"",
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Answer:
        """Asks once about the object `key`, or the bucket.

        Raises:
            NoAnswer: None came, or half of one.
            Silent: The store hangs, and another request tries it; nothing was sent.
            DeadlineExceeded: The time that the caller allows is over; nothing was sent.
        """
        asked = self._ahead.taken(read_of(key, headers, query)) if method == "GET" else None
        if asked and (answer := self._answer(asked)):
            return answer
        try:
            response = self._client._execute(
                method,
                self._address.bucket,
                key or None,
                body=content,
                headers=dict(headers or {}),
                query_params=dict(query or {}),
                preload_content=False,
            )
            return Answer(response.status, "", _read(response), response.headers)
        except S3Error as error:
            return Answer(error.response.status, error.code or "")
        except ServerError as error:
            return Answer(error.status_code)
        except InvalidResponseError as error:
            return Answer(error._code)
        except (HTTPError, OSError, ElementTree.ParseError, UnicodeDecodeError) as error:
            distrusted = isinstance(error, SSLError) and isinstance(error.args[0], ssl.SSLCertVerificationError)
            sent = not distrusted and not isinstance(error, (NewConnectionError, ConnectTimeoutError))
            raise NoAnswer(self._why(error), sent) from error

    def ahead(self, reads: Iterable[Read]) -> AbstractContextManager[None]:
        """Sends requests, none to a store that hangs; `ask` finds their answers in the block."""
        return self._ahead.sending(() if self._silence.is_on else reads, self._pool.wait_s)

    def close(self) -> None:
        """Ends the connections."""
        self._pool.clear()

    def _answer(self, sent: Sent) -> Answer | None:
        """Returns the answer to what was sent ahead; None when it is a refusal: who asks again is told why."""
        try:
            with self._silence.listening():
                response, content = sent.answer(self._pool.wait_s)
        except BROKEN as error:
            raise NoAnswer(self._why(error), sent=True) from error
        if response.status not in (200, 304):
            return None
        return Answer(response.status, "", content, cast("Mapping[str, str]", response.headers))

    def _why(self, error: Exception) -> str:
        match error:
            case SSLError():
                what = f"speaks no TLS that this service trusts ({error}); set E3RG_MEMORY_S3_CA_FILE or _TLS"
            case NewConnectionError() | ConnectTimeoutError():
                reason = str(error.__cause__ or "no answer")
                what = f"cannot be reached ({reason}); start it, or set E3RG_MEMORY_S3_ENDPOINT"
            case ReadTimeoutError() | TimeoutError():
                what = "does not answer in time; retry, or set E3RG_MEMORY_S3_TIMEOUT_S"
            case _:
                what = f"broke the connection off ({type(error).__name__}); retry"
        return f"the object store at {self._address} {what}"


class _Once(urllib3.PoolManager):
    """Sends a request once, goes after no redirect, and waits no longer than the caller of this call allows.

    It waits for a store that hangs only if no other request does.
    """

    def __init__(self, timeout_s: float, ca_file: str, silence: Silence) -> None:
        super().__init__(maxsize=64, retries=False, cert_reqs="CERT_REQUIRED", ca_certs=ca_file or None)
        self._timeout_s = timeout_s
        self._silence = silence

    def urlopen(  # type: ignore[override]
        self, method: str, url: str, redirect: bool = False, **options: Any
    ) -> urllib3.BaseHTTPResponse:
        wait_s = self.wait_s(len(options.get("body") or b""))
        # What is sent of a body counts as connecting.
        timeout = urllib3.Timeout(connect=wait_s, read=wait_s)
        with self._silence.asking(wait_s):
            return super().urlopen(method, url, redirect=False, timeout=timeout, **options)

    def wait_s(self, size_bytes: int = 0) -> float:
        """Returns how long to wait for an answer to so many bytes.

        Raises:
            DeadlineExceeded: The time that the caller allows is over.
        """
        wait_s = self._timeout_s + size_bytes / UPLOAD_BYTES_PER_S_MIN
        left_s = deadline.remaining_s()
        if left_s is not None:
            wait_s = min(wait_s, left_s)
        if wait_s <= 0:
            raise DeadlineExceeded("the time that the call allows was over before the object store was asked")
        return wait_s


def _read(response: urllib3.BaseHTTPResponse) -> bytes:
    """Returns the whole body. A store that sends a byte now and then does not keep a caller beyond its deadline."""
    content = bytearray()
    try:
        while piece := response.read1(PIECE_BYTES):  # Not `read`, which waits until it has so many.
            content += piece
            if deadline.remaining_s() == 0:
                raise TimeoutError("the time that the call allows is over")
    except BaseException:
        response.close()
        raise
    response.release_conn()
    return bytes(content)
