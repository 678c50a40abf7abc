"""A bucket that is asked until it answers, within the time that the caller allows."""

import base64
import hashlib
import random
import time
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from itertools import count
from xml.etree import ElementTree

from minio.credentials.providers import Provider

from services.common import deadline
from services.common.errors import DeadlineExceeded, NotReady
from services.memory.s3.ahead import Read
from services.memory.s3.connection import Address, Answer, Connection, NoAnswer
from services.memory.s3.refusals import is_passing, meaning
from services.memory.s3.silence import Silent

ATTEMPTS = 3
"""A request is made so often at most."""

RETRY_S = 0.1
"""Wait before the second attempt, give or take half; three times as long before each further one."""


class NoBucket(NotReady):
    """The store has no such bucket."""


class Bucket:
    """Asks about the objects of a bucket. Any thread may.

    Every method raises `NotReady` when the store cannot be reached or refuses, with the reason and what to do, at once
    while it hangs and another request tries it (`silence.py`), and `DeadlineExceeded` when the time that the caller
    allows is over.

    Args:
        address: Of the bucket.
        keys: The credentials.
        timeout_s: Longest wait for an answer.
    """

    def __init__(self, address: Address, keys: Provider, timeout_s: float) -> None:
        self.address = address
        self._connection = Connection(address, keys, timeout_s)

    def ask(
        self,
        method: str,
        key: str = "",
        content: bytes = b"",
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        refusals: tuple[str, ...] = (),
    ) -> tuple[Answer, bool]:
        """Asks about the object `key`, or the bucket, until there is an answer.

        Args:
            method: Of HTTP.
            key: May be empty.
            content: What is sent.
            headers: Beside those of every request.
            query: Parameters of the URL.
            refusals: Statuses ("412") or codes ("NoSuchKey") that are answers too.

        Returns:
            The answer, and whether an earlier attempt, whose answer got lost, may have done what was asked.
        """
        doubtful, problem = False, ""
        for attempt in count(1):
            try:
                answer = self._connection.ask(method, key, content, headers, query)
            except Silent as refusal:  # Waiting for it here would hold a thread that others can use.
                raise NotReady(problem or str(refusal)) from refusal
            except NoAnswer as error:
                problem = str(error)
                doubtful |= error.sent
            else:
                if answer.status < 300 or {str(answer.status), answer.code} & set(refusals):
                    return answer, doubtful
                problem = meaning(self.address, answer, f"{method} {key}".strip())
                if answer.code == "NoSuchBucket":
                    raise NoBucket(problem)
                if not is_passing(answer):
                    raise NotReady(problem)
                doubtful |= answer.status >= 500
            _wait(attempt, problem)
        raise AssertionError  # The loop has no end.

    def parsed(
        self, method: str, query: Mapping[str, str], content: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> ElementTree.Element:
        """Asks about the bucket until there is an answer that can be read; returns that."""
        for attempt in count(1):
            answer, _ = self.ask(method, "", content, headers, query)
            try:
                return ElementTree.fromstring(answer.content)
            except ElementTree.ParseError as error:
                _wait(
                    attempt,
                    f"the object store at {self.address} answers {method} {dict(query)} with what is no XML ({error})",
                )
        raise AssertionError  # The loop has no end.

    def ahead(self, reads: Iterable[Read]) -> AbstractContextManager[None]:
        """Sends requests; whoever asks the same in the block gets their answers."""
        return self._connection.ahead(reads)

    def make(self) -> None:
        """Makes the bucket; that another has made it meanwhile is fine."""
        region = self.address.region
        place = f"<LocationConstraint>{region}</LocationConstraint>" if region != "us-east-1" else ""
        body = f"<CreateBucketConfiguration>{place}</CreateBucketConfiguration>" if place else ""
        self.ask("PUT", content=body.encode(), refusals=("BucketAlreadyOwnedByYou",))

    def close(self) -> None:
        """Ends the connections."""
        self._connection.close()


def md5_of(content: bytes) -> str:
    """Returns the digest that S3 asks for where it knows no other."""
    return base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()


def _wait(attempt: int, problem: str) -> None:
    """Waits before the next attempt; raises when there is none."""
    wait_s = RETRY_S * 3 ** (attempt - 1) * random.uniform(0.5, 1.5)
    left_s = deadline.remaining_s()
    if left_s == 0:
        raise DeadlineExceeded(f"{problem}; the time that the call allows is over, allow more")
    if attempt == ATTEMPTS or (left_s is not None and left_s <= wait_s):
        raise NotReady(problem)
    time.sleep(wait_s)
