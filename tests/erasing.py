"""A small memory, and how an identity and a person of it are erased."""

from collections.abc import Callable
from dataclasses import replace

from services.memory import keys
from services.memory.domain import Audit, ClipKind
from services.memory.forgetting.erasing import Eraser
from services.memory.registry.heads import IDENTITIES
from tests.fake_store import FakeStore
from tests.talking import TENANT, WAV, Clock, Replica, turn

Ask = Callable[[Eraser], Audit]
ERASE: dict[str, Ask] = {
    "identity": lambda eraser: eraser.identity(TENANT, "ada", "the test"),
    "person": lambda eraser: eraser.person(TENANT, "ann", "", "the test"),
}


def make(clock: Clock) -> tuple[FakeStore, Replica]:
    store = FakeStore(clock)
    memory = Replica(store, clock)
    memory.add()
    memory.say(turn(1))
    memory.say(turn(2), "walk")
    memory.talks.put_clip(TENANT, "ada", "ann", "talk", "turn-1", ClipKind.SPEECH, WAV)
    return store, memory


def eraser(store: FakeStore, clock: Clock) -> Eraser:
    return Eraser(store, 70, clock=clock, wait=lambda seconds: None)


def others(store: FakeStore) -> list[str]:
    return [key for key in sorted(store.objects) if "/audits/" not in key and not key.startswith(keys.ERASING)]


def what_stays(what: str, store: FakeStore) -> list[str]:
    return [key for key in others(store) if what == "person" and "p-ann" not in key]


def keys_of_marks(store: FakeStore) -> list[str]:
    return [key for key in store.objects if key.startswith(keys.ERASING) and b'"done_at_s":0.0' in store.objects[key]]


def head_of_an_addition(memory: Replica, generation: str) -> bytes:
    """As a writer leaves it that dies before it looks for an erasure."""
    return IDENTITIES.encode(replace(memory.registry.identity(TENANT, "ada"), generation=generation))
