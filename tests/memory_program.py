"""Programs that use the memory's store in processes of their own, to be killed. Which store, the environment says.

python -m tests.memory_program count NAME    counts with others at one object, and prints what it has counted
python -m tests.memory_program append NAME   keeps turns in one conversation, and prints how many
python -m tests.memory_program replace       writes, replaces and deletes large objects, and prints how often
python -m tests.memory_program steps [OPERATION …]   kills each operation before each of its calls of the store, or
                                             those that are named before each of their writes; prints what is left

Between two calls nothing changes that outlives the process: to be killed before a call is to be killed after the one
before it, and to be killed before a call that only reads is to be killed before the next that writes.
"""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace as replaced
from typing import cast

from services.common import backends
from services.common.errors import NotFound
from services.memory import keys
from services.memory.archive.archive import Archive
from services.memory.domain import Change, ClipKind, Exemplar, Generator, Grant, Retention
from services.memory.forgetting.erasing import Eraser
from services.memory.forgetting.retention import Retentions
from services.memory.forgetting.sweeping import Sweeper
from services.memory.layout import check_layout
from services.memory.registry.additions import Additions
from services.memory.registry.emotion_references import EmotionReferences
from services.memory.registry.example_changes import ExampleChanges
from services.memory.registry.exemplars import Exemplars
from services.memory.store import Entry, Object, Same, Store
from services.memory.vectors.embedding import Embedding
from services.memory.vectors.index import Vectors
from tests.fake_store import FakeStore
from tests.talking import TENANT, WAV, Replica, turn

COUNTS = 40
"""How far each writer counts."""

MODEL = "a" * 64
WRITES = ("create", "delete", "put", "replace")
EXAMPLE = Exemplar("my dog is ill", "sad", "Poor thing.")

State = dict[str, bytes]
"""All objects of a store."""


def open_store() -> Store:
    """The store of the environment."""
    return cast("Store", backends.load("services.memory.backends", os.environ["E3RG_MEMORY_BACKEND"]).create())


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
    memory = Replica(open_store())
    start = {"one": 0, "two": 100}[name]
    for number in range(COUNTS):
        memory.say(turn(start + number))
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
    """A store whose process is killed before its call of number `last`, from 0. Each key deleted is a call.

    Only calls that begin with one of `counted` have numbers.
    """

    def __init__(self, store: Store, last: int, counted: tuple[str, ...], told: Callable[[str], object]) -> None:
        self._store = store
        self._left = last
        self._counted = counted
        self._told = told

    def _begin(self, call: str) -> None:
        if not call.startswith(self._counted):
            return
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

    def sweep(self) -> None:
        self._store.sweep()

    def close(self) -> None:
        self._store.close()


def killed(last: int, counted: tuple[str, ...], work: Callable[[Replica], object]) -> str:
    """Runs `work` in a child process that is killed before its call of that number.

    Returns:
        The call that was not made; empty when the work ended before.
    """
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        work(Replica(Dying(open_store(), last, counted, lambda call: os.write(writer, call.encode()))))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        call = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == (-signal.SIGKILL if call else 0), f"the child ended with {status}"
    return call


def exemplars_of(memory: Replica) -> Exemplars:
    return Exemplars(memory.store, memory.registry, memory.vectors, Embedding(memory.embedder), memory.clock)


def archive_of(memory: Replica) -> Archive:
    return Archive(memory.store, memory.registry, memory.persons, memory.talks, exemplars_of(memory), memory.clock)


def state(store: Store) -> str:
    """What a reader finds after the next start; raises when that is damaged or half there."""
    memory = Replica(store)
    try:
        found = memory.registry.identity(TENANT, "ada")
    except NotFound:
        return "nobody"
    for reference in found.references:
        assert len(memory.registry.reference(TENANT, "ada", reference.digest)) == reference.size_bytes
    said = [f"ada {found.version}"]
    for version in range(1, found.version):
        assert memory.registry.identity(TENANT, "ada", version).version == version
    for person, conversation in (("ann", "talk"), ("", "walk")):
        page = memory.talks.turns(TENANT, "ada", person, conversation, 50, "").turns
        for each in reversed(page):
            took = [f" took {seconds} s" for seconds in each.timings_s.values()]
            said.append("".join([each.id, *(f" {clip.kind}" for clip in each.clips), *took]))
            for clip in each.clips:
                assert memory.talks.clip(TENANT, "ada", person, conversation, each.id, clip.kind) == WAV
    with contextlib.suppress(NotFound):
        memory.registry.derived(TENANT, "ada", [found.references[0].digest], MODEL)
        said.append("derived")
    examples, _ = exemplars_of(memory).list(TENANT, "ada", 50, "")
    hits = exemplars_of(memory).search(TENANT, "ada", EXAMPLE.user_text, 50)
    assert {hit.exemplar.id for hit in hits} == {each.id for each in examples}
    emotions = EmotionReferences(store, memory.registry)
    shown = [emotions.get(TENANT, "ada", each.generator, each.name)[1] for each in emotions.list(TENANT, "ada")]
    return ", ".join([*said, *("example" for _ in examples), *(content.decode() for content in shown)])


def derive(memory: Replica) -> None:
    digest = memory.registry.identity(TENANT, "ada").references[0].digest
    memory.registry.keep_derived(TENANT, "ada", [digest], MODEL, b"rig")


def clip(memory: Replica) -> None:
    memory.talks.put_clip(TENANT, "ada", "ann", "talk", "turn-1", ClipKind.SPEECH, WAV)


