"""Disks that are full: writes are refused with the reason, reads go on, and nothing acknowledged is lost."""

import itertools
import random
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import asyncpg
import grpc
import pytest

from e3rg.memory.v1 import erasure_pb2, memory_pb2
from services.memory.consistency import Findings, check
from services.memory.migrate import migrate
from tests.serving import refused
from tests.support.memory import TENANT, VOICE, WAV, Stubs, header, joined, parts, serving, turn
from tests.support.postgres import Urls
from tests.support.stacks import Stack

EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED
PORTRAIT = b"\x89PNG\r\n\x1a\nface"
MIB = 2**20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 8 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "tmpfs", str(place)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"the test needs to mount a tmpfs: {error}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


async def fill(write: Callable[[int], Awaitable[object]], reason: str) -> int:
    """Writes until the disk is full; returns how many writes were acknowledged."""
    for number in itertools.count():
        try:
            await write(number)
        except grpc.aio.AioRpcError as error:
            assert (error.code(), reason in str(error.details())) == (EXHAUSTED, True), error.details()
            return number
    raise AssertionError("unreachable")


async def erase(stubs: Stubs, person: str) -> float:
    request = erasure_pb2.ErasePersonRequest(tenant=TENANT, person=person, asked_by="the test")
    return (await stubs.erasure.ErasePerson(request)).audit.done_at_s


async def test_a_full_media_disk_refuses_clips_and_an_erasure_makes_room(disk: Path, tmp_path: Path) -> None:
    stack = Stack("sqlite-folder", tmp_path / "memory")
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "media").symlink_to(disk)
    reason = f"the media disk below {stack.folder}/media is full"
    async with serving(stack.settings(cache_bytes=0), orphan_s=0) as stubs:
        await stubs.add(parts(header(), PORTRAIT, VOICE))
        content = WAV + bytes(MIB)

        async def put(number: int) -> None:
            person = f"person-{number}"
            await stubs.say(1, person=person)
            await stubs.put_clip(memory_pb2.CLIP_KIND_SPEECH, content, person=person)

        kept = await fill(put, reason)
        assert kept > 2
        with refused(EXHAUSTED, "nothing of this call is kept; erase something or make room"):
            await stubs.add(parts(header("eve")))

        async def read(person: str) -> bytes:
            request = memory_pb2.GetClipRequest(
                tenant=TENANT,
                identity="ada",
                person=person,
                conversation="talk",
                turn="turn-1",
                kind=memory_pb2.CLIP_KIND_SPEECH,
            )
            return await joined(stubs.memory.GetClip(request))

        # What needs no file is kept.
        await stubs.say(2, person="person-0")
        assert len((await stubs.recall(person="person-0")).turns) == 2
        assert [await read(f"person-{number}") == content for number in range(kept)] == [True] * kept
        assert await erase(stubs, "person-0")
        await put(kept)
        assert stubs.inside
        assert await check(stubs.inside, False, None) == Findings()


def grow(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)


async def check_full_database(stack: Stack, disk: Path) -> None:
    """Checks that writes are refused only while the database's disk is full."""
    async with serving(stack.settings()) as stubs:
        await stubs.add(parts(header(), PORTRAIT, VOICE))

        async def say(number: int) -> None:
            said = turn(number, "x" * 30_000)
            said.vote_record = random.Random(number).randbytes(60_000)
            await stubs.memory.Remember(
                memory_pb2.RememberRequest(
                    tenant=TENANT, identity="ada", person=f"person-{number % 3}", conversation="talk", turn=said
                )
            )

        kept = await fill(say, "the disk of the memory's database is full")
        assert kept > 3

        async def listed(person: int) -> list[str]:
            found, token = [], ""
            while True:
                request = memory_pb2.ListTurnsRequest(
                    tenant=TENANT,
                    identity="ada",
                    person=f"person-{person}",
                    conversation="talk",
                    page_size=200,
                    page_token=token,
                )
                page = await stubs.memory.ListTurns(request)
                found += [each.id for each in page.turns]
                if not (token := page.next_page_token):
                    return sorted(found)

        expected = [sorted(f"turn-{number}" for number in range(kept) if number % 3 == person) for person in range(3)]
        assert [await listed(person) for person in range(3)] == expected
        # A vacuum may have made room for a few more meanwhile.
        first = kept
        kept += await fill(lambda number: say(first + number), "nothing of this call is kept, reads go on; make room")
        assert (await stubs.recall(person="person-0")).stale_s == 0
        grow(disk)
        await say(kept)
        assert len(await listed(kept % 3)) == len(range(kept % 3, kept + 1, 3))
        assert await erase(stubs, "person-0")
        assert await listed(0) == []


async def test_a_full_disk_of_sqlite_refuses_writes_until_there_is_room(disk: Path) -> None:
    await check_full_database(Stack("sqlite-folder", disk / "memory"), disk)


async def test_a_full_disk_of_postgresql_refuses_writes_until_there_is_room(
    small_database: Urls, tmp_path: Path
) -> None:
    stack = Stack("postgres-folder", tmp_path / "memory", small_database)
    await migrate(stack.settings())
    connection = await asyncpg.connect(small_database.admin)
    where = "SELECT pg_tablespace_location(dattablespace) FROM pg_database WHERE datname = current_database()"
    disk = Path(await connection.fetchval(where))
    await connection.close()
    await check_full_database(stack, disk)
