"""Pages of lists, each small enough for a message."""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TypeVar

BYTES_MAX = 2**20
"""Most bytes on a page, so that it fits into one message; one entry always does."""

Entry = TypeVar("Entry")


def fitting(entries: Sequence[Entry], size_of: Callable[[Entry], int]) -> list[Entry]:
    """Return the first entries that fit into a message; at least one."""
    sizes = accumulate(map(size_of, entries))
    return list(entries[: max(1, sum(size_bytes <= BYTES_MAX for size_bytes in sizes))])


def page_of(
    found: Sequence[Entry],
    page_size: int,
    token_of: Callable[[Entry], str],
    size_of: Callable[[Entry], int] = lambda _: 0,
) -> tuple[list[Entry], str]:
    """Return a page, and the token of its last entry when `found`, of one entry more than a page, goes on."""
    page = fitting(found[:page_size], size_of)
    return page, token_of(page[-1]) if len(page) < len(found) else ""