def time(memory: Replica) -> None:
    memory.talks.put_timings(TENANT, "ada", "ann", "talk", "turn-1", {"turn": 2.5})


def change(memory: Replica) -> None:
    old = memory.registry.identity(TENANT, "ada")
    grants = tuple(Grant(each.use, "another", each.granted_on) for each in old.grants)
    memory.registry.change(TENANT, "ada", Change(old.version, grants=grants))


def put_example(memory: Replica) -> None:
    exemplars_of(memory).put(TENANT, "ada", [EXAMPLE])


def remove_example(memory: Replica) -> None:
    (example,), _ = exemplars_of(memory).list(TENANT, "ada", 50, "")
    exemplars_of(memory).remove(TENANT, "ada", [example.id])


def show(content: bytes) -> Callable[[Replica], object]:
    return lambda memory: EmotionReferences(memory.store, memory.registry).put(
        TENANT, "ada", Generator.VOICE, "cheerful", "audio/wav", content
    )


def keep_for_days(memory: Replica) -> None:
    Retentions(memory.store).set(TENANT, Retention(turns_days=30))


def sweep(memory: Replica) -> None:
    """Sweeps as if all had been kept forty days ago."""
    listed = memory.store.list

    def list_aged(folder: str, limit: int | None = None, after: str = "") -> tuple[Entry, ...]:
        aged_s = 40 * 86_400 if folder.startswith(keys.TENANTS) else 0
        return tuple(replaced(each, modified_s=each.modified_s - aged_s) for each in listed(folder, limit, after))

    memory.store.list = list_aged  # type: ignore[method-assign]
    Sweeper(memory.store, eraser(memory.store), memory.vectors).run_once()


def eraser(store: Store) -> Eraser:
    """Knows that no other process is at it: takes up at once what was cut short, and closes what is done."""
    return Eraser(store, 0, closed_after_s=-1, taken_up_after_s=-1)


def prepared(*works: Callable[[Replica], object]) -> State:
    """The objects of a store in which this was done."""
    store = FakeStore()
    check_layout(store)
    for work in works:
        work(Replica(store))
    return store.objects


def first(memory: Replica) -> None:
    memory.add()
    memory.say(turn(1))


def full(memory: Replica) -> None:
    first(memory)
    memory.say(turn(2), "walk", "")
    clip(memory)
    time(memory)
    derive(memory)


def exported() -> bytes:
    store = FakeStore()
    full(Replica(store))
    change(Replica(store))
    return b"".join(archive_of(Replica(store)).export(TENANT, "ada"))


ARCHIVE = exported()
OPERATIONS: dict[str, tuple[State, Callable[[Replica], object]]] = {
    "add": (prepared(), Replica.add),
    "change": (prepared(full), change),
    "remember": (prepared(first), lambda memory: memory.say(turn(2))),
    "remember another": (prepared(first), lambda memory: memory.say(turn(2), "walk", "")),
    "put_clip": (prepared(first), clip),
    "put_timings": (prepared(first), time),
    "keep_derived": (prepared(first), derive),
    "erase identity": (prepared(full), lambda memory: eraser(memory.store).identity(TENANT, "ada", "the test")),
    "erase person": (prepared(full), lambda memory: eraser(memory.store).person(TENANT, "ann", "", "the test")),
    "exemplar put": (prepared(first), put_example),
    "exemplar remove": (prepared(first, put_example), remove_example),
    "emotion put": (prepared(first, show(b"dull")), show(b"bright")),
    "sweep": (prepared(first, keep_for_days), sweep),
    "import": (prepared(), lambda memory: archive_of(memory).import_(TENANT, "", iter([ARCHIVE]))),
}
"""What is killed, and what is there before."""


def bring_to(store: Store, wanted: State) -> None:
    """Makes the objects of a store, in which nothing but records was left, those that are wanted."""
    there = {entry.key for entry in store.list("")}
    store.delete(there.difference(wanted))
    for key in set(wanted).difference(there):
        store.put(key, wanted[key])


def erase_all(store: Store) -> list[str]:
    """Erases the identity and everybody who is known, and sweeps; returns what is left but records and the layout."""
    with contextlib.suppress(NotFound):
        eraser(store).identity(TENANT, "ada", "the test")
    known = [*store.list(keys.person(TENANT, "")), *store.list(keys.erasing_person(TENANT, ""))]
    for name in {entry.key.rpartition("/")[2] for entry in known}:
        with contextlib.suppress(NotFound):
            if name.startswith("p-"):
                eraser(store).person(TENANT, name[2:], "", "the test")
            elif name.startswith("c-"):
                eraser(store).person(TENANT, "", name[2:], "the test")
    eraser(store).resume()
    Additions(store).resume(killed_after_s=0)
    ExampleChanges(store, Vectors(store)).resume(killed_after_s=0)
    # An empty object that tells the time of the store goes an hour later.
    stays = (keys.audits(TENANT), keys.LAYOUT, keys.RETENTIONS, "probe/")
    return [entry.key for entry in store.list("") if not entry.key.startswith(stays)]


def steps(*names: str) -> Iterator[object]:
    """Yields of each operation killed before each step: its name, the step, what readers find, what an erase leaves."""
    store = open_store()
    for name in names or OPERATIONS:
        before, work = OPERATIONS[name]
        last, call = 0, "begun"
        while call:
            bring_to(store, before)
            call = killed(last, WRITES if names else ("",), work)
            yield json.dumps([name, call, state(store), erase_all(store)])
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
