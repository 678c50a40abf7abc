"""The embedded store: what is its own affair, and processes that are killed in the middle of writing."""

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from services.common.errors import NotReady
from services.memory.backends.filesystem import FilesystemBackend
from tests.memory_service import ROOT, memory_over
from tests.talking import TENANT, new

FILM = b"film" * 3000
WRITER = f"""
import sys
from pathlib import Path
from services.memory.backends.filesystem import FilesystemBackend

class Slow(FilesystemBackend):
    def _publish(self, *arguments):
        print("written", flush=True)
        sys.stdin.readline()
        super()._publish(*arguments)

getattr(Slow(Path(sys.argv[1])), sys.argv[2])("a/film", {FILM!r})
"""
"""Writes an object, and waits between the last byte and the key for a line."""


def writer(folder: Path, operation: str = "put") -> subprocess.Popen[str]:
    """A process that has written its content, and waits."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), operation],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    assert process.stdout.readline() == "written\n"
    return process


def being_written(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in (folder / "writing").iterdir()]


def test_a_key_cannot_leave_the_folder(tmp_path: Path) -> None:
    store = FilesystemBackend(tmp_path / "memory")
    store.check()
    for key in ("../a", "/a", "a/../../b"):
        with pytest.raises(ValueError, match="is not a key"):
            store.put(key, b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["memory"]


def test_files_are_for_their_owner_only_and_empty_folders_go(tmp_path: Path) -> None:
    store = FilesystemBackend(tmp_path)
    store.put("a/b/c", b"x")
    made = list((tmp_path / "objects").rglob("*"))
    assert len(made) == 3
    assert not any(path.stat().st_mode & 0o077 for path in made)
    store.delete(["a/b/c"])
    assert list((tmp_path / "objects").iterdir()) == []


def test_a_folder_that_cannot_be_is_not_ready_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotReady, match=r"Not a directory.*file"):
        FilesystemBackend(tmp_path / "file" / "memory").check()


def test_a_store_whose_disk_fails_is_not_ready_and_says_why(tmp_path: Path) -> None:
    store = FilesystemBackend(tmp_path)
    store.put("a/b", b"x")
    with pytest.raises(NotReady, match="Is a directory"):
        store.get("a")


@pytest.mark.parametrize("operation", ["put", "create"])
def test_what_a_killed_process_was_writing_goes_with_the_next_sweep_and_not_before_it_is_dead(
    tmp_path: Path, operation: str
) -> None:
    store = FilesystemBackend(tmp_path)
    with writer(tmp_path, operation) as process:
        for clean in (store.sweep, store.check, lambda: store.delete(["b"]), FilesystemBackend(tmp_path).check):
            clean()
            assert being_written(tmp_path) == [FILM]
        process.kill()
    assert being_written(tmp_path) == [FILM]
    store.sweep()
    assert being_written(tmp_path) == []
    assert store.list("") == ()


def test_a_slow_writer_is_not_disturbed_by_sweeps(tmp_path: Path) -> None:
    store = FilesystemBackend(tmp_path)
    with writer(tmp_path) as process:
        store.sweep()
        process.communicate("go on\n")
        assert process.returncode == 0
    assert [(entry.key, entry.size_bytes) for entry in store.list("")] == [("a/film", len(FILM))]
    assert being_written(tmp_path) == []


CLEANINGS: dict[str, Callable[[Path, FilesystemBackend], object]] = {
    "a start": lambda folder, store: FilesystemBackend(folder).check(),
    "a deletion": lambda folder, store: store.delete(["b"]),
    "the sweep of a memory": lambda folder, store: memory_over(store).sweep(),
    "an erasure": lambda folder, store: memory_over(store).eraser.identity(TENANT, "ada", "the test"),
}


@pytest.mark.parametrize("by", CLEANINGS)
def test_half_written_files_of_the_dead_are_deleted_by(tmp_path: Path, by: str) -> None:
    store = FilesystemBackend(tmp_path)
    memory_over(store).registry.add(TENANT, new())
    (tmp_path / "writing" / "left").write_bytes(FILM)  # Nobody holds its lock: as a killed process leaves it.
    CLEANINGS[by](tmp_path, store)
    assert being_written(tmp_path) == []


def test_many_who_sweep_while_others_write_delete_nothing_of_theirs(tmp_path: Path) -> None:
    stores = [FilesystemBackend(tmp_path) for _ in range(4)]
    every = [f"a/{number}" for number in range(200)]

    def write(key: str) -> None:
        assert stores[0].put(key, FILM)
        for store in stores[1:]:
            store.sweep()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, every))
    assert [entry.key for entry in stores[0].list("a/")] == sorted(every)
    assert being_written(tmp_path) == []
