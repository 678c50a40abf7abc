"""Programs that use the memory's store in processes of their own, to be killed. Which store, the environment says.

python -m tests.memory_program count NAME    counts with others at one object, and prints what it has counted
python -m tests.memory_program append NAME   keeps turns in one conversation, and prints how many
python -m tests.memory_program replace       writes, replaces and deletes large objects, and prints how often
python -m tests.memory_program steps         kills each operation before each of its steps, and prints what is left
"""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import cast

from services.common import backends
from services.common.errors import NotFound
from services.memory.domain import Consent, NewIdentity, Profile, ReferenceKind, Turn, Use
from services.memory.memory import Memory
from services.memory.settings import MemorySettings
from services.memory.store import Entry, Object, Same, Store

COUNTS = 40
"""How far each writer counts."""

ADA = NewIdentity(
    id="ada",
    profile=Profile("Ada", "young", "female", "mid", "en", "Likes engines."),
    consent=Consent("the test", "2026-01-31", tuple(Use)),
    portrait=b"\x89PNG\r\n\x1a\n" + b"portrait" * 100,
    voice=b"RIFF\x00\x00\x00\x00WAVE" + b"voice" * 100,
)


def open_store() -> Store:
    """The store of the environment."""
    return cast("Store", backends.load("services.memory.backends", MemorySettings().backend).create())


def turn(name: str) -> Turn:
    return Turn(name, f"question {name}", "sad", f"answer {name}", "caring")


def count(name: str) -> Iterator[object]:
    """Counts for `name` at an object that others count at."""
    store = open_store()
    done = 0
    while done < COUNTS:
        found = store.get("count")
        if not isinstance(found, Object):
            store.create("count", b"{}")
            continue
        counts = json.loads(found.content)
        counts[name] = done + 1
        if store.replace("count", json.dumps(counts).encode(), found.etag):
            done += 1
            yield done


def append(name: str) -> Iterator[object]:
    """Says things to one identity in one conversation."""
    memory = Memory(open_store())
    for number in range(COUNTS):
        memory.remember("ada", "talk", turn(f"{name}-{number}"))
        yield number + 1


def replace() -> Iterator[object]:
    """Writes objects that are of one byte's value each."""
    store = open_store()
    number = 0
    while True:
        store.put("a/replaced", bytes([number % 2]) * 4_000_000)
        store.create(f"a/created-{number}", bytes([7]) * 1_000_000)
        store.delete([f"a/created-{number - 1}"])
        number += 1
        yield number


class Dying:
    """A store whose process is killed before its call of number `last`, from 0. Each key deleted is a call."""

    def __init__(self, store: Store, last: int, told: Callable[[str], object]) -> None:
        self._store = store
        self._left = last
        self._told = told

    def _begin(self, call: str) -> None:
        if not self._left:
            self._told(call)
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1

    def put(self, key: str, content: bytes) -> str:
        self._begin(f"put {key}")
        return self._store.put(key, content)

    def create(self, key: str, content: bytes) -> str | None:
        self._begin(f"create {key}")
        return self._store.create(key, content)

    def replace(self, key: str, content: bytes, etag: str) -> str | None:
        self._begin(f"replace {key}")
        return self._store.replace(key, content, etag)

    def get(self, key: str, unless: str = "") -> Object | Same | None:
        self._begin(f"get {key}")
        return self._store.get(key, unless)

    def list(self, folder: str, limit: int | None = None, after: str = "") -> tuple[Entry, ...]:
        self._begin(f"list {folder}")
        return self._store.list(folder, limit, after)

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._begin(f"delete {key}")
            self._store.delete([key])

    def check(self) -> None:
        self._store.check()

    def close(self) -> None:
        self._store.close()


def killed(last: int, work: Callable[[Memory], object]) -> str:
    """Runs `work` in a child process that is killed before its call of that number.

    Returns:
        The call that was not made; empty when the work ended before.
    """
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        work(Memory(Dying(open_store(), last, lambda call: os.write(writer, call.encode()))))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        call = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == (-signal.SIGKILL if call else 0), f"the child ended with {status}"
    return call


def state(store: Store) -> str:
    """What a reader finds after the next start; raises when that is damaged or half there."""
    memory = Memory(store)
    memory.prepare()
    try:
        found = memory.recall("ada", "talk", 10)
    except NotFound:
        assert not [entry for entry in store.list("") if "/turns/" in entry.key], "turns of nobody"
        return "nobody"
    for kind, content in ((ReferenceKind.PORTRAIT, ADA.portrait), (ReferenceKind.VOICE, ADA.voice)):
        assert memory.reference("ada", kind) == content
    return "ada, " + ", ".join(each.id for each in found.turns)


def clear(store: Store) -> None:
    """Removes everything."""
    store.delete([entry.key for entry in store.list("")])


OPERATIONS: dict[str, tuple[Callable[[Memory], object], bool]] = {
    "add": (lambda memory: memory.add(ADA), False),
    "remember": (lambda memory: memory.remember("ada", "talk", turn("second")), True),
    "remove": (lambda memory: memory.remove("ada"), True),
}
"""What is killed, and whether Ada is there before, with one turn."""


def steps() -> Iterator[object]:
    """Yields of each operation killed before each step: its name, the step, what readers find, what an erase leaves."""
    store = open_store()
    for name, (work, prepared) in OPERATIONS.items():
        last, call = 0, "begun"
        while call:
            clear(store)
            if prepared:
                memory = Memory(store)
                memory.add(ADA)
                memory.remember("ada", "talk", turn("first"))
            call = killed(last, work)
            found = state(store)
            with contextlib.suppress(NotFound):
                Memory(store).remove("ada")
            yield json.dumps([name, call, found, [entry.key for entry in store.list("")]])
            last += 1


def main() -> None:
    """Runs the program that the first argument names."""
    programs: dict[str, Callable[..., Iterator[object]]] = {
        "append": append,
        "count": count,
        "replace": replace,
        "steps": steps,
    }
    for line in programs[sys.argv[1]](*sys.argv[2:]):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
