"""What every servicer does with a call before and after the memory has it."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from services.common.errors import InvalidRequest, TooLarge
from services.common.inference import InferenceQueue
from services.common.media import chunks
from services.memory.checks import check_id
from services.memory.memory import Memory
from services.memory.opening import Opening
from services.memory.wire.uploads import Declared, Transfers, files_of, header_of

Result = TypeVar("Result")

PAGE_DEFAULT, PAGE_MAX = 50, 200
"""Entries of a page."""


@dataclass(frozen=True)
class Queues:
    """Who runs what, so that nothing waits for what takes longer.

    Attributes:
        store: What reads and writes; milliseconds each.
        meaning: What needs the sentence embedding, of which there is one.
        archives: What takes long where there is much of it.
        imports: What takes as long as its caller does.
    """

    store: InferenceQueue
    meaning: InferenceQueue
    archives: InferenceQueue
    imports: InferenceQueue

    def close(self) -> None:
        """Refuses new calls, and waits for the running ones."""
        for queue in (self.store, self.meaning, self.archives, self.imports):
            queue.close()


class Desk:
    """Where calls come in.

    Args:
        memory: What is asked.
        queues: Run the blocking calls.
        opening: Refuses every call until the store is open; one that is open needs none.
    """

    def __init__(self, memory: Memory, queues: Queues, opening: Opening | None = None) -> None:
        self.memory = memory
        self.store, self.meaning = queues.store, queues.meaning
        self.archives, self.imports = queues.archives, queues.imports
        self.uploads, self.downloads = Transfers(), Transfers()
        self._opening = opening

    def check_open(self) -> None:
        """Refuses calls that come too early.

        Raises:
            NotReady: The memory cannot be used yet; the message says why.
        """
        if self._opening:
            self._opening.check()

    def check(self, tenant: str, field: str = "tenant") -> None:
        """Refuses calls that come too early, or that name no tenant.

        Raises:
            NotReady: The memory cannot be used yet.
            InvalidRequest: That is no tenant.
        """
        self.check_open()
        check_id(field, tenant)

    async def header(self, parts: AsyncIterator[Any]) -> Any:
        """Returns the header of a stream, if it names a tenant.

        Raises:
            NotReady: The memory cannot be used yet.
            InvalidRequest: There is none, or it names none.
        """
        self.check_open()
        header = await header_of(parts)
        check_id("header.tenant", header.tenant)
        return header

    @asynccontextmanager
    async def file(self, parts: AsyncIterator[Any], size_bytes: int, bytes_max: int) -> AsyncIterator[bytes]:
        """Reads the one file that follows a header; it takes its room in the block.

        Raises:
            InvalidRequest: It is empty, or not of the size that was declared.
            TooLarge: It is; nothing of it was read.
            Overloaded: There is no room.
        """
        if size_bytes > bytes_max:
            raise TooLarge("header.size_bytes", f"{size_bytes}; send at most {bytes_max} ({bytes_max >> 20} MiB)")
        if not size_bytes:
            raise InvalidRequest("header.size_bytes", f"0; declare the size of what follows, 1 to {bytes_max}")
        declared = [Declared("content", size_bytes)]
        with self.uploads.room(declared):
            (content,) = await files_of(parts, declared)
            yield content

    async def sending(self, content: Callable[[], bytes]) -> AsyncGenerator[bytes]:
        """Yields, in pieces, what `content` returns; it takes its room until the last one is taken.

        Raises:
            Overloaded: There is no room: callers do not read what was sent to them.
        """
        found = await self.store.run(content)
        try:
            with self.downloads.room([Declared("content", len(found))]):
                for piece in chunks(found):
                    yield piece
        finally:
            del found  # The refusal would hold it, with this frame.

    async def writing(self, pieces: Callable[[], Iterator[bytes]]) -> AsyncGenerator[bytes]:
        """Yields what `pieces` does, asking for the next one when the caller has the one before."""
        made: list[Iterator[bytes]] = []

        def following() -> bytes | None:
            if not made:
                made.append(pieces())
            return next(made[0], None)

        try:
            begun = False
            while (content := await _run(self.archives, following, begun)) is not None:
                begun = True
                for piece in chunks(content):
                    yield piece
        finally:
            if made and (close := getattr(made[0], "close", None)):
                self.archives.afterwards(close)


async def _run(queue: InferenceQueue, function: Callable[[], Result], begun: bool) -> Result:
    def once() -> Iterator[Result]:
        yield function()

    async with aclosing(queue.stream(once, begun=begun)) as results:
        (result,) = [result async for result in results]
    return result


def page_size(asked: int) -> int:
    """Returns how many entries a page gets.

    Raises:
        TooLarge: More than there may be.
    """
    if asked > PAGE_MAX:
        raise TooLarge("page_size", f"{asked}; send 1 to {PAGE_MAX}, or 0 for {PAGE_DEFAULT}")
    return asked or PAGE_DEFAULT


def present(header: object, field: str, path: str) -> None:
    """Refuses a message that lacks a field.

    Raises:
        InvalidRequest: It lacks it.
    """
    if not header.HasField(field):  # type: ignore[attr-defined]
        raise InvalidRequest(path, "missing; it is required")
