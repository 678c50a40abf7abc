"""How a dataclass becomes an object of the store and back: its SHA-256 in the first line, then JSON."""

import hashlib
from typing import Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from services.common.errors import Damaged

Record = TypeVar("Record")


def digest_of(content: bytes) -> str:
    """Returns the SHA-256 (hex) of `content`."""
    return hashlib.sha256(content).hexdigest()


def damaged(key: str, problem: str) -> Damaged:
    """Returns the error for an object that must not be served; it names the object."""
    return Damaged(f"stored object {key!r} is damaged: {problem}; restore it from a backup, or remove what it is of")


def sealed(body: bytes) -> bytes:
    """Returns an object that holds `body` and its SHA-256."""
    return digest_of(body).encode() + b"\n" + body


def unsealed(key: str, content: bytes) -> bytes:
    """Returns what the object `key` holds.

    Raises:
        Damaged: The object is not what was written; the message names it.
    """
    digest, _, body = content.partition(b"\n")
    if digest_of(body).encode() != digest:
        raise damaged(key, "its SHA-256 does not match")
    return body


class Codec(Generic[Record]):
    """Writes and reads the dataclass `kind`."""

    def __init__(self, kind: type[Record]) -> None:
        self._kind = kind
        self._adapter = TypeAdapter(kind)

    def encode(self, record: Record) -> bytes:
        """Returns `record` as an object."""
        return sealed(self._adapter.dump_json(record))

    def decode(self, key: str, content: bytes) -> Record:
        """Returns the record that the object `key` holds.

        Raises:
            Damaged: The object is not what was written; the message names it.
        """
        body = unsealed(key, content)
        try:
            return self._adapter.validate_json(body)
        except ValidationError as error:
            # The bytes are as written, but by a version that wrote something else.
            raise damaged(key, f"it is not a {self._kind.__name__} of this version") from error
