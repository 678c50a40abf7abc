"""Processes that are killed in the middle of writing, over every store that several processes share."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from services.common import backends
from services.memory.memory import Memory
from services.memory.store import Store, content_of
from tests.memory_program import ADA, COUNTS
from tests.s3_server import S3Server, environment

ROOT = Path(__file__).parents[2]
PACKAGE = "services.memory.backends"


class Shared:
    """A store, and how processes get to it."""

    def __init__(self, variables: Mapping[str, str], store: Store) -> None:
        self.store = store
        path = os.pathsep.join([str(ROOT), str(ROOT / "protos" / "gen")])
        self._environment = {**os.environ, **variables, "PYTHONPATH": path}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Starts one of the programs."""
        command = [sys.executable, "-m", "tests.memory_program", *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=self._environment)


@pytest.fixture(params=backends.names(PACKAGE))
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Shared:
    if request.param == "s3":
        server: S3Server = request.getfixturevalue("s3_server")
        variables = environment(server.endpoint)
        store: Store = request.getfixturevalue("s3_store")
    else:
        variables = {"E3RG_MEMORY_FOLDER": str(tmp_path / "memory")}
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
    Memory(shared.store).add(ADA)
    with shared.start("append", "one") as one, shared.start("append", "two") as two:
        said = kill_after(two, 10)
        assert one.wait() == 0
    names = [turn.id for turn in Memory(shared.store).recall("ada", "talk", 1000).turns]
    assert [name for name in names if name.startswith("one")] == [f"one-{number}" for number in range(COUNTS)]
    kept = [name for name in names if name.startswith("two")]
    assert kept == [f"two-{number}" for number in range(len(kept))]
    assert said <= len(kept) <= said + 1


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
    "add": ["nobody", "ada, "],
    "remember": ["ada, first", "ada, first, second"],
    "remove": ["ada, first", "nobody"],
}


def test_an_operation_killed_before_any_of_its_steps_leaves_the_old_state_or_the_new(shared: Shared) -> None:
    with shared.start("steps") as process:
        assert process.stdout
        rows = [json.loads(line) for line in process.stdout]
    assert process.returncode == 0
    for operation, states in STATES.items():
        found = [(call, state) for name, call, state, _ in rows if name == operation]
        for number, (call, state) in enumerate(found):
            shown = re.sub("[0-9a-f]{64}", "<sha256>", re.sub("/[0-9a-f]{32}/", "/<generation>/", call))
            print(f"{operation:9} {number:2} {shown or '(ended)':72} {state}")  # noqa: T201 - with -s
        seen = [state for _, state in found]
        changed = seen.index(states[1])
        assert changed > 0
        assert seen == [states[0]] * changed + [states[1]] * (len(seen) - changed), "it happens at one step"
        assert found[-1][0] == ""
    assert [left for *_, left in rows if left] == []
