"""A store behind a replica's copies, that counts what it is asked."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from services.common.errors import NotReady
from services.memory import keys
from services.memory.records import sealed
from services.memory.store import Entry
from tests.fake_store import FakeStore
from tests.fakes import fail

KEEP_S = 60.0
SCOPE = keys.Scope("acme", "ada", "a" * 32)
TALK = keys.Talk(SCOPE, "p-bob", "b" * 32)
HEAD = keys.head("acme", "ada")
TURNS = TALK.turns("talk")
AWAY = fail(NotReady("the store is away; retry"))


class Clock:
    """Stands still until it is moved."""

    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Asked(FakeStore):
    """A store that counts what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, str]] = []
        self.before = self.count

    def count(self, operation: str, key: str) -> None:
        self.calls.append((operation, key))

    def reads(self, key: str) -> int:
        return len([call for call in self.calls if call in {("get", key), ("list", key)}])


class Foresighted(Asked):
    """A store that can be asked several things at once; listings are answered as they were when it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[Sequence[tuple[str, str]], Sequence[tuple[str, int | None, str]]]] = []
        self._listed: dict[tuple[int, str, int | None, str], tuple[Entry, ...]] = {}

    @contextmanager
    def ahead(self, gets: Sequence[tuple[str, str]], lists: Sequence[tuple[str, int | None, str]]) -> Iterator[None]:
        self.told.append((gets, lists))
        self._listed = {(threading.get_ident(), *asked): super(Foresighted, self).list(*asked) for asked in lists}
        yield

    def list(self, folder: str, limit: int | None = None, after: str = "") -> tuple[Entry, ...]:
        listed = self._listed.pop((threading.get_ident(), folder, limit, after), None)
        return super().list(folder, limit, after) if listed is None else listed


def turn(number: int, size_bytes: int = 10) -> tuple[str, bytes]:
    return f"{TURNS}{number:010d}-t", sealed(b"x" * size_bytes)
