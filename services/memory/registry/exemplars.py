"""Examples of how avatars answer, found by what their messages mean: an identity's own, and its tenant's."""

import secrets
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

import emotions
from services.common.errors import InvalidRequest
from services.memory import keys
from services.memory.checks import check_choice, check_handle, check_id, check_text
from services.memory.domain import Exemplar, ExemplarHit
from services.memory.records import Codec, digest_of
from services.memory.registry.registry import Registry
from services.memory.store import Store, content_of
from services.memory.vectors.block import Row
from services.memory.vectors.embedding import Embedding
from services.memory.vectors.index import Vectors
from services.memory.vectors.nearest import Wanted

CHARS_MAX = 1000
"""Longest message, and longest answer."""

AT_ONCE_MAX = 200
"""Most examples in one call."""

_EXEMPLARS = Codec(Exemplar)


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

    def put(self, tenant: str, identity: str, exemplars: Sequence[Exemplar]) -> tuple[str, ...]:
        """Keeps examples, and returns their ids. One that is there already keeps its id.

        Two writers that bring the same example at the same moment may leave it twice; it is found once.
        """
        vectors = self._places(exemplars)
        examples = self._examples(tenant, identity)
        ids = self._keep(examples, exemplars, vectors)
        if identity:
            self._registry.check_still(self._registry.found(tenant, identity).scope)
        self._vectors.compact(examples.vectors(self._embedding.digest))
        return ids

    def restore(self, scope: keys.Scope, exemplars: Sequence[Exemplar]) -> None:
        """Keeps examples of an archive with an addition of an identity of which the head is not there yet."""
        self._keep(keys.Examples(scope.folder), exemplars, self._places(exemplars))

    def list(self, tenant: str, identity: str, page_size: int, after: str) -> tuple[Exemplar, ...]:
        """Returns at most `page_size` examples, by id, those behind the id `after`."""
        if after:
            check_handle("page_token", after)
        items = self._examples(tenant, identity).items
        found = (self._read(entry.key) for entry in self._store.list(items, page_size, items + after if after else ""))
        return tuple(exemplar for exemplar in found if exemplar)

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
        owners = [self._examples(tenant, identity), *([self._examples(tenant, "")] if identity else [])]
        vector = self._embedding.of(text)
        if vector is None:
            return ()
        hits: dict[str, ExemplarHit] = {}
        for examples in owners:
            for found in self._vectors.search(examples.vectors(self._embedding.digest), vector, wanted):
                exemplar = self._read(examples.items + found.turn)
                if exemplar:
                    hits.setdefault(_name(exemplar), ExemplarHit(exemplar, found.similarity))
        return tuple(sorted(hits.values(), key=lambda hit: -hit.similarity)[:hits_max])

    def remove(self, tenant: str, identity: str, ids: Sequence[str]) -> int:
        """Removes examples, and returns how many there were."""
        if not 1 <= len(ids) <= AT_ONCE_MAX:
            raise InvalidRequest("ids", f"{len(ids)} of them; send 1 to {AT_ONCE_MAX}")
        for place, name in enumerate(ids):
            check_handle(f"ids[{place}]", name)
        examples = self._examples(tenant, identity)
        there = [name for name in dict.fromkeys(ids) if self._store.get(examples.items + name) is not None]
        self._store.delete([examples.items + name for name in there])
        self._vectors.erase(examples.vectors(self._embedding.digest), there)
        return len(there)

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

    def _keep(
        self, examples: keys.Examples, exemplars: Sequence[Exemplar], vectors: Sequence[NDArray[np.float32]]
    ) -> tuple[str, ...]:
        """Writes those that are not there yet; returns the ids of all."""
        now_s = self._clock()
        ids: list[str] = []
        rows: list[Row] = []
        for exemplar, vector in zip(exemplars, vectors, strict=True):
            there = self._there(examples, exemplar, ids)
            ids.append(there or f"{_name(exemplar)}-{secrets.token_hex(4)}")
            if not there:
                rows.append(Row(ids[-1], now_s, "", exemplar.user_emotion, vector))
        # Rows first: one without its example is never found, an example without a row could not be.
        if rows:
            self._vectors.add(examples.vectors(self._embedding.digest), rows)
        fresh = {row.turn for row in rows}
        for exemplar, name in zip(exemplars, ids, strict=True):
            if name in fresh:
                self._store.put(examples.items + name, _EXEMPLARS.encode(replace(exemplar, id=name)))
        return tuple(ids)

    def _examples(self, tenant: str, identity: str) -> keys.Examples:
        if identity:
            return keys.Examples(self._registry.found(tenant, identity).scope.folder)
        check_id("tenant", tenant)
        return keys.Examples(keys.tenant_folder(tenant))

    def _there(self, examples: keys.Examples, exemplar: Exemplar, ids: Sequence[str]) -> str:
        """Returns the id that this example has already, be it in the same call; empty when it has none."""
        name = _name(exemplar)
        for entry in self._store.list(examples.items, limit=1, after=examples.items + name):
            found = entry.key.removeprefix(examples.items)
            if found.startswith(name):
                return found
        return next((one for one in ids if one.startswith(name)), "")

    def _read(self, key: str) -> Exemplar | None:
        content = content_of(self._store.get(key))
        return None if content is None else _EXEMPLARS.decode(key, content)


def _name(exemplar: Exemplar) -> str:
    """What is the same of the ids of equal examples."""
    return digest_of("\0".join((exemplar.user_text, exemplar.user_emotion, exemplar.reply_text)).encode())[:32]


def _check(field: str, exemplar: Exemplar) -> None:
    check_text(f"{field}.user_text", exemplar.user_text, CHARS_MAX)
    check_choice(f"{field}.user_emotion", exemplar.user_emotion, emotions.load().labels)
    check_text(f"{field}.reply_text", exemplar.reply_text, CHARS_MAX)
