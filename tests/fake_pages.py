"""What a fake memory cuts lists and names files with."""

import hashlib
from collections.abc import Sequence
from typing import TypeVar

PAGE = 2
"""Things on a page: few, so that a test sees that all pages are read."""

Item = TypeVar("Item")


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def page_of(items: Sequence[Item], token: str) -> tuple[Sequence[Item], str]:
    """A page, and the token of the next; empty on the last."""
    start = int(token or 0)
    end = start + PAGE
    return items[start:end], str(end) if end < len(items) else ""
