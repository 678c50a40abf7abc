"""The store of the memory in a dictionary."""

import hashlib
import threading
import time
from collections.abc import Callable, Iterable

from services.memory.store import SAME, Entry, Object, Same, check_folder, check_key


class FakeStore:
    """`services.memory.store.Store` in a dictionary.

    `before(operation, key)` is called first, for each key of a deletion, and may raise. Whoever puts into `objects`
    itself leaves it to the clock of the first listing when that was.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.objects: dict[str, bytes] = {}
        self.modified_s: dict[str, float] = {}
        self.before: Callable[[str, str], None] = lambda operation, key: None
        self._clock = clock
        self._lock = threading.Lock()

    def put(self, key: str, content: bytes) -> str:
        self._begin("put", key)
        with self._lock:
            return self._write(key, content)

    def create(self, key: str, content: bytes) -> str | None:
        self._begin("create", key)
        with self._lock:
            return None if key in self.objects else self._write(key, content)

    def replace(self, key: str, content: bytes, etag: str) -> str | None:
        self._begin("replace", key)
        with self._lock:
            return self._write(key, content) if key in self.objects and _etag(self.objects[key]) == etag else None

    def get(self, key: str, unless: str = "") -> Object | Same | None:
        self._begin("get", key)
        content = self.objects.get(key)
        if content is None:
            return None
        return SAME if _etag(content) == unless else Object(content, _etag(content))

    def list(self, folder: str, limit: int | None = None, after: str = "") -> tuple[Entry, ...]:
        check_folder(folder)
        self.before("list", folder)
        with self._lock:
            found = sorted(key for key in self.objects if key.startswith(folder) and key > after)[:limit]
            for key in found:
                self.modified_s.setdefault(key, self._clock())
            return tuple(Entry(key, len(self.objects[key]), self.modified_s[key]) for key in found)

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._begin("delete", key)
            with self._lock:
                self.objects.pop(key, None)
                self.modified_s.pop(key, None)

    def check(self) -> None:
        self.before("check", "")

    def sweep(self) -> None:
        self.before("sweep", "")

    def close(self) -> None:
        self.before("close", "")

    def _begin(self, operation: str, key: str) -> None:
        check_key(key)
        self.before(operation, key)

    def _write(self, key: str, content: bytes) -> str:
        self.objects[key] = content
        self.modified_s[key] = self._clock()
        return _etag(content)


def _etag(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
