"""A memory that can be talked with: all that keeps and finds turns, over any store, with an embedding of its own."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from services.memory.domain import File, Grant, NewIdentity, Profile, ReferenceKind, Turn, Use
from services.memory.keys import Scope, Talk
from services.memory.registry.registry import Registry
from services.memory.store import Store
from services.memory.talks.persons import Persons
from services.memory.talks.talks import Talks
from services.memory.vectors.embedding import Embedding
from services.memory.vectors.index import Vectors
from tests.fake_store import FakeStore

TENANT = "house"
WAV = b"RIFF\x00\x00\x00\x00WAVE" + b"speech" * 20
MP4 = b"\x00\x00\x00\x18ftypisom" + b"video" * 20


class WordEmbedder:
    """Texts are as near as they share words; "nowhere" has no direction."""

    model = "words"
    digest = "f" * 64

    def __init__(self) -> None:
        self.read: list[str] = []

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.read += texts
        return np.stack([np.sum([_place(word) for word in text.lower().split()], axis=0) for text in texts])


class OtherEmbedder(WordEmbedder):
    """Another model: its vectors are no use beside those of the first."""

    digest = "e" * 64

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return super().embed([text[::-1] for text in texts])


def _place(word: str) -> NDArray[np.float32]:
    if word == "nowhere":
        return np.zeros(64, np.float32)
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big")
    return np.random.default_rng(seed).normal(size=64).astype(np.float32)


class Clock:
    """A clock that is set by hand, in seconds."""

    def __init__(self, now_s: float = 1_800_000_000.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


@dataclass
class Replica:
    """One process of the memory."""

    store: Store
    clock: Clock = field(default_factory=Clock)
    embedder: WordEmbedder = field(default_factory=WordEmbedder)

    def __post_init__(self) -> None:
        self.idle = Clock(0.0)
        self.registry = Registry(self.store, self.clock)
        self.persons = Persons(self.store)
        self.vectors = Vectors(self.store, clock=self.idle)
        embedding = Embedding(self.embedder, self.idle)
        self.talks = Talks(self.store, self.registry, self.persons, self.vectors, embedding, self.clock)

    def add(self, identity: str = "ada", tenant: str = TENANT, uses: Sequence[Use] = tuple(Use)) -> None:
        self.registry.add(tenant, new(identity, uses))

    def scope(self, identity: str = "ada", tenant: str = TENANT) -> Scope:
        return self.registry.found(tenant, identity).scope

    def talk(self, person: str = "ann", conversation: str = "talk", identity: str = "ada") -> Talk:
        found = self.persons.talk(self.scope(identity), person, conversation)
        assert found
        return found

    def say(self, turn: Turn, conversation: str = "talk", person: str = "ann", identity: str = "ada") -> None:
        self.talks.remember(TENANT, identity, person, conversation, turn)

    def last(self, conversation: str = "talk", person: str = "ann", turns_max: int = 1000) -> list[str]:
        """The ids of the last turns, oldest first."""
        return [turn.id for turn in self.talks.last(self.scope(), person, conversation, turns_max).turns]

    def rows(self, person: str = "ann") -> list[str]:
        """What another process finds in the vectors of a person, double rows twice."""
        talk = self.talk(person)
        shelf = Vectors(self.store)._shelf
        folder = talk.vectors(self.talks.model_digest)
        blocks = [shelf.read(name) for name in shelf.listed(folder).blocks]
        return [turn for block in blocks if block for turn in block.turns]


def new(identity: str = "ada", uses: Sequence[Use] = tuple(Use)) -> NewIdentity:
    return NewIdentity(
        identity,
        Profile("Ada", "young", "female", "mid", "en"),
        tuple(Grant(use, "the test", "2026-01-31") for use in uses),
        (
            File(ReferenceKind.PORTRAIT, b"\x89PNG\r\n\x1a\n" + b"portrait" * 100),
            File(ReferenceKind.VOICE, b"RIFF\x00\x00\x00\x00WAVE" + b"voice" * 100),
        ),
    )


def turn(number: int, text: str = "") -> Turn:
    return Turn(f"turn-{number}", text or f"question {number}", "sad", f"answer {number}", "caring")


def keys_of(store: Store, part: str = "") -> list[str]:
    return [entry.key for entry in store.list("") if part in entry.key]


class Killed(BaseException):
    """The end of the process."""


def killed_at(store: FakeStore, step: int, work: Callable[[], object]) -> bool:
    """Runs `work` until its step of that number, from 0; tells whether it was killed."""
    steps = 0

    def count(operation: str, key: str) -> None:
        nonlocal steps
        steps += 1
        if steps > step:
            raise Killed

    store.before = count
    try:
        work()
    except Killed:
        return True
    finally:
        store.before = lambda operation, key: None
    return False


def at_step(store: FakeStore, step: int, work: Callable[[], object]) -> list[str]:
    """Does `work` before the store's step of that number, from 0; returns the keys at which that was."""
    steps, entered = 0, list[str]()

    def come_between(operation: str, key: str) -> None:
        nonlocal steps
        steps += 1
        if steps == step + 1:
            entered.append(key)
            work()

    store.before = come_between
    return entered


def once(store: FakeStore, operation: str, part: str, work: Callable[[], object]) -> list[str]:
    """Does `work` when the store is first asked for that of such a key; returns the keys at which that was."""
    entered: list[str] = []

    def come_between(done: str, key: str) -> None:
        if done == operation and part in key and not entered:
            entered.append(key)
            work()

    store.before = come_between
    return entered
