"""Deletes what is older than its tenant wants to keep it. How old an object is, its store says.

Of a turn goes first what its id had got: "it was here", so that a repeat that comes late does not bring it back. Then
go its rows, its clips and its timings, and the turn at last: whoever is cut short finds it again, and does the same
once more. What was left of the id goes when it is as old itself. So does that of a turn whose writer was killed before
it was there: its row goes first, which nothing but the id tells of.
"""

import logging
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from services.common.errors import Damaged
from services.memory import keys
from services.memory.domain import Identity, ReferenceKind, Retention
from services.memory.forgetting.fading import Fading
from services.memory.forgetting.leaving import Leaving
from services.memory.forgetting.retention import Retentions
from services.memory.forgetting.store_time import now_s
from services.memory.forgetting.subjects import by_talk
from services.memory.keys import Scope, Talk
from services.memory.records import Codec
from services.memory.store import Entry, Store, content_of
from services.memory.talks.conversation import PLACES, Place
from services.memory.vectors.index import Vectors
from services.memory.vectors.renewal import by_model
from services.memory.vectors.shelf import ERASED

DAY_S = 86_400.0

_IDENTITIES = Codec(Identity)
_GONE = PLACES.encode(Place(0, 0.0))

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Expired:
    """What one step did: objects that were deleted, and what could not be read, which is in the log."""

    objects: int = 0
    failures: int = 0


@dataclass(frozen=True)
class _Ages:
    """What is too old: what was written before these times, by the store's clock; 0 for nothing."""

    turns_s: float
    clips_s: float
    derived_s: float
    audits_s: float

    @classmethod
    def of(cls, retention: Retention, store_now_s: float) -> "_Ages":
        days = (retention.turns_days, retention.clips_days, retention.derived_days, retention.audits_days)
        turns_s, clips_s, derived_s, audits_s = (store_now_s - each * DAY_S if each else 0.0 for each in days)
        return cls(turns_s, max(turns_s, clips_s), derived_s, audits_s)


