"""Nearest embeddings: by pgvector on PostgreSQL, over a cached matrix per owner on SQLite."""

import asyncio
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from cachetools import TTLCache
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Double, Select, Table, bindparam, literal, select, text, type_coerce
from sqlalchemy.types import NullType

from services.memory.schema import (
    DIMENSIONS,
    HalfVector,
    Vector,
    examples,
    tenants,
    turn_embeddings,
    users,
    vector_text,
)
from services.memory.session import Session

_APPROXIMATE = text(
    "SELECT set_config('hnsw.iterative_scan', 'relaxed_order', true), set_config('hnsw.ef_search', '100', true)"
)


@dataclass(frozen=True)
class Wanted:
    """A search for at most `limit` rows near `vector`, of unit length, (dimensions,), at least of `similarity_min`.

    None among the identities stands for rows of the tenant itself; empty labels for any.
    """

    vector: Vector
    limit: int
    similarity_min: float
    identities: tuple[str | None, ...]
    conversation: int | None = None
    labels: frozenset[str] = frozenset()
    since_s: float = -math.inf


@dataclass(frozen=True, eq=False)
class Matrix:
    """Rows of an owner, of which so many were `added` and `removed` by then.

    Attributes:
        codes: A number for each identity and label.
        names: Primary keys, (n,).
        columns: float64 (4, n): code of the identity, conversation, code of the label, Unix time said.
        vectors: float32 (n, dimensions), of length 1: scoring float16 takes three times as long.
    """

    added: int
    removed: int
    codes: dict[str | None, int]
    names: NDArray[Any]
    columns: NDArray[np.float64]
    vectors: NDArray[np.float32]

    @classmethod
    def of(cls, added: int, removed: int, rows: Sequence[Any], before: "Matrix | None" = None) -> "Matrix":
        """Return the matrix of rows (name, identity, conversation, label, time, vector), behind those of `before`."""
        codes = before.codes if before else {}
        names, owners, talks, labels, times, blobs = zip(*rows, strict=True) if rows else ((),) * 6
        of = [[codes.setdefault(name, len(codes)) for name in column] for column in (owners, labels)]
        columns = np.array([of[0], talks, of[1], times], np.float64)
        vectors = (
            np.frombuffer(b"".join(blobs), "<f2").reshape(len(rows), -1 if rows else DIMENSIONS).astype(np.float32)
        )
        keys = np.array(names, object)
        if before:
            keys, columns = np.concatenate([before.names, keys]), np.concatenate([before.columns, columns], axis=1)
            vectors = np.concatenate([before.vectors, vectors])
        return cls(added, removed, codes, keys, columns, vectors)

    def nearest(self, wanted: Wanted) -> list[tuple[Any, float]]:
        """Return names and cosines of the nearest rows, the nearest first."""
        owners, talks, labels, said_at_s = self.columns
        kept = np.isin(owners, [self.codes.get(name, -1) for name in wanted.identities]) & (said_at_s >= wanted.since_s)
        if wanted.conversation is not None:
            kept &= talks == wanted.conversation
        if wanted.labels:
            kept &= np.isin(labels, [self.codes.get(label, -1) for label in wanted.labels])
        indices, query = np.flatnonzero(kept), wanted.vector.astype(np.float32)
        # Without a filter the rows need no copy.
        scores = (self.vectors if kept.all() else self.vectors[indices]) @ query
        count = min(wanted.limit, len(indices))
        best = np.argpartition(-scores, count - 1)[:count] if count else indices[:0]
        near = [at for at in best[np.argsort(-scores[best], kind="stable")] if scores[at] >= wanted.similarity_min]
        return [(self.names[indices[at]], float(scores[at])) for at in near]

    @property
    def size_bytes(self) -> int:
        """Memory that it takes, about."""
        return int(self.vectors.nbytes + self.columns.nbytes + 40 * len(self.names) + 200)


