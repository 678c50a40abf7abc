"""Examples of how avatars answer, found by what their messages mean: an identity's own, and its tenant's."""

import logging
import secrets
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

import emotions
from services.common.errors import Damaged, DeadlineExceeded, InvalidRequest, NotReady
from services.memory import keys
from services.memory.checks import check_choice, check_handle, check_id, check_text
from services.memory.domain import Exemplar, ExemplarHit
from services.memory.records import Codec, digest_of
from services.memory.registry.example_changes import ExampleChanges
from services.memory.registry.registry import Registry
from services.memory.store import Store, content_of
from services.memory.vectors.block import Row
from services.memory.vectors.embedding import Embedding
from services.memory.vectors.index import Vectors
from services.memory.vectors.nearest import Wanted
from services.memory.vectors.renewal import Renewal

CHARS_MAX = 1000
"""Longest message, and longest answer."""

AT_ONCE_MAX = 200
"""Most examples in one call."""

_EXEMPLARS = Codec(Exemplar)

log = logging.getLogger(__name__)


class Exemplars:
    """The examples in `store`. Calls block; any thread may call.

    Each method raises `InvalidRequest` for a name or a text that is not allowed and `NotFound` when the identity is
    unknown. An empty identity means the tenant.

    Args:
        store: Where they are.
        registry: Knows the identities.
        vectors: Finds them.
        embedding: Gives their messages their places in meaning space.
        clock: Unix time.
    """

    def __init__(
        self,
        store: Store,
        registry: Registry,
        vectors: Vectors,
        embedding: Embedding,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._registry, self._vectors = store, registry, vectors
        self._embedding, self._clock = embedding, clock
        self._renewal = Renewal(store, vectors, embedding)
        self._changes = ExampleChanges(store, vectors)

    def put(self, tenant: str, identity: str, exemplars: Sequence[Exemplar]) -> tuple[str, ...]:
        """Keeps examples, and returns their ids. One that is there already keeps its id.

        Two writers that bring the same example at the same moment may leave it twice; it is found once.
        """
        vectors = self._places(exemplars)
        scope, examples = self._found(tenant, identity)
        ids, rows = self._named(examples, exemplars, vectors)
        if rows:
            with self._changes.begun(examples, [row.turn for row in rows]):
                self._write(examples, exemplars, ids, rows)
        if scope:
            self._registry.check_still(scope)
        self._vectors.compact(examples.vectors(self._embedding.digest))
        return ids

    def restore(self, scope: keys.Scope, exemplars: Sequence[Exemplar]) -> None:
        """Keeps examples of an archive with an addition of an identity of which the head is not there yet."""
        examples = keys.Examples(scope.folder)
        ids, rows = self._named(examples, exemplars, self._places(exemplars))
        self._write(examples, exemplars, ids, rows)

    def list(self, tenant: str, identity: str, page_size: int, after: str) -> tuple[tuple[Exemplar, ...], str]:
        """Returns at most `page_size` examples, by id, those behind `after`, and what the next page is `after`."""
        if after:
            check_handle("page_token", after)
        items = self._found(tenant, identity)[1].items
        entries = self._store.list(items, page_size, items + after if after else "")
        found = (self._read(entry.key) for entry in entries)
        following = entries[-1].key.removeprefix(items) if len(entries) == page_size else ""
        return tuple(exemplar for exemplar in found if exemplar), following

    def search(
        self,
        tenant: str,
        identity: str,
        text: str,
        hits_max: int,
        similarity_min: float = -1.0,
        user_emotions: Collection[str] = (),
    ) -> tuple[ExemplarHit, ...]:
        """Returns the examples whose message is most like `text`, of the identity and of its tenant, nearest first."""
        wanted = Wanted(hits_max, similarity_min, labels=frozenset(user_emotions))
        owners = [self._found(tenant, owner) for owner in dict.fromkeys((identity, ""))]
        vector = self._embedding.of(text)
        if vector is None:
            return ()
        hits: dict[str, ExemplarHit] = {}
        for scope, examples in owners:
            if self._renew(examples) and scope:
                self._registry.check_still(scope)
            for found in self._vectors.search(examples.vectors(self._embedding.digest), vector, wanted):
                exemplar = self._read(examples.items + found.turn)
                if exemplar:
                    hits.setdefault(_name(exemplar), ExemplarHit(exemplar, found.similarity))
        return tuple(sorted(hits.values(), key=lambda hit: -hit.similarity)[:hits_max])

    def remove(self, tenant: str, identity: str, ids: Sequence[str]) -> int:
        """Removes examples, and returns how many there were. When it fails, call it again."""
        if not 1 <= len(ids) <= AT_ONCE_MAX:
            raise InvalidRequest("ids", f"{len(ids)} of them; send 1 to {AT_ONCE_MAX}")
        for place, name in enumerate(ids):
            check_handle(f"ids[{place}]", name)
        _, examples = self._found(tenant, identity)
        there = [name for name in dict.fromkeys(ids) if self._store.get(examples.items + name) is not None]
        with self._changes.begun(examples, ids):
            self._store.delete([examples.items + name for name in there])
            # Of all that are named: a call that was cut short may have left rows of those that it deleted.
            self._changes.erase_rows(examples, ids)
        return len(there)

    def drop_idle(self, idle_s: float) -> None:
        """Holds nothing in memory any longer that nobody asked for in so many seconds."""
        self._renewal.drop_idle(idle_s)

    def _places(self, exemplars: Sequence[Exemplar]) -> Sequence[NDArray[np.float32]]:
        """Checks examples, and returns their places in meaning space."""
        if not 1 <= len(exemplars) <= AT_ONCE_MAX:
            raise InvalidRequest("exemplars", f"{len(exemplars)} of them; send 1 to {AT_ONCE_MAX}")
        for place, exemplar in enumerate(exemplars):
            _check(f"exemplars[{place}]", exemplar)
        vectors: list[NDArray[np.float32]] = []
        for number, vector in enumerate(self._embedding.of_all([exemplar.user_text for exemplar in exemplars])):
            if vector is None:
                raise InvalidRequest(f"exemplars[{number}].user_text", "it has no meaning to be found by; use words")
            vectors.append(vector)
        return vectors

    def _named(
        self, examples: keys.Examples, exemplars: Sequence[Exemplar], vectors: Sequence[NDArray[np.float32]]
    ) -> tuple[tuple[str, ...], Sequence[Row]]:
        """Returns the ids of all, and the rows of those that are not there yet."""
        now_s = self._clock()
        ids: list[str] = []
        rows: list[Row] = []
        for exemplar, vector in zip(exemplars, vectors, strict=True):
            there = self._there(examples, exemplar, ids)
            ids.append(there or f"{_name(exemplar)}-{secrets.token_hex(4)}")
            if not there:
                rows.append(Row(ids[-1], now_s, "", exemplar.user_emotion, vector))
        return tuple(ids), rows

    def _write(
        self, examples: keys.Examples, exemplars: Sequence[Exemplar], ids: Sequence[str], rows: Sequence[Row]
    ) -> None:
        """Writes those that have a row here. Rows first: without its example one is never found, nor an example so."""
        if rows:
            self._vectors.add(examples.vectors(self._embedding.digest), rows)
        fresh = {row.turn for row in rows}
        for exemplar, name in zip(exemplars, ids, strict=True):
            if name in fresh:
                self._store.put(examples.items + name, _EXEMPLARS.encode(replace(exemplar, id=name)))

    def _found(self, tenant: str, identity: str) -> tuple[keys.Scope | None, keys.Examples]:
        """Returns the addition of the identity, None for the tenant, and where its examples are."""
        if identity:
            scope = self._registry.found(tenant, identity).scope
            return scope, keys.Examples(scope.folder)
        check_id("tenant", tenant)
        return None, keys.Examples(keys.tenant_folder(tenant))

    def _renew(self, examples: keys.Examples) -> bool:
        """Makes rows of another sentence embedding anew; tells whether it may have written. The search goes on."""
        try:
            return self._renewal.renew(examples.models, _Messages(self._store, examples.items))
        except (NotReady, DeadlineExceeded, Damaged) as error:
            log.warning("vectors of another model are not made anew", extra={"why": str(error)})
            return True

    def _there(self, examples: keys.Examples, exemplar: Exemplar, ids: Sequence[str]) -> str:
        """Returns the id that this example has already, be it in the same call; empty when it has none."""
        name = _name(exemplar)
        for entry in self._store.list(examples.items, limit=1, after=examples.items + name):
            found = entry.key.removeprefix(examples.items)
            if found.startswith(name):
                return found
        return next((one for one in ids if one.startswith(name)), "")

    def _read(self, key: str) -> Exemplar | None:
        return _read(self._store, key)


class _Messages:
    """The messages of the examples in `items`, of which rows are made; satisfies `Texts`."""

    def __init__(self, store: Store, items: str) -> None:
        self._store = store
        self._items = items

    def text(self, row: Row) -> str:
        exemplar = _read(self._store, self._items + row.turn)
        return exemplar.user_text if exemplar else ""

    def gone(self, rows: Sequence[Row]) -> Collection[str]:
        there = {entry.key.removeprefix(self._items) for entry in self._store.list(self._items)}
        return [row.turn for row in rows if row.turn not in there]


def _read(store: Store, key: str) -> Exemplar | None:
    content = content_of(store.get(key))
    return None if content is None else _EXEMPLARS.decode(key, content)


def _name(exemplar: Exemplar) -> str:
    """What is the same of the ids of equal examples."""
    return digest_of("\0".join((exemplar.user_text, exemplar.user_emotion, exemplar.reply_text)).encode())[:32]


def _check(field: str, exemplar: Exemplar) -> None:
    check_text(f"{field}.user_text", exemplar.user_text, CHARS_MAX)
    check_choice(f"{field}.user_emotion", exemplar.user_emotion, emotions.load().labels)
    check_text(f"{field}.reply_text", exemplar.reply_text, CHARS_MAX)
