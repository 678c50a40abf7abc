"""Room for files on their way, and callers who fall silent."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest

from e3rg.memory.v1 import identities_pb2 as pb
from services.common.errors import DeadlineExceeded, Overloaded
from services.common.media import CHUNK_BYTES_MAX
from services.memory.uploads import (
    ROOM_BYTES,
    SILENCE_S_MAX,
    Declared,
    Transfers,
    contents_of,
    files_of,
    header_of,
)

FILE = bytes(CHUNK_BYTES_MAX + 1)


class Loop(asyncio.SelectorEventLoop):
    """An event loop whose clock a test sets forward."""

    ahead_s = 0.0

    def time(self) -> float:
        return super().time() + self.ahead_s


async def silent(*parts: Any) -> AsyncIterator[Any]:
    for part in parts:
        yield part
    await asyncio.Event().wait()


async def header() -> None:
    await header_of(silent())


async def files() -> None:
    await files_of(silent(pb.AddIdentityRequest(content=b"x")), [Declared("file", 2)])


async def contents() -> None:
    async for _ in contents_of(silent(pb.ImportIdentityRequest(content=b"x"))):
        pass


@pytest.mark.parametrize("waiting", [header, files, contents])
def test_a_caller_who_falls_silent_is_not_waited_for(waiting: Any) -> None:
    loop = Loop()

    async def run(work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        await asyncio.sleep(0)
        loop.ahead_s += SILENCE_S_MAX - 1
        await asyncio.sleep(0)
        assert not task.done()
        loop.ahead_s += 1
        with pytest.raises(DeadlineExceeded, match="no part came for 30 s; send them one after the other"):
            await task

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(run(waiting()))


def test_more_than_there_is_room_for_is_told_to_come_again() -> None:
    uploads = Transfers(100)
    with uploads.room(60):
        problem = "60 bytes of files are on their way, and 41 more are too many; retry in 1 s"
        with pytest.raises(Overloaded, match=problem) as refusal, uploads.room(41):
            pass
        assert refusal.value.retry_after_s == 1
        with uploads.room(40):
            pass
    with uploads.room(100):
        pass


@pytest.mark.parametrize("ends", ["read", "gone"])
async def test_a_file_takes_its_room_until_its_last_chunk_is_taken_or_the_caller_is_gone(ends: str) -> None:
    downloads = Transfers(ROOM_BYTES)
    chunks = downloads.chunked(FILE)
    first = await anext(chunks)
    with pytest.raises(Overloaded, match=f"{len(FILE)} bytes of files are on their way"), downloads.room(ROOM_BYTES):
        pass
    if ends == "read":
        assert first + b"".join([chunk async for chunk in chunks]) == FILE
    else:
        await chunks.aclose()
    with downloads.room(ROOM_BYTES), pytest.raises(Overloaded, match="are too many; retry in 1 s"):
        await anext(downloads.chunked(FILE))
