"""Reads that are sent before anybody waits for them: the store works on all at once, and one thread does it.

Recall waits for these, so they are signed here (AWS Signature Version 4) and spoken by `http.client`, which takes a
third of what the `minio` client takes; the connections are those of all requests. Whatever is not simply answered, the
client asks for again: it knows what refusals mean.
"""

import hashlib
import hmac
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPException, HTTPResponse, IncompleteRead
from typing import NamedTuple
from urllib.parse import SplitResult, quote

import minio.time
import urllib3
from minio.credentials.providers import Provider
from urllib3.connection import HTTPConnection
from urllib3.exceptions import HTTPError

from services.common import deadline
from services.common.errors import DeadlineExceeded, NotReady

BROKEN = (HTTPError, HTTPException, OSError)
"""No answer came, or half of one."""

PIECE_BYTES = 2**16

_NOTHING = hashlib.sha256(b"").hexdigest()


class Read(NamedTuple):
    """Asks about the object `key`, or the bucket when that is empty: the headers, and the parameters of the URL."""

    key: str
    headers: tuple[tuple[str, str], ...]
    query: tuple[tuple[str, str], ...]


def read_of(key: str, headers: Mapping[str, str] | None, query: Mapping[str, str] | None) -> Read:
    """Returns the request."""
    return Read(key, tuple(sorted((headers or {}).items())), tuple(sorted((query or {}).items())))


class Sent:
    """A request that is on its way, on a connection that it has to itself. `answer` or `drop` ends it."""

    def __init__(self, pool: urllib3.HTTPConnectionPool, request: bytes, wait_s: float) -> None:
        self._pool = pool
        self._connection: HTTPConnection = pool._get_conn()  # type: ignore[assignment]
        try:
            self._allow(wait_s)
            self._connection.send(request)
        except BaseException:
            self.drop()
            raise

    def answer(self, wait_s: Callable[[], float]) -> tuple[HTTPResponse, bytes]:
        """Returns the answer and its whole body."""
        content = bytearray()
        try:
            self._allow(wait_s())
            response = HTTPResponse(self._connection.sock, method="GET")
            response.begin()
            while piece := response.read1(PIECE_BYTES):
                content += piece
                if deadline.remaining_s() == 0:
                    raise TimeoutError("the time that the call allows is over")
            if response.length:
                raise IncompleteRead(bytes(content), response.length)
        except BaseException:
            self.drop()
            raise
        response.close()
        if response.will_close:
            self._connection.close()
        self._pool._put_conn(self._connection)
        return response, bytes(content)

    def drop(self) -> None:
        """Wants no answer any more."""
        self._connection.close()
        self._pool._put_conn(self._connection)

    def _allow(self, wait_s: float) -> None:
        self._connection.timeout = wait_s
        if self._connection.sock:
            self._connection.sock.settimeout(wait_s)


class _Here(threading.local):
    """What this thread has sent."""

    sent: dict[Read, Sent] | None = None


class Ahead:
    """Sends reads.

    Args:
        pool: The connections to the store.
        bucket: Its URL.
        region: Of the bucket.
        keys: The credentials.
    """

    def __init__(self, pool: urllib3.HTTPConnectionPool, bucket: SplitResult, region: str, keys: Provider) -> None:
        self._pool, self._bucket, self._region, self._keys = pool, bucket, region, keys
        self._derived = ("", "", b"")
        self._here = _Here()

    @contextmanager
    def sending(self, reads: Iterable[Read], wait_s: Callable[[], float]) -> Iterator[None]:
        """Sends requests; who asks for the same in the block, on this thread, gets the answer by `taken`.

        The first that cannot be sent is the last one, and raises nothing: whoever asks for it will hear why.
        """
        sent: dict[Read, Sent] = {}
        outer, self._here.sent = self._here.sent, sent
        try:
            with suppress(*BROKEN, NotReady, DeadlineExceeded):
                for read in reads:
                    sent[read] = Sent(self._pool, self._request(read), wait_s())
            yield
        finally:
            self._here.sent = outer
            for left in sent.values():
                left.drop()

    def taken(self, read: Read) -> Sent | None:
        """Returns the request, if it was sent; whoever takes it has to end it."""
        return self._here.sent.pop(read, None) if self._here.sent else None

    def _request(self, read: Read) -> bytes:
        """Returns what is sent. Source: docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html."""
        keys = self._keys.retrieve()
        now = minio.time.to_amz_date(minio.time.utcnow())
        path = f"{self._bucket.path}/{read.key}" if read.key else self._bucket.path  # Keys need no quoting.
        query = "&".join(f"{name}={quote(value, safe='')}" for name, value in read.query)
        own = {"host": self._bucket.netloc, "x-amz-content-sha256": _NOTHING, "x-amz-date": now}
        headers = sorted([*own.items(), *((name.lower(), value) for name, value in read.headers)])
        names = ";".join(name for name, _ in headers)
        lines = [f"{name}:{value}" for name, value in headers]
        asked = "\n".join(["GET", path, query, *lines, "", names, _NOTHING])
        scope = f"{now[:8]}/{self._region}/s3/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(asked.encode()).hexdigest()}"
        signature = hmac.digest(self._derived_key(keys.secret_key, now[:8]), text.encode(), "sha256").hex()
        signed = f"AWS4-HMAC-SHA256 Credential={keys.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
        target = f"{path}?{query}" if query else path
        return "\r\n".join([f"GET {target} HTTP/1.1", *lines, f"authorization: {signed}", "", ""]).encode()

    def _derived_key(self, secret: str, day: str) -> bytes:
        known_secret, known_day, key = self._derived
        if (known_secret, known_day) != (secret, day):
            key = f"AWS4{secret}".encode()
            for part in (day, self._region, "s3", "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._derived = (secret, day, key)
        return key
