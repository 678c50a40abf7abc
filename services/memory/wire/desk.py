"""What every servicer does with a call before and after the memory has it."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from services.common.errors import InvalidRequest, TooLarge
from services.common.media import chunks
from services.memory.checks import check_id
from services.memory.memory import Memory
from services.memory.wire.uploads import Declared, Transfers, files_of, header_of

PAGE_DEFAULT, PAGE_MAX = 50, 200
"""Entries of a page."""


class Desk:
    """Admits calls.

    Args:
        memory: Where they go.
        check_open: Raises `NotReady` until the memory can be used.
    """

    def __init__(self, memory: Memory, check_open: Callable[[], None]) -> None:
        self.memory, self.check_open = memory, check_open
        self.uploads, self.downloads = Transfers(), Transfers()

    def check(self, tenant: str, field: str = "tenant") -> None:
        """Refuse a call that comes too early, or that names no tenant."""
        self.check_open()
        check_id(field, tenant)

    async def header(self, parts: AsyncIterator[Any]) -> Any:
        """Return the header of a stream, if it names a tenant."""
        self.check_open()
        header = await header_of(parts)
        check_id("header.tenant", header.tenant)
        return header

    @asynccontextmanager
    async def file(self, parts: AsyncIterator[Any], size_bytes: int, bytes_max: int) -> AsyncIterator[bytes]:
        """Read the one file that follows a header; too large a one is refused before a byte of it is read."""
        if size_bytes > bytes_max:
            raise TooLarge("header.size_bytes", f"{size_bytes}; send at most {bytes_max} ({bytes_max >> 20} MiB)")
        if not size_bytes:
            raise InvalidRequest("header.size_bytes", f"0; declare the size of what follows, 1 to {bytes_max}")
        declared = [Declared("content", size_bytes)]
        with self.uploads.room(declared):
            (content,) = await files_of(parts, declared)
            yield content

    async def sending(self, reading: Awaitable[bytes]) -> AsyncGenerator[bytes]:
        """Yield a content in chunks; it takes its room until the last one is taken."""
        content = await reading
        try:
            with self.downloads.room([Declared("content", len(content))]):
                for chunk in chunks(content):
                    yield chunk
        finally:
            del content  # A refusal would hold it, with this frame.


def page_size(asked: int) -> int:
    """Return how many entries a page gets.

    Raises:
        TooLarge: More than there may be.
    """
    if asked > PAGE_MAX:
        raise TooLarge("page_size", f"{asked}; send 1 to {PAGE_MAX}, or 0 for {PAGE_DEFAULT}")
    return asked or PAGE_DEFAULT


def present(message: Any, field: str, path: str) -> None:
    """Refuse a message that lacks a field.

    Raises:
        InvalidRequest: It lacks it.
    """
    if not message.HasField(field):
        raise InvalidRequest(path, "missing; it is required")
