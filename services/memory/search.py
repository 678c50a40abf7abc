"""Nearest embeddings: by pgvector on PostgreSQL, over a cached matrix per owner on SQLite."""

import asyncio
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from cachetools import TTLCache
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Select, Table, bindparam, select, text

from services.memory.database import Session
from services.memory.schema import HalfVector, Vector, examples, tenants, turn_embeddings, users, vector_text

ROWS_AT_ONCE = 8192
"""Rows of a matrix that are scored at once: their float32 copy stays in the processor's cache."""

_APPROXIMATE = text(
    "SELECT set_config('hnsw.iterative_scan', 'relaxed_order', true), set_config('hnsw.ef_search', '100', true)"
)


@dataclass(frozen=True)
class Wanted:
    """A search among the rows of an owner.

    Attributes:
        vector: Unit length, (dimensions,).
        limit: Most hits.
        similarity_min: Least cosine.
        identities: Only rows of these identities; None stands for rows of the tenant itself.
        conversation: Only rows of this conversation.
        labels: Only these labels of the user; empty for any.
        since_s: Only rows said at this Unix time or later.
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
    """Rows of an owner: `names` are primary keys, `vectors` float16 (n, dimensions); the rest are columns (n,)."""

    added: int
    removed: int
    names: NDArray[Any]
    identities: NDArray[Any]
    conversations: NDArray[np.int64]
    labels: NDArray[Any]
    said_at_s: NDArray[np.float64]
    vectors: NDArray[np.float16]

    @classmethod
    def of(cls, added: int, removed: int, rows: Sequence[Any]) -> "Matrix":
        """Return the matrix of rows (name, identity, conversation, label, time, vector)."""
        names, owners, talks, labels, times, blobs = zip(*rows, strict=True) if rows else ((),) * 6
        vectors = np.frombuffer(b"".join(blobs), "<f2").reshape(len(rows), -1) if rows else np.zeros((0, 0), np.float16)
        strings = (np.array(column, object) for column in (names, owners, labels))
        name, owner, label = strings
        return cls(added, removed, name, owner, np.array(talks, np.int64), label, np.array(times, np.float64), vectors)

    def with_rows(self, added: int, more: "Matrix") -> "Matrix":
        """Return this matrix and rows that came later."""
        if not len(more.names):
            return replace(self, added=added)
        if not len(self.names):
            return replace(more, added=added)
        columns = ("names", "identities", "conversations", "labels", "said_at_s", "vectors")
        joined = {name: np.concatenate([getattr(self, name), getattr(more, name)]) for name in columns}
        return Matrix(added, self.removed, **joined)

    def nearest(self, wanted: Wanted) -> list[tuple[Any, float]]:
        """Return names and cosines of the nearest rows, the nearest first."""
        kept = np.isin(self.identities, np.array(wanted.identities, object)) & (self.said_at_s >= wanted.since_s)
        if wanted.conversation is not None:
            kept &= self.conversations == wanted.conversation
        if wanted.labels:
            kept &= np.isin(self.labels, np.array(sorted(wanted.labels), object))
        indices = np.flatnonzero(kept)
        scores = np.empty(len(indices), np.float32)
        query = wanted.vector.astype(np.float32)
        for start in range(0, len(indices), ROWS_AT_ONCE):
            some = indices[start : start + ROWS_AT_ONCE]
            scores[start : start + len(some)] = self.vectors[some].astype(np.float32) @ query
        count = min(wanted.limit, len(indices))
        best = np.argpartition(-scores, count - 1)[:count] if count else indices[:0]
        best = best[np.argsort(-scores[best], kind="stable")]
        return [
            (self.names[indices[at]], float(scores[at]))
            for at in best
            if scores[at] >= np.float32(wanted.similarity_min)
        ]

    @property
    def size_bytes(self) -> int:
        """Memory that it takes, about."""
        return int(self.vectors.nbytes + 64 * len(self.names) + 200)


class Searcher:
    """Finds the nearest embeddings.

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
            added, removed = users.c.embeddings_added, users.c.embeddings_removed
            counters = select(added, removed).where(users.c.tenant == session.tenant, users.c.id == user_id)
            rows = select(
                columns.turn_pk,
                columns.identity_id,
                columns.conversation_id,
                columns.user_emotion,
                columns.said_at_s,
                columns.vector,
            ).where(columns.tenant == session.tenant, columns.user_id == user_id, columns.vector.is_not(None))
            return await self._matrix(session, ("turns", user_id), counters, rows, columns.turn_pk, wanted)
        filters: list[ColumnElement[bool]] = [columns.user_id == user_id, columns.identity_id.in_(wanted.identities)]
        if wanted.conversation is not None:
            filters.append(columns.conversation_id == wanted.conversation)
        if wanted.since_s > -math.inf:
            filters.append(columns.said_at_s >= wanted.since_s)
        is_indexed = await session.scalar(select(users.c.is_indexed).where(users.c.id == user_id))
        if not is_indexed:
            return await self._by_pgvector(session, turn_embeddings, columns.turn_pk, wanted, filters)
        await session.run(_APPROXIMATE)
        indexed = [*filters, columns.is_indexed]
        found = await self._by_pgvector(session, turn_embeddings, columns.turn_pk, wanted, indexed)
        if len(found) < wanted.limit:  # The index gave up before it had all: filters leave little.
            return await self._by_pgvector(session, turn_embeddings, columns.turn_pk, wanted, filters)
        recent = [*filters, columns.is_indexed.is_(False)]
        found += await self._by_pgvector(session, turn_embeddings, columns.turn_pk, wanted, recent)
        return sorted(found, key=lambda hit: -hit[1])[: wanted.limit]

    async def examples(self, session: Session, wanted: Wanted) -> list[tuple[str, float]]:
        """Return ids and cosines of the tenant's and identities' examples, the nearest first."""
        columns = examples.c
        if session.is_postgresql:
            owned = columns.identity_id.in_([name for name in wanted.identities if name])
            filters = [owned | columns.identity_id.is_(None)] if None in wanted.identities else [owned]
            return await self._by_pgvector(session, examples, columns.id, wanted, filters)
        added, removed = tenants.c.examples_added, tenants.c.examples_removed
        counters = select(added, removed).where(tenants.c.tenant == session.tenant)
        zero = text("0 AS conversation"), columns.user_emotion, text("0 AS said_at_s")
        rows = select(columns.id, columns.identity_id, *zero, columns.vector).where(columns.tenant == session.tenant)
        return await self._matrix(session, ("examples", session.tenant), counters, rows, None, wanted)

    def drop(self, kind: str, owners: Iterable[str]) -> None:
        """Drop the matrices of owners that were erased."""
        for owner in owners:
            self.cache.pop((kind, owner), None)

    async def _matrix(
        self,
        session: Session,
        owner: tuple[str, str],
        counters: Select[Any],
        rows: Select[Any],
        order: ColumnElement[Any] | None,
        wanted: Wanted,
    ) -> list[tuple[Any, float]]:
        """Search the owner's matrix; rows that came since are read, all of them once some were removed."""
        counts = await session.first(counters)
        if counts is None:
            self.cache.pop(owner, None)
            return []
        matrix = self.cache.get(owner)
        table = turn_embeddings if owner[0] == "turns" else examples
        rows = rows.where(table.c.model_digest == self._model_digest)
        if matrix is None or matrix.removed != counts[1] or (order is None and matrix.added != counts[0]):
            found = await session.rows(rows if order is None else rows.order_by(order))
            matrix = await asyncio.to_thread(Matrix.of, counts[0], counts[1], found)
        elif matrix.added != counts[0] and order is not None:
            last = int(matrix.names[-1]) if len(matrix.names) else -1
            found = await session.rows(rows.where(order > last).order_by(order))
            matrix = matrix.with_rows(counts[0], Matrix.of(counts[0], counts[1], found))
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
        query = bindparam("query", vector_text(wanted.vector), HalfVector())
        distance = table.c.vector.op("<=>", is_comparison=True)(query)
        statement = select(name, distance.label("distance")).where(
            table.c.tenant == session.tenant, table.c.model_digest == self._model_digest, *filters
        )
        if wanted.labels:
            statement = statement.where(table.c.user_emotion.in_(sorted(wanted.labels)))
        found = await session.rows(statement.order_by(text("distance")).limit(wanted.limit))
        least = 1 - wanted.similarity_min
        return [(row[0], 1 - row[1]) for row in found if row[1] is not None and row[1] <= least]
