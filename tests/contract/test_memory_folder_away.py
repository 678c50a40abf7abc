"""The embedded store whose folder is away, as that of a volume that is not mounted."""

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from e3rg.memory.v1 import identities_pb2, memory_pb2
from services.common.errors import NotFound, NotReady
from services.memory.backends.filesystem import FilesystemBackend
from tests.memory_service import TENANT, green, header, memory_over, parts, process_of
from tests.serving import refused
from tests.talking import new, turn

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """That of a store which was opened."""
    FilesystemBackend(tmp_path / "memory").put("a/b", b"x")
    return tmp_path / "memory"


def asks(store: FilesystemBackend) -> dict[str, Callable[[], object]]:
    return {
        "get": lambda: store.get("a/b"),
        "list": lambda: store.list(""),
        "list a folder": lambda: store.list("a/"),
        "put": lambda: store.put("a/b", b"y"),
        "create": lambda: store.create("a/b", b"y"),
        "replace": lambda: store.replace("a/b", b"y", "0" * 64),
        "delete": lambda: store.delete(["a/b"]),
        "sweep": store.sweep,
        "check": store.check,
    }


@pytest.mark.parametrize("operation", asks(FilesystemBackend(Path())))
def test_an_unmounted_volume_is_told_with_the_remedy_and_nothing_is_made_below_its_mount_point(
    folder: Path, operation: str
) -> None:
    store = FilesystemBackend(folder)
    store.check()
    folder.rename(folder.with_name("elsewhere"))
    folder.mkdir()
    with pytest.raises(
        NotReady, match=f"there is no {folder}/objects; mount its volume or put the folder {folder} back"
    ):
        asks(store)[operation]()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("operation", [name for name in asks(FilesystemBackend(Path())) if name != "sweep"])
def test_objects_that_are_away_alone_are_told_and_not_made_again(folder: Path, operation: str) -> None:
    store = FilesystemBackend(folder)
    store.check()
    (folder / "objects").rename(folder / "elsewhere")
    with pytest.raises(NotReady, match=f"there is no {folder}/objects;"):
        asks(store)[operation]()
    assert not (folder / "objects").exists()
    assert list((folder / "writing").iterdir()) == []


def test_a_store_is_made_at_the_first_start_only_and_the_log_tells(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "below" / "memory"
    with caplog.at_level(logging.INFO):
        FilesystemBackend(folder).check()
        assert [(record.message, vars(record)["folder"]) for record in caplog.records] == [
            ("made an empty store", str(folder))
        ]
        FilesystemBackend(folder).check()
        assert len(caplog.records) == 1


def test_a_start_without_the_objects_of_a_store_that_was_there_makes_none(folder: Path) -> None:
    (folder / "objects").rename(folder / "elsewhere")
    store = FilesystemBackend(folder)
    for _ in range(2):
        with pytest.raises(NotReady, match=f"there is no {folder}/objects;"):
            store.check()
    (folder / "elsewhere").rename(folder / "objects")
    store.check()
    assert [entry.key for entry in store.list("")] == ["a/b"]


def test_while_the_folder_is_away_what_was_recalled_serves_and_nobody_is_unknown(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "memory", tmp_path / "elsewhere"
    memory = memory_over(FilesystemBackend(folder))
    memory.registry.add(TENANT, new())
    memory.talks.remember(TENANT, "ada", "bob", "talk", turn(1))
    fresh = memory.recall(TENANT, "ada", "bob", "talk", 4)
    with pytest.raises(NotFound, match="'zoe'"):
        memory.recall(TENANT, "zoe", "bob", "talk", 4)
    folder.rename(elsewhere)
    stale = memory.recall(TENANT, "ada", "bob", "talk", 4)
    assert stale.stale_s > 0 == fresh.stale_s
    assert (stale.identity, stale.turns) == (fresh.identity, fresh.turns)
    for identity in ("zoe", "eve"):
        with pytest.raises(NotReady):
            memory.recall(TENANT, identity, "bob", "talk", 4)
    with pytest.raises(NotReady, match=f"there is no {folder}"):
        memory.talks.remember(TENANT, "ada", "bob", "talk", turn(2))
    with pytest.raises(NotReady, match=f"there is no {folder}"):
        memory.eraser.identity(TENANT, "ada", "the test")
    elsewhere.rename(folder)
    memory.talks.remember(TENANT, "ada", "bob", "talk", turn(2))
    again = memory.recall(TENANT, "ada", "bob", "talk", 4)
    assert ([each.id for each in again.turns], again.stale_s) == (["turn-1", "turn-2"], 0)


async def not_ready(process: asyncio.subprocess.Process) -> str:
    """Returns the first reason that the log tells for not being ready."""
    assert process.stderr
    while b'"not ready"' not in (line := await process.stderr.readline()):
        assert line, "the process ended"
    return str(json.loads(line)["why"])


async def test_a_process_whose_folder_cannot_be_starts_red_becomes_green_by_itself_and_outlives_its_going(
    tmp_path: Path,
) -> None:
    volume, elsewhere = tmp_path / "volume", tmp_path / "elsewhere"
    volume.write_bytes(b"")  # As what is not writable: no folder can be made below it.
    variables = {"E3RG_MEMORY_BACKEND": "filesystem", "E3RG_MEMORY_FOLDER": str(volume / "memory")}
    async with process_of(variables) as (stubs, process):
        assert f"Not a directory ({volume / 'memory'})" in await not_ready(process)
        with refused(UNAVAILABLE, "Not a directory"):
            await stubs.memory.GetStore(memory_pb2.GetStoreRequest())
        volume.unlink()
        volume.mkdir()
        await green(stubs)
        await stubs.add(parts(header()))
        await stubs.say(1, person="bob")
        await stubs.recall(person="bob")
        volume.rename(elsewhere)
        assert [turn.id for turn in (await stubs.recall(person="bob")).turns] == ["turn-1"]
        listing = identities_pb2.ListIdentitiesRequest(tenant=TENANT)
        for call in (stubs.recall("eve"), stubs.say(2, person="bob"), stubs.identities.ListIdentities(listing)):
            with refused(UNAVAILABLE, f"there is no {volume}"):
                await call
        elsewhere.rename(volume)
        await stubs.say(2, person="bob")
        assert len((await stubs.recall(person="bob")).turns) == 2
