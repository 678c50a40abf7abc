"""Every object storage keeps the promises of the port: a folder, and each S3 server."""

import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import pytest

from services.common.errors import NotReady
from services.memory.blobs import LISTED_AT_ONCE, Blobs, FolderBlobs
from services.memory.memory import blobs_of
from tests.support import minio
from tests.support.memory import Clock, header, parts, serving
from tests.support.object_store import ObjectStore
from tests.support.stacks import Stack

CONTENTS = {"empty": b"", "small": b"x", "large": secrets.token_bytes(6 * 2**20)}


@pytest.fixture(params=["folder", "seaweedfs", "minio"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> Blobs:
    stores: dict[str, ObjectStore] = {}
    if request.param != "folder":
        stores = request.getfixturevalue("object_stores")
        if request.param not in stores:
            pytest.skip(f"{minio.VARIABLE} names no program")
    bucket = stores[request.param].bucket() if stores else None
    found = blobs_of(Stack(request.param, tmp_path / "memory", bucket=bucket).settings())
    found.check()
    return found


def keys(blobs: Blobs, prefix: str = "") -> list[str]:
    # A listing that begins anew with each page would never end.
    return sorted(entry.key for entry in islice(blobs.list(prefix), 2 * LISTED_AT_ONCE))


def test_what_is_put_is_there_whole_until_it_is_deleted(blobs: Blobs) -> None:
    assert keys(blobs) == []
    for name, content in CONTENTS.items():
        blobs.put(f"tenants/acme/{name}", content)
    for name, content in CONTENTS.items():
        assert blobs.get(f"tenants/acme/{name}") == content
    assert {entry.key: entry.size_bytes for entry in blobs.list("tenants/")} == {
        f"tenants/acme/{name}": len(content) for name, content in CONTENTS.items()
    }
    blobs.put("tenants/acme-2/other", b"other")
    assert keys(blobs, "tenants/acme/") == [f"tenants/acme/{name}" for name in sorted(CONTENTS)]
    assert keys(blobs, "tenants/acme-2/o") == ["tenants/acme-2/other"]
    assert keys(blobs, "nothing/") == []
    assert blobs.get("tenants/acme/nothing") is None
    blobs.delete([*keys(blobs, "tenants/acme/"), "tenants/acme/nothing"])
    assert keys(blobs) == ["tenants/acme-2/other"]


def test_a_listing_has_every_object_also_where_it_comes_in_pages(blobs: Blobs) -> None:
    every = [f"many/{number:04}" for number in range(LISTED_AT_ONCE + 1)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda key: blobs.put(key, b"x"), every))
    assert keys(blobs) == every
    blobs.delete(every[-1:])
    assert keys(blobs) == every[:-1]
    blobs.delete(every)
    assert keys(blobs) == []


def test_files_are_for_their_owner_only_and_empty_folders_go(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path / "media")
    blobs.check()
    blobs.put("tenants/acme/file", b"x")
    made = [tmp_path / "media", *(tmp_path / "media").rglob("*")]
    assert not [path for path in made if path.is_dir() and path.stat().st_mode & 0o077]
    blobs.delete(["tenants/acme/file"])
    assert not (tmp_path / "media" / "tenants").exists()


def test_a_folder_that_cannot_be_is_told_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotReady, match=r"file/media cannot be used: .*; mount it, or let user \d+ read and write it"):
        FolderBlobs(tmp_path / "file" / "media").check()


async def test_an_object_that_an_upload_may_still_be_writing_is_no_orphan(stack: Stack) -> None:
    clock = Clock(time.time())
    async with serving(stack.settings(), clock=clock) as stubs:
        assert stubs.inside
        assert stubs.upkeep
        await stubs.inside.storage.media.put("tenants/acme/turns/1", b"its row comes later")
        assert (await stubs.upkeep.delete_orphans(), len(stack.objects)) == (0, 1)
        clock.now_s += 3 * 3600
        assert (await stubs.upkeep.delete_orphans(), len(stack.objects)) == (1, 0)


async def test_more_orphans_than_are_listed_at_once_go_with_one_sweep(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.memory.blobs.LISTED_AT_ONCE", 2)
    async with serving(stack.settings(), orphan_s=-60) as stubs:
        assert stubs.inside
        assert stubs.upkeep
        for number in range(5):
            await stubs.inside.storage.media.put(f"tenants/acme/turns/{number}", b"orphan")
        assert (await stubs.upkeep.delete_orphans(), stack.objects) == (5, [])


async def test_what_a_killed_writer_left_goes_with_the_sweep_and_nothing_else_does(embedded: Stack) -> None:
    async with serving(embedded.settings(), orphan_s=0) as stubs:
        await stubs.add(parts(header()))
        before = embedded.objects
        left = embedded.folder / "media" / "parts" / "left"
        left.write_bytes(b"half of a film")
        assert stubs.upkeep
        assert await stubs.upkeep.delete_orphans() == 1
        assert (left.exists(), embedded.objects) == (False, before)
