"""Object storage that belongs to another database is refused: nothing in it is deleted as an orphan."""

from io import BytesIO
from pathlib import Path

import pytest
from sqlalchemy import delete, select

from services.common.errors import FailedPrecondition
from services.memory.pairing import MARK
from services.memory.schema import tasks
from services.memory.session import by
from tests.support.memory import PORTRAIT, VOICE, Stubs, header, parts, serving
from tests.support.stacks import Stack, client_of


def mark_of(stack: Stack) -> bytes:
    if stack.bucket:
        with client_of(stack.bucket).get_object(stack.bucket.name, MARK) as response:
            return response.read()
    return (stack.folder / "media" / MARK).read_bytes()


def write_mark(stack: Stack, content: bytes) -> None:
    if stack.bucket:
        client_of(stack.bucket).put_object(stack.bucket.name, MARK, BytesIO(content), len(content))
    else:
        (stack.folder / "media" / MARK).write_bytes(content)


def remove_objects(stack: Stack) -> None:
    for key in [*stack.objects, MARK]:
        if stack.bucket:
            client_of(stack.bucket).remove_object(stack.bucket.name, key)
        else:
            (stack.folder / "media" / key).unlink()


async def add(stubs: Stubs) -> None:
    await stubs.add(parts(header(), PORTRAIT, VOICE))


async def test_a_new_database_takes_no_objects_that_another_has_written(stack: Stack, tmp_path: Path) -> None:
    async with serving(stack.settings()) as stubs:
        await add(stubs)
    before = stack.objects
    assert before
    other = stack.settings(database_url=f"sqlite:///{tmp_path}/other.db", migration_url="")
    with pytest.raises(FailedPrecondition, match="is not this database's: its object 'store' says"):
        async with serving(other, orphan_s=0):
            pass
    assert stack.objects == before
    async with serving(stack.settings(), orphan_s=0) as stubs:
        assert stubs.upkeep
        assert await stubs.upkeep.delete_orphans() == 0


async def test_objects_without_a_mark_are_refused_by_a_new_database(stack: Stack, tmp_path: Path) -> None:
    async with serving(stack.settings()) as stubs:
        await add(stubs)
    if stack.bucket:
        client_of(stack.bucket).remove_object(stack.bucket.name, MARK)
    else:
        (stack.folder / "media" / MARK).unlink()
    other = stack.settings(database_url=f"sqlite:///{tmp_path}/other.db", migration_url="")
    with pytest.raises(FailedPrecondition, match="it has no object 'store'"):
        async with serving(other):
            pass


async def test_a_database_takes_no_storage_that_lacks_its_objects_until_it_is_told(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        await add(stubs)
    mark = mark_of(stack)
    remove_objects(stack)
    with pytest.raises(FailedPrecondition, match=r"write .* into the object 'store'") as refused:
        async with serving(stack.settings()):
            pass
    assert repr(mark) in str(refused.value)
    write_mark(stack, mark)
    async with serving(stack.settings()):
        pass


async def test_a_store_of_before_the_mark_is_marked(stack: Stack) -> None:
    async with serving(stack.settings()) as stubs:
        await add(stubs)
        assert stubs.inside
        await stubs.inside.storage.run("", delete(tasks).where(by(tasks, name=MARK)))
    if stack.bucket:
        client_of(stack.bucket).remove_object(stack.bucket.name, MARK)
    else:
        (stack.folder / "media" / MARK).unlink()
    async with serving(stack.settings()) as stubs:
        assert stubs.inside
        rows = await stubs.inside.storage.rows("", select(tasks.c.taken_at_s).where(by(tasks, name=MARK)))
        assert mark_of(stack) == f"{rows[0].taken_at_s!r}\n".encode()
