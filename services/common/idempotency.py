"""The idempotency key of the call being served: a retry with the same key gets the result of the first try."""

import contextvars
import hashlib
import re
from typing import Any

from services.common.errors import InvalidRequest

HEADER = "idempotency-key"
"""Metadata key with which callers send it: 1 to 64 letters, digits, hyphens."""

_key: contextvars.ContextVar[str] = contextvars.ContextVar("idempotency_key", default="")
_asked: contextvars.ContextVar[Any] = contextvars.ContextVar("idempotency_asked", default=None)


def key() -> str:
    """Return the key of the call that this context serves, 32 hex digits; empty when the caller sent none."""
    return _key.get()


def start(method: str, sent: str) -> None:
    """Begin a call with what the caller sent; the same key of another method is another key.

    Raises:
        InvalidRequest: It is no key.
    """
    if sent and not re.fullmatch(r"[A-Za-z0-9-]{1,64}", sent):
        raise InvalidRequest(HEADER, f"{sent[:80]!a} is no key; send 1 to 64 letters A-Z a-z, digits, hyphens")
    digest = hashlib.sha256(f"{method} {sent}".encode())
    _key.set(digest.hexdigest()[:32] if sent else "")
    _asked.set(digest if sent else None)  # The key, which is kept nowhere, makes a digest of names impossible to guess.


def add(content: bytes) -> None:
    """Add to the digest of what is asked: the request, or each part of a stream."""
    if asked := _asked.get():
        asked.update(content)


def asked() -> str:
    """Return the digest of what was asked so far; empty when the caller sent no key."""
    return digest.hexdigest() if (digest := _asked.get()) else ""
