"""What every store of the memory promises: one suite for all back-ends, found by their names, and for the fake."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pytest

from services.common import backends
from services.common.errors import NotReady
from services.memory.backends import filesystem
from services.memory.backends.filesystem import FilesystemBackend
from services.memory.domain import Backend
from tests.fakes import FakeStore

ROOT = Path(__file__).parents[2]
PACKAGE = "services.memory.backends"


@pytest.fixture(params=["fake", *backends.names(PACKAGE)])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Backend:
    if request.param == "fake":
        return FakeStore()
    monkeypatch.setenv("E3RG_MEMORY_FOLDER", str(tmp_path / "memory"))
    return cast("Backend", backends.load(PACKAGE, request.param).create())


def test_what_was_put_is_got_and_the_newest_counts(store: Backend) -> None:
    assert store.get("a/b") is None
    assert store.put("a/b", b"old")
    assert store.put("a/b", b"")
    assert store.get("a/b") == b""
    content = bytes(range(256)) * 40_000
    assert store.put("a/b", content)
    assert store.get("a/b") == content


def test_a_conditional_put_never_replaces(store: Backend) -> None:
    assert store.put("a/b", b"first", if_absent=True)
    assert not store.put("a/b", b"second", if_absent=True)
    assert store.get("a/b") == b"first"
    assert store.delete("a/b")
    assert store.put("a/b", b"third", if_absent=True)


def test_of_many_conditional_puts_at_once_one_wins(store: Backend) -> None:
    for round_ in range(10):
        with ThreadPoolExecutor(8) as threads:
            won = list(threads.map(lambda n, r=round_: store.put(f"a/{r}", bytes([n]), if_absent=True), range(8)))
        assert won.count(True) == 1
        assert store.get(f"a/{round_}") == bytes([won.index(True)])


def test_keys_are_listed_in_order_of_code_points_from_the_folder_that_was_asked(store: Backend) -> None:
    keys = ["a/b", "a-b/c", "a/b-c/d", "a/bc", "A/b", "a/b0/z", "a/b0/a", "z"]
    for key in keys:
        store.put(key, b"x")
    assert list(store.list("")) == sorted(keys)
    assert store.list("a/") == ("a/b", "a/b-c/d", "a/b0/a", "a/b0/z", "a/bc")
    assert store.list("a/b0/") == ("a/b0/a", "a/b0/z")
    assert store.list("nothing/") == ()
    assert store.list("a/", limit=2) == ("a/b", "a/b-c/d")
    assert store.list("a/", limit=0) == ()


def test_what_was_deleted_is_gone(store: Backend) -> None:
    store.put("a/b/c", b"x")
    store.put("a/d", b"x")
    assert store.delete("a/b/c")
    assert not store.delete("a/b/c")
    assert not store.delete("never/there")
    assert store.get("a/b/c") is None
    assert store.list("") == ("a/d",)


def test_puts_and_deletes_of_neighbours_at_once_disturb_nobody(store: Backend) -> None:
    def work(number: int) -> bool:
        return all(store.put(f"a/b/{number}", b"x") and store.delete(f"a/b/{number}") for _ in range(50))

    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(work, range(6))) == [True] * 6
    assert store.list("") == ()


# The file system.


@pytest.mark.parametrize(
    "key", ["", "/a", "a/", "a//b", "../a", "a/../b", ".", "a/.", "a/b.c", "a\\b", "a\0", "é", "a\n"]
)
def test_a_key_that_could_leave_the_folder_is_refused(tmp_path: Path, key: str) -> None:
    store = FilesystemBackend(tmp_path / "memory")
    for ask in (store.get, store.delete, lambda key: store.put(key, b"x"), lambda key: store.list(key + "/")):
        with pytest.raises(ValueError, match="is not a key"):
            ask(key)
    assert [path.name for path in tmp_path.iterdir()] == ["memory"]


def test_files_are_for_their_owner_only_and_empty_folders_go(tmp_path: Path) -> None:
    store = FilesystemBackend(tmp_path)
    store.put("a/b/c", b"x")
    made = list((tmp_path / "objects").rglob("*"))
    assert len(made) == 3
    assert not any(path.stat().st_mode & 0o077 for path in made)
    store.delete("a/b/c")
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


def start(program: str, *arguments: str) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "protos" / "gen")])
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


ALTERNATE = """
import itertools, sys
from pathlib import Path
from services.memory.backends.filesystem import FilesystemBackend
store = FilesystemBackend(Path(sys.argv[1]))
for number in itertools.count():
    store.put("a/replaced", bytes([number % 2]) * 4_000_000)
    store.put(f"a/created-{number}", bytes([7]) * 1_000_000, if_absent=True)
    store.delete(f"a/created-{number - 1}")
    print(number, flush=True)
"""


def test_a_writer_killed_in_the_middle_leaves_every_object_whole(tmp_path: Path) -> None:
    for rounds in range(1, 9):
        with start(ALTERNATE, str(tmp_path)) as writer:
            assert writer.stdout
            for _ in range(rounds):
                assert writer.stdout.readline()
            writer.kill()
        store = FilesystemBackend(tmp_path)
        keys = store.list("")
        assert "a/replaced" in keys
        for key in keys:
            content = store.get(key) or b""
            assert (len(content), len(set(content))) == (4_000_000 if key == "a/replaced" else 1_000_000, 1)
            store.delete(key)


APPEND = """
import sys
from pathlib import Path
from services.memory.backends.filesystem import FilesystemBackend
from services.memory.domain import Turn
from services.memory.conversation import Conversation
talk = Conversation(FilesystemBackend(Path(sys.argv[1])), "kept/ada/1/", "talk")
print("ready", flush=True)
for number in range(60):
    talk.append(Turn(f"{sys.argv[2]}-{number}", "?", "sad", "!", "caring"))
"""


def test_two_processes_that_append_at_once_lose_no_turn(tmp_path: Path) -> None:
    from services.memory.conversation import Conversation

    with start(APPEND, str(tmp_path), "one") as one, start(APPEND, str(tmp_path), "two") as two:
        assert (one.wait(), two.wait()) == (0, 0)
    turns = Conversation(FilesystemBackend(tmp_path), "kept/ada/1/", "talk").last(1000)
    names = [turn.id for turn in turns]
    assert len(names) == 120
    for writer in ("one", "two"):
        assert [name for name in names if name.startswith(writer)] == [f"{writer}-{number}" for number in range(60)]
