"""Processes that are killed in the middle of writing, over every store that several processes share."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from services.common import backends
from services.memory.store import Store, content_of
from tests.memory_program import COUNTS
from tests.s3_server import S3Server, environment
from tests.talking import Replica

ROOT = Path(__file__).parents[2]
PACKAGE = "services.memory.backends"
RAM_DISK = Path("/dev/shm")


class Shared:
    """A store, and how processes get to it."""

    def __init__(self, variables: Mapping[str, str], store: Store) -> None:
        self.store = store
        # Over the folder operations are killed before every call. A call over S3 takes ten times as long: there they
        # are before every write; a read changes nothing.
        is_folder = variables["E3RG_MEMORY_BACKEND"] == "filesystem"
        self.steps = ["steps"] if is_folder else ["steps", *STATES]
        path = os.pathsep.join([str(ROOT), str(ROOT / "protos" / "gen")])
        self._environment = {**os.environ, **variables, "PYTHONPATH": path}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Starts one of the programs."""
        command = [sys.executable, "-m", "tests.memory_program", *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=self._environment)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """In RAM where that is a folder: what a killed process has written, the kernel has, so no disk is waited for."""
    with tempfile.TemporaryDirectory(dir=RAM_DISK if RAM_DISK.is_dir() else tmp_path) as name:
        yield Path(name)


@pytest.fixture(params=backends.names(PACKAGE))
def shared(request: pytest.FixtureRequest, folder: Path) -> Shared:
    if request.param == "s3":
        server: S3Server = request.getfixturevalue("s3_server")
        variables = environment(server.endpoint)
        store: Store = request.getfixturevalue("s3_store")
    else:
        variables = {"E3RG_MEMORY_FOLDER": str(folder)}
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("E3RG_MEMORY_FOLDER", variables["E3RG_MEMORY_FOLDER"])
            store = backends.load(PACKAGE, request.param).create()
    return Shared({**variables, "E3RG_MEMORY_BACKEND": request.param}, store)


def kill_after(process: subprocess.Popen[str], lines: int) -> int:
    """Kills a writer once it has said that much; returns the last that it has said."""
    assert process.stdout
    said = [process.stdout.readline() for _ in range(lines)]
    process.kill()
    said += process.stdout.readlines()
    return int([line for line in said if line.endswith("\n")][-1])


def test_writers_that_count_at_once_lose_nothing_and_double_nothing_though_some_are_killed(shared: Shared) -> None:
    with (
        shared.start("count", "one") as one,
        shared.start("count", "two") as two,
        shared.start("count", "doomed") as doomed,
        shared.start("count", "cursed") as cursed,
    ):
        said = {"doomed": kill_after(doomed, 5), "cursed": kill_after(cursed, 9)}
        assert (one.wait(), two.wait()) == (0, 0)
    counts = json.loads(content_of(shared.store.get("count")) or b"")
    assert (counts["one"], counts["two"]) == (COUNTS, COUNTS)
    for name, number in said.items():
        assert number <= counts[name] <= number + 1


def test_replicas_that_keep_turns_at_once_lose_none_though_one_is_killed(shared: Shared) -> None:
    Replica(shared.store).add()
    with shared.start("append", "one") as one, shared.start("append", "two") as two:
        said = kill_after(two, 10)
        assert one.wait() == 0
    memory = Replica(shared.store)
    numbers = [int(name.removeprefix("turn-")) for name in memory.last()]
    assert [number for number in numbers if number < 100] == list(range(COUNTS))
    kept = [number - 100 for number in numbers if number >= 100]
    assert kept == list(range(len(kept)))
    assert said <= len(kept) <= said + 1
    assert len({row.rpartition("/")[2] for row in memory.rows()}) - len(numbers) in (0, 1)  # A row comes first.


def test_a_writer_killed_in_the_middle_leaves_every_object_whole(shared: Shared) -> None:
    for rounds in range(1, 5):
        with shared.start("replace") as writer:
            kill_after(writer, rounds)
        keys = [entry.key for entry in shared.store.list("")]
        assert "a/replaced" in keys
        for key in keys:
            content = content_of(shared.store.get(key)) or b""
            assert (len(content), len(set(content))) == (4_000_000 if key == "a/replaced" else 1_000_000, 1)
        shared.store.delete(keys)


STATES = {
    "add": ["nobody", "ada 1"],
    "change": ["ada 1, turn-1 speech took 2.5 s, turn-2, derived", "ada 2, turn-1 speech took 2.5 s, turn-2, derived"],
    "remember": ["ada 1, turn-1", "ada 1, turn-1, turn-2"],
    "remember another": ["ada 1, turn-1", "ada 1, turn-1, turn-2"],
    "put_clip": ["ada 1, turn-1", "ada 1, turn-1 speech"],
    "put_timings": ["ada 1, turn-1", "ada 1, turn-1 took 2.5 s"],
    "keep_derived": ["ada 1, turn-1", "ada 1, turn-1, derived"],
    "erase identity": ["ada 1, turn-1 speech took 2.5 s, turn-2, derived", "nobody"],
    "erase person": ["ada 1, turn-1 speech took 2.5 s, turn-2, derived", "ada 1, turn-2, derived"],
    "exemplar put": ["ada 1, turn-1", "ada 1, turn-1, example"],
    "exemplar remove": ["ada 1, turn-1, example", "ada 1, turn-1"],
    "emotion put": ["ada 1, turn-1, dull", "ada 1, turn-1, bright"],
    "sweep": ["ada 1, turn-1", "ada 1"],
    "import": ["nobody", "ada 2, turn-1 speech took 2.5 s, turn-2"],
}


def test_an_operation_killed_before_any_of_its_steps_leaves_the_old_state_or_the_new(shared: Shared) -> None:
    with shared.start(*shared.steps) as process:
        assert process.stdout
        rows = [json.loads(line) for line in process.stdout]
    assert process.returncode == 0
    assert {name for name, *_ in rows} == set(STATES)
    for operation, states in STATES.items():
        found = [(call, state) for name, call, state, _ in rows if name == operation]
        for number, (call, state) in enumerate(found):
            print(f"{operation:16} {number:3} {shown(call) or '(ended)':100} {state}")  # noqa: T201 - with -s
        seen = [state for _, state in found]
        changed = seen.index(states[1])
        assert changed > 0
        assert seen == [states[0]] * changed + [states[1]] * (len(seen) - changed), "it happens at one step"
        assert found[-1][0] == ""
    assert [left for *_, left in rows if left] == []


def shown(call: str) -> str:
    """A call with its long names cut."""
    return re.sub("[0-9a-f]{16,64}", lambda found: f"{found.group()[:4]}…", call)
