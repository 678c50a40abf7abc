"""What is sent takes its room until it was read: callers who read nothing do not fill the memory."""

from collections.abc import Iterator

import pytest

from services.common.errors import Overloaded
from services.common.inference import InferenceQueue
from services.common.media import CHUNK_BYTES_MAX
from services.memory.memory import Memory
from services.memory.wire.desk import Desk, Queues
from services.memory.wire.uploads import ROOM_BYTES, Declared
from tests.fake_store import FakeStore
from tests.talking import WordEmbedder

FILE = bytes(CHUNK_BYTES_MAX + 1)
ALL_ROOM = [Declared("all", ROOM_BYTES)]


@pytest.fixture
def desk() -> Iterator[Desk]:
    memory = Memory(FakeStore(), WordEmbedder())
    queues = Queues(*(InferenceQueue("memory", name, 8) for name in ("store", "meaning", "archives", "imports")))
    yield Desk(memory, queues)
    queues.close()
    memory.close()


async def test_a_file_takes_its_room_until_its_last_piece_is_taken(desk: Desk) -> None:
    pieces = desk.sending(lambda: FILE)
    first = await anext(pieces)
    with pytest.raises(Overloaded, match=f"{len(FILE)} bytes of files are on their way"), desk.downloads.room(ALL_ROOM):
        pass
    assert first + b"".join([piece async for piece in pieces]) == FILE
    with desk.downloads.room(ALL_ROOM):
        pass


async def test_a_caller_who_goes_gives_the_room_back(desk: Desk) -> None:
    pieces = desk.sending(lambda: FILE)
    await anext(pieces)
    await pieces.aclose()
    with desk.downloads.room(ALL_ROOM):
        pass


async def test_what_there_is_no_room_for_is_not_sent_and_uploads_have_their_own(desk: Desk) -> None:
    with desk.uploads.room(ALL_ROOM):
        assert b"".join([piece async for piece in desk.sending(lambda: FILE)]) == FILE
    with desk.downloads.room(ALL_ROOM), pytest.raises(Overloaded, match="are too many; retry in 1 s"):
        await anext(desk.sending(lambda: FILE))
