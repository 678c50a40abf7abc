"""Rows for the memory's benchmark: users, conversations, turns and embeddings, written below the service."""

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

TURNS = (
    *("pk", "tenant", "conversation_id", "place", "id", "user_text", "user_emotion", "reply_text", "reply_emotion"),
    *("user_intensity", "vote_record", "models", "variants", "votes", "delivery", "timings_s", "said_at_s"),
    "kept_at_s",
)
EMBEDDINGS = (
    *("turn_pk", "tenant", "user_id", "identity_id", "conversation_id", "user_emotion", "said_at_s"),
    *("model_digest", "vector"),
)
CONVERSATION_TURNS = 50
ROWS_AT_ONCE = 20_000


def vectors_of(count: int, random: np.random.Generator) -> Floats:
    """Return blends of two of 750 real sentence embeddings, (count, 384): a dense set with many near neighbours."""
    kept = np.load(Path("services/mllm/exemplars.npz"))
    real = np.concatenate([kept["messages"], kept["replies"]]).astype(np.float32)
    one, other = random.integers(0, len(real), (2, count))
    share = random.random((count, 1)).astype(np.float32)
    blends = real[one] * share + real[other] * (1 - share)
    blends += random.normal(size=blends.shape).astype(np.float32) * 0.01
    vectors: Floats = blends / np.linalg.norm(blends, axis=1, keepdims=True)
    return vectors


class Rows:
    """Turns of `users`, so many each, of one identity.

    Args:
        tenant: Whose.
        identity_id: Id of the identity.
        model_digest: Of the sentence embedding.
        users: Names and ids.
        each: Turns of each.
        first: First primary key.
    """

    def __init__(
        self, tenant: str, identity_id: str, model_digest: str, users: dict[str, str], each: int, first: int
    ) -> None:
        self.tenant, self.identity_id, self.users, self.each, self.first = tenant, identity_id, users, each, first
        self._digest, self._now_s = model_digest, time.time()
        self._talks = -(-each // CONVERSATION_TURNS)

    def user_rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield id, tenant, kind, name, time."""
        return ((id_, self.tenant, "user", name, self._now_s) for name, id_ in self.users.items())

    def conversation_rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield id, tenant, identity, user, name, last place, time."""
        for number, id_ in enumerate(self.users.values()):
            for talk in range(self._talks):
                key = self.first + number * self._talks + talk
                yield key, self.tenant, self.identity_id, id_, f"talk-{talk}", CONVERSATION_TURNS, self._now_s

    def batches(self) -> Iterator[tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]]:
        """Yield rows of turns and of embeddings."""
        random = np.random.default_rng(self.first)
        said, found, owners = [], [], list(self.users.values())
        total = len(owners) * self.each
        blobs = (
            row
            for start in range(0, total, ROWS_AT_ONCE)
            for row in vectors_of(min(ROWS_AT_ONCE, total - start), random)
        )
        for number, vector in enumerate(blobs):
            owner, turn = divmod(number, self.each)
            talk, place = divmod(turn, CONVERSATION_TURNS)
            pk, key, time_s = self.first + number, self.first + owner * self._talks + talk, self._now_s - total + number
            text = f"question {number} of a long talk about this and that"
            head = (pk, self.tenant, key, place + 1, f"turn-{turn}", text, "sad", "an answer", "caring", 0.5, b"")
            documents = ('{"tts": "a"}', '{"tts": "default"}', "[]", "{}", "{}")
            said.append((*head, *documents, time_s, time_s))
            about = pk, self.tenant, owners[owner], self.identity_id, key, "sad", time_s, self._digest
            found.append((*about, vector.astype(np.float16)))
            if len(said) == ROWS_AT_ONCE or number == total - 1:
                yield said, found
                said, found = [], []


def write_sqlite(file: Path, rows: Rows) -> None:
    """Write rows into the embedded database."""
    with sqlite3.connect(file) as connection:
        connection.executemany(
            "INSERT INTO users (id, tenant, kind, name, created_at_s) VALUES (?,?,?,?,?)", rows.user_rows()
        )
        columns = "id, tenant, identity_id, user_id, name, last_place, created_at_s"
        connection.executemany(
            f"INSERT INTO conversations ({columns}) VALUES (?,?,?,?,?,?,?)", rows.conversation_rows()
        )
        for said, found in rows.batches():
            connection.executemany(_insert("turns", TURNS), said)
            blobs = ((*row[:-1], row[-1].tobytes()) for row in found)
            connection.executemany(_insert("turn_embeddings", EMBEDDINGS), blobs)


async def write_postgres(url: str, rows: Rows) -> None:
    """Write rows into PostgreSQL, as its superuser: row-level security allows no COPY."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("SET session_replication_role = replica")
        await connection.set_type_codec("halfvec", schema="public", encoder=_halfvec, decoder=bytes, format="binary")
        names = ["id", "tenant", "kind", "name", "created_at_s"]
        await connection.copy_records_to_table("users", records=rows.user_rows(), columns=names)
        names = ["id", "tenant", "identity_id", "user_id", "name", "last_place", "created_at_s"]
        await connection.copy_records_to_table("conversations", records=rows.conversation_rows(), columns=names)
        for said, found in rows.batches():
            await connection.copy_records_to_table("turns", records=said, columns=TURNS)
            await connection.copy_records_to_table("turn_embeddings", records=found, columns=EMBEDDINGS)
        await connection.execute("SET session_replication_role = origin")
        for table in ("users", "conversations", "turns", "turn_embeddings"):
            await connection.execute(f"VACUUM ANALYZE {table}")
    finally:
        await connection.close()


def named_users(prefix: str, count: int) -> dict[str, str]:
    """Return names and new ids."""
    return {f"{prefix}-{number}": uuid4().hex for number in range(count)}


def _insert(table: str, columns: tuple[str, ...]) -> str:
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


def _halfvec(vector: NDArray[np.float16]) -> bytes:
    """Return a vector as pgvector's binary format has it: dimensions, zero, numbers; big-endian."""
    return len(vector).to_bytes(2, "big") + b"\0\0" + vector.astype(">f2").tobytes()
