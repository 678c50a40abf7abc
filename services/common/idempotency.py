"""The idempotency key of the call being served: a retry with the same key gets the result of the first try."""

import contextvars
import hashlib
import re

HEADER = "idempotency-key"
"""Metadata key with which callers send it: 1 to 64 letters, digits, hyphens."""

_key: contextvars.ContextVar[str] = contextvars.ContextVar("idempotency_key", default="")


def key() -> str:
    """Return the key of the call that this context serves, 32 hex digits; empty when the caller sent none."""
    return _key.get()


def start(method: str, sent: str) -> None:
    """Begin a call with what the caller sent; the same key of another method is another key."""
    is_key = re.fullmatch(r"[A-Za-z0-9-]{1,64}", sent) is not None
    _key.set(hashlib.sha256(f"{method} {sent}".encode()).hexdigest()[:32] if is_key else "")