class Expiring:
    """Deletes what is too old in `store`. Calls block; any number of processes may do it at once.

    Args:
        store: Where it is.
        vectors: The rows by which turns are found.
    """

    def __init__(self, store: Store, vectors: Vectors) -> None:
        self._store = store
        self._vectors = vectors
        self._retentions = Retentions(store)
        self._leaving = Leaving(store)
        self._fading = Fading(store)

    def steps(self) -> Iterator[Expired]:
        """Goes through all tenants that have a retention, and yields after each identity.

        What cannot be read is logged, and does not stop the rest.
        """
        tenants = self._retentions.tenants()
        store_now_s = now_s(self._store) if tenants else 0.0
        for tenant in tenants:
            try:
                ages = _Ages.of(self._retentions.get(tenant), store_now_s)
            except Damaged as error:
                yield _failed(error)
                continue
            yield Expired(self._delete_old(keys.audits(tenant), ages.audits_s))
            after, talking = "", set[str]()
            while entries := self._store.list(keys.heads(tenant), limit=200, after=after):
                for entry in entries:
                    yield self._identity(tenant, entry.key, ages, talking)
                after = entries[-1].key
            if ages.turns_s:
                yield from (Expired() for _ in self._fading.steps(tenant, ages.turns_s, talking))

    def _identity(self, tenant: str, key: str, ages: _Ages, talking: set[str]) -> Expired:
        """Deletes what is too old of an identity; adds to `talking` the indices of the talks with it."""
        try:
            content = content_of(self._store.get(key))
            if content is None:
                return Expired()  # Erased since the listing.
            identity = _IDENTITIES.decode(key, content)
        except Damaged as error:
            return _failed(error)
        scope = Scope(tenant, identity.id, identity.generation)
        objects = sum(self._delete_old(scope.derived_folder(kind), ages.derived_s) for kind in ReferenceKind)
        failures = 0
        if ages.clips_s:
            for talk, entries in by_talk(scope, self._store.list(scope.people)):
                talking.add(talk.index)
                try:
                    objects += self._talk(talk, entries, ages)
                except Damaged as error:
                    failures += _failed(error).failures
        return Expired(objects, failures)

    def _talk(self, talk: Talk, entries: Iterable[Entry], ages: _Ages) -> int:
        there = _Below(talk, entries)
        old = [place for place, entry in there.turns.items() if entry.modified_s < ages.turns_s]
        for conversation, placed in old:
            self._store.put(talk.turn_id(conversation, placed.partition("-")[2]), _GONE)
        over = {place: entry for place, entry in there.ids_without_turn() if entry.modified_s < ages.turns_s}
        # Looked for now: whoever makes rows of another model anew looks at the ids after that.
        for folder in by_model(self._store, talk.models) if old or over else ():
            self._vectors.erase(folder, {keys.row_of(*place) for place in old} | self._rows_left(folder, over))
        gone = [clip.key for place, clip in there.clips if place in old or clip.modified_s < ages.clips_s]
        gone += [entry.key for place, entry in there.timings.items() if place in old or entry.modified_s < ages.turns_s]
        gone += [talk.turn(*place) for place in old]
        gone += [entry.key for entry in over.values()]
        if there.is_empty:
            gone += [entry.key for entry in there.vectors if entry.modified_s < ages.turns_s]
        self._store.delete(gone)
        for model_digest in there.models_with_erasures:
            self._vectors.compact(talk.vectors(model_digest))
        if gone or there.is_empty:
            self._leaving.fade(talk)
        return len(gone)

    def _rows_left(self, folder: str, ids: Collection[tuple[str, str]]) -> set[str]:
        """Returns the rows of these conversations and turn ids, of which no turn is there.

        The ids are looked for among the rows: what is left of an id whose time is over does not say its place.
        """
        blocks, _ = self._vectors.blocks(folder) if ids else ((), frozenset())
        return {row for block in blocks for row in block.turns if _id_of(*row.split("/")) in ids}

    def _delete_old(self, folder: str, before_s: float) -> int:
        """Deletes the objects of a folder that were written before that time; 0 deletes none."""
        if not before_s:
            return 0
        old = [entry.key for entry in self._store.list(folder) if entry.modified_s < before_s]
        self._store.delete(old)
        return len(old)


class _Below:
    """What is below the folder of `talk`, by what it is."""

    def __init__(self, talk: Talk, entries: Iterable[Entry]) -> None:
        self.turns: dict[tuple[str, str], Entry] = {}
        self.timings: dict[tuple[str, str], Entry] = {}
        self.clips: list[tuple[tuple[str, str], Entry]] = []
        self.vectors: list[Entry] = []
        self.models_with_erasures: set[str] = set()
        self._ids: dict[tuple[str, str], Entry] = {}
        for entry in entries:
            kind, first, *rest = entry.key.removeprefix(talk.folder).split("/")
            match kind:
                case "turns":
                    self.turns[first, rest[0]] = entry
                case "turn-ids":
                    self._ids[first, rest[0]] = entry
                case "timings":
                    self.timings[first, rest[0]] = entry
                case "clips":
                    self.clips.append(((first, keys.clip_of(entry.key)[0]), entry))
                case "vectors":
                    self.vectors.append(entry)
                    if rest[0].startswith(ERASED):
                        self.models_with_erasures.add(first)

    @property
    def is_empty(self) -> bool:
        """Whether only vectors are there, of which no turn is."""
        return not (self.turns or self.timings or self.clips or self._ids)

    def ids_without_turn(self) -> Iterator[tuple[tuple[str, str], Entry]]:
        """Yields the conversation and the turn id of which the turn is gone, or never was, and what the id has got."""
        there = {_id_of(*place) for place in self.turns}
        return ((place, entry) for place, entry in self._ids.items() if place not in there)


def _id_of(conversation: str, placed: str) -> tuple[str, str]:
    """Returns the conversation and the id of the turn at a place."""
    return conversation, placed.partition("-")[2]


def _failed(error: Damaged) -> Expired:
    log.error("something is not swept", extra={"why": str(error)})
    return Expired(failures=1)
