"""What can be erased: an identity, or a person. Where their things are, of which generation, and of which kind."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from typing import Protocol

from services.common.errors import Damaged
from services.memory import keys
from services.memory.domain import Erased, Identity
from services.memory.keys import Scope, Talk
from services.memory.records import Codec
from services.memory.store import Entry, Object, Store
from services.memory.talks.persons import generation_of

Contents = dict[str, tuple[Entry, ...]]
"""What is in folders, none of them empty."""

_GENERATION_CHARS = 32
_IDENTITIES = Codec(Identity)


class Subject(Protocol):
    """What is erased."""

    @property
    def tenant(self) -> str:
        """Whose it is."""

    @property
    def what(self) -> str:
        """For people: "identity anna"."""

    @property
    def mark(self) -> str:
        """Key of its erasure's mark."""

    @property
    def head(self) -> str:
        """Key of its head."""

    @property
    def head_kind(self) -> str:
        """What its head counts as."""

    @property
    def takes_later_ones(self) -> bool:
        """Whether generations that appear before the erasure is done are erased as well."""

    def folder(self, found: Object) -> str:
        """Returns the folder of the generation that a head names.

        Raises:
            Damaged: It cannot be read.
        """

    def contents(self, store: Store) -> Contents:
        """Returns what is there now, of every generation that can be found without the head."""

    def contents_of(self, store: Store, folders: Iterable[str]) -> Contents:
        """Returns what is there now of the generations that have these folders."""


@dataclass(frozen=True)
class IdentitySubject:
    """An identity: every addition of this id."""

    tenant: str
    identity: str
    head_kind: str = field(default="head", init=False)
    takes_later_ones: bool = field(default=True, init=False)

    @property
    def what(self) -> str:
        """See the port."""
        return f"identity {self.identity}"

    @property
    def mark(self) -> str:
        """See the port."""
        return keys.erasing_identity(self.tenant, self.identity)

    @property
    def head(self) -> str:
        """See the port."""
        return keys.head(self.tenant, self.identity)

    def folder(self, found: Object) -> str:
        """Returns the folder of an addition; see the port."""
        return Scope(self.tenant, self.identity, _IDENTITIES.decode(self.head, found.content).generation).folder

    def contents(self, store: Store) -> Contents:
        """Returns what is there of any addition; see the port."""
        every = keys.identity_folder(self.tenant, self.identity)
        there: dict[str, list[Entry]] = {}
        for entry in store.list(every):
            generation = entry.key.removeprefix(every).split("/")[0]
            there.setdefault(Scope(self.tenant, self.identity, generation).folder, []).append(entry)
        return {folder: tuple(entries) for folder, entries in there.items()}

    def contents_of(self, store: Store, folders: Iterable[str]) -> Contents:
        """Returns what is there of these additions; see the port."""
        return {folder: entries for folder in folders if (entries := store.list(folder))}


@dataclass(frozen=True)
class PersonSubject:
    """A person: one generation of this name. Whoever comes back meanwhile is another."""

    tenant: str
    name: str
    head_kind: str = field(default="persons", init=False)
    takes_later_ones: bool = field(default=False, init=False)

    @property
    def what(self) -> str:
        """See the port."""
        kind, _, name = self.name.partition("-")
        return f"{'person' if kind == 'p' else 'conversation'} {name}"

    @property
    def mark(self) -> str:
        """See the port."""
        return keys.erasing_person(self.tenant, self.name)

    @property
    def head(self) -> str:
        """See the port."""
        return keys.person(self.tenant, self.name)

    def folder(self, found: Object) -> str:
        """Returns the folder that says where something of the person is; see the port."""
        return keys.persons_of(self.tenant, self.name, generation_of(self.head, found.content))

    def contents(self, store: Store) -> Contents:
        """Returns what is there of any generation; it reads the index of all persons, for want of a head."""
        every = keys.persons_of_all(self.tenant)
        names = {entry.key.removeprefix(every).split("/")[0] for entry in store.list(every)}
        mine = [name for name in names if name[: -_GENERATION_CHARS - 1] == self.name]
        return self.contents_of(store, [f"{every}{name}/" for name in mine])

    def contents_of(self, store: Store, folders: Iterable[str]) -> Contents:
        """Returns what is there of these generations; see the port. What the index names comes before the index."""
        there: Contents = {}
        indices: Contents = {}
        for folder in folders:
            entries = store.list(folder)
            if folder.startswith(keys.persons_of_all(self.tenant)):
                indices[folder] = entries
                for entry in entries:
                    talk = talk_at(self.tenant, entry.key)
                    there[talk.folder] = store.list(talk.folder)
            else:
                there[folder] = entries
        return {folder: entries for folder, entries in chain(there.items(), indices.items()) if entries}


def subject_of(mark: str) -> Subject:
    """Returns what the erasure with this mark is of."""
    tenant, _, what = mark.removeprefix(keys.ERASING).partition("/")
    return IdentitySubject(tenant, what[2:]) if what.startswith("i-") else PersonSubject(tenant, what)


def talk_at(tenant: str, index: str) -> Talk:
    """Returns the talk that has this index."""
    person, _, where = index.removeprefix(keys.persons_of_all(tenant)).partition("/")
    name, generation = _name_and_generation(person)
    return Talk(Scope(tenant, *_name_and_generation(where)), name, generation)


def scope_of(folder: str) -> Scope | None:
    """Returns the addition of an identity that has this folder; None for a folder of another kind."""
    parts = folder.split("/")
    return Scope(parts[1], parts[3], parts[4]) if len(parts) == 6 and parts[2] == "kept" else None


def by_talk(scope: Scope, entries: Iterable[Entry]) -> Iterator[tuple[Talk, list[Entry]]]:
    """Yields the talks with an addition of an identity, each with those of `entries` that are below it; by person."""

    def name(entry: Entry) -> str:
        return entry.key.removeprefix(scope.people).split("/")[0]

    below = (entry for entry in entries if entry.key.startswith(scope.people))
    for person, group in groupby(sorted(below, key=name), name):
        yield Talk(scope, *_name_and_generation(person)), list(group)


def head_of(store: Store, subject: Subject) -> Object | None:
    """Returns a head; one that the store says is damaged is there too, with nothing in it."""
    try:
        found = store.get(subject.head)
    except Damaged:
        return Object(b"", "")
    return found if isinstance(found, Object) else None


def kind_of(key: str) -> str:
    """Returns what an object of an identity or a person counts as."""
    parts = key.split("/")
    if parts[2] != "kept":
        return "persons"
    below = parts[7:] if parts[5] == "people" else parts[5:]
    if below[0] == "exemplars" and below[1] == "vectors":
        return "vectors"
    return below[0]


def counted(entries: Iterable[tuple[str, int]], before: Sequence[Erased] = ()) -> tuple[Erased, ...]:
    """Returns how much of each kind there is, with what was counted before; `entries` are kinds and bytes."""
    objects = Counter({row.kind: row.objects for row in before})
    size_bytes = Counter({row.kind: row.size_bytes for row in before})
    for kind, size in entries:
        objects[kind] += 1
        size_bytes[kind] += size
    return tuple(Erased(kind, objects[kind], size_bytes[kind]) for kind in sorted(objects))


def _name_and_generation(folder: str) -> tuple[str, str]:
    return folder[: -_GENERATION_CHARS - 1], folder[-_GENERATION_CHARS:]