class Searcher:
    """Finds the nearest embeddings of a model.

    Args:
        cache_bytes: Memory for matrices.
        keep_s: Seconds after its last use that a matrix is kept.
        model_digest: Rows of other models are not searched.
    """

    def __init__(self, cache_bytes: int, keep_s: float, model_digest: str) -> None:
        self._model_digest = model_digest
        self.cache: TTLCache[tuple[str, str], Matrix] = TTLCache(cache_bytes, keep_s, getsizeof=lambda m: m.size_bytes)

    async def turns(self, session: Session, user_id: str, wanted: Wanted) -> list[tuple[int, float]]:
        """Return primary keys and cosines of the turns of a user, the nearest first."""
        columns = turn_embeddings.c
        if not session.is_postgresql:
            known = await session.find(users, id=user_id)
            counts = (known.embeddings_added, known.embeddings_removed) if known else None
            about = columns.identity_id, columns.conversation_id, columns.user_emotion, columns.said_at_s
            mine = session.mine(turn_embeddings, user_id=user_id, model_digest=self._model_digest)
            rows = select(columns.turn_pk, *about, type_coerce(columns.vector, NullType())).where(
                mine, columns.vector.is_not(None)
            )
            return await self._matrix(session, ("turns", user_id), counts, rows, columns.turn_pk, wanted)
        filters = [columns.user_id == user_id, columns.identity_id.in_(wanted.identities)]
        if wanted.conversation is not None:
            filters.append(columns.conversation_id == wanted.conversation)
        if wanted.since_s > -math.inf:
            filters.append(columns.said_at_s >= wanted.since_s)
        exactly = partial(self._by_pgvector, session, turn_embeddings, columns.turn_pk, wanted)
        if not await session.value(select(users.c.is_indexed).where(users.c.id == user_id)):
            return await exactly(filters)
        await session.run(_APPROXIMATE)
        found = await exactly([*filters, columns.is_indexed])
        if len(found) < wanted.limit:  # The index gave up before it had all: filters leave little.
            return await exactly(filters)
        found += await exactly([*filters, columns.is_indexed.is_(False)])
        return sorted(found, key=lambda hit: -hit[1])[: wanted.limit]

    async def examples(self, session: Session, wanted: Wanted) -> list[tuple[str, float]]:
        """Return ids and cosines of the tenant's and identities' examples, the nearest first."""
        columns = examples.c
        if session.is_postgresql:
            owned = columns.identity_id.in_([name for name in wanted.identities if name]) | columns.identity_id.is_(
                None
            )
            return await self._by_pgvector(session, examples, columns.id, wanted, [owned])
        known = await session.find(tenants)
        counts = (known.examples_added, known.examples_removed) if known else None
        about = columns.identity_id, literal(0), columns.user_emotion, literal(0.0)
        mine = session.mine(examples, model_digest=self._model_digest)
        rows = select(columns.id, *about, type_coerce(columns.vector, NullType())).where(mine)
        return await self._matrix(session, ("examples", session.tenant), counts, rows, None, wanted)

    def drop(self, kind: str, owners: Iterable[str]) -> None:
        """Drop the matrices of owners that were erased."""
        for owner in owners:
            self.cache.pop((kind, owner), None)

    async def _matrix(
        self,
        session: Session,
        owner: tuple[str, str],
        counts: tuple[int, int] | None,
        rows: Select[Any],
        key: ColumnElement[Any] | None,
        wanted: Wanted,
    ) -> list[tuple[Any, float]]:
        """Search the owner's matrix; rows that came since are read, all of them once some were removed."""
        if counts is None:
            self.cache.pop(owner, None)
            return []
        matrix, (added, removed) = self.cache.get(owner), counts
        if matrix is None or matrix.removed != removed or (key is None and matrix.added != added):
            found = await session.rows(rows if key is None else rows.order_by(key))
            matrix = await asyncio.to_thread(Matrix.of, added, removed, found)
        elif matrix.added != added and key is not None:
            last = int(matrix.names[-1]) if len(matrix.names) else -1
            found = await session.rows(rows.where(key > last).order_by(key))
            matrix = Matrix.of(added, removed, found, matrix)
        if matrix.size_bytes <= self.cache.maxsize:
            self.cache[owner] = matrix
        return await asyncio.to_thread(matrix.nearest, wanted)

    async def _by_pgvector(
        self,
        session: Session,
        table: Table,
        name: ColumnElement[Any],
        wanted: Wanted,
        filters: Sequence[ColumnElement[bool]],
    ) -> list[tuple[Any, float]]:
        # As a subquery it is parsed once. A parameter would be parsed for each row: 40 us each.
        query = select(bindparam("query", vector_text(wanted.vector), HalfVector())).scalar_subquery()
        distance: Any = table.c.vector.op("<=>", return_type=Double())(query).label("distance")
        found = select(name, distance).where(session.mine(table, model_digest=self._model_digest), *filters)
        if wanted.labels:
            found = found.where(table.c.user_emotion.in_(sorted(wanted.labels)))
        rows = await session.rows(found.order_by(text("distance")).limit(wanted.limit))
        least = 1 - wanted.similarity_min
        return [(row[0], 1 - row[1]) for row in rows if row[1] is not None and row[1] <= least]
