"""The embedded store: what is its own affair, and processes that are killed in the middle of writing."""

import os
from pathlib import Path

import pytest

from services.common.errors import NotReady
from services.memory.backends import filesystem
from services.memory.backends.filesystem import FilesystemBackend


def test_a_key_cannot_leave_the_folder(tmp_path: Path) -> None:
    store = FilesystemBackend(tmp_path / "memory")
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
        FilesystemBackend(tmp_path / "file" / "memory")


def test_a_store_whose_disk_fails_is_not_ready_and_says_why(tmp_path: Path) -> None:
    store = FilesystemBackend(tmp_path)
    (tmp_path / "objects" / "a").mkdir()
    with pytest.raises(NotReady, match="Is a directory"):
        store.get("a")


def test_half_written_files_of_the_dead_go_at_the_next_start_and_those_of_the_living_stay(tmp_path: Path) -> None:
    FilesystemBackend(tmp_path)
    dead, living = tmp_path / "writing" / "dead", tmp_path / "writing" / "living"
    for path in (dead, living):
        path.write_bytes(b"half")
    long_ago_s = living.stat().st_mtime - filesystem.LEFTOVER_AGE_S - 1
    os.utime(dead, (long_ago_s, long_ago_s))
    FilesystemBackend(tmp_path)
    assert list((tmp_path / "writing").iterdir()) == [living]
