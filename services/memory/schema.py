"""Tables of the memory, the same on SQLite and PostgreSQL. `migrations/` creates them."""

from dataclasses import fields
from typing import Any, get_type_hints

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TextClause,
    UniqueConstraint,
    cast,
    false,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.engine import Dialect
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeDecorator, TypeEngine, UserDefinedType

from services.memory import domain

DIMENSIONS = 384
"""Of the embeddings; the column on PostgreSQL has so many."""

Vector = NDArray[np.floating[Any]]


class HalfVector(UserDefinedType[Any]):
    """pgvector's `halfvec`; values travel as text, so that a connection needs no codec of its own."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        """Return the SQL name of the type."""
        return f"halfvec({DIMENSIONS})"

    def bind_expression(self, bindvalue: Any) -> Any:
        """Cast a parameter from text."""
        return cast(cast(bindvalue, Text), self)


class Embedding(TypeDecorator[Vector]):
    """A vector of float16: a blob on SQLite, `halfvec` on PostgreSQL."""

    impl = LargeBinary
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return the type of the engine."""
        return dialect.type_descriptor(HalfVector() if dialect.name == "postgresql" else LargeBinary())

    def process_bind_param(self, value: Vector | None, dialect: Dialect) -> Any:
        """Return the vector as the engine takes it."""
        if value is None:
            return None
        return vector_text(value) if dialect.name == "postgresql" else value.astype("<f2").tobytes()


def vector_text(value: Vector) -> str:
    """Return a vector as pgvector writes it."""
    return "[" + ",".join(f"{number:.5g}" for number in value.tolist()) + "]"


metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

_ID, _NAME, _DIGEST, _LABEL = String(32), String(63), String(64), String(40)
_BIG = BigInteger().with_variant(Integer, "sqlite")
_JSON = JSON().with_variant(JSONB(), "postgresql")
_TYPES: dict[Any, TypeEngine[Any]] = {str: Text(), int: Integer(), float: Double(), bytes: LargeBinary()}


def _col(name: str, kind: Any, **options: Any) -> Column[Any]:
    return Column(name, kind, **{"nullable": False, **options})


def _of(kind: type[Any], *left_out: str) -> list[Column[Any]]:
    """Return a column for each field of a dataclass; what is no plain value is JSON."""
    hints = get_type_hints(kind)
    types = {each.name: hints[each.name] for each in fields(kind) if each.name not in left_out}
    plain = {name: str if isinstance(hint, type) and issubclass(hint, str) else hint for name, hint in types.items()}
    return [_col(name, _TYPES.get(hint, _JSON)) for name, hint in plain.items()]


def _to(target: str, name: str, kind: TypeEngine[Any] = _ID, **options: Any) -> Column[Any]:
    """Return a column that refers to another table's, and goes with its row."""
    return Column(name, kind, ForeignKey(target, ondelete="CASCADE"), **{"nullable": False, **options})


def _table(name: str, *columns: SchemaItem) -> Table:
    return Table(name, metadata, *columns)


def _of_tenant(name: str, *columns: SchemaItem) -> Table:
    """Return a table whose rows go with their tenant."""
    return _table(name, _to("tenants.tenant", "tenant", _NAME, index=True), *columns)


def _where(condition: TextClause) -> dict[str, Any]:
    """Return the condition of a partial index, for both engines."""
    return {"sqlite_where": condition, "postgresql_where": condition}


def _count(*names: str) -> list[Column[Any]]:
    return [_col(name, _BIG, server_default="0") for name in names]


def _media() -> list[Column[Any]]:
    """Return the columns of a row that names an object; a trigger puts its key into `outbox` when the row goes."""
    media = _col("digest", _DIGEST), _col("size_bytes", BigInteger), _col("created_at_s", Double)
    return [_col("key", Text, primary_key=True), *media]


def _of_version(name: str, kind: type[Any]) -> Table:
    keys = _col("identity_id", _ID, primary_key=True), _col("version", Integer, primary_key=True)
    versions = [f"identity_versions.{column.name}" for column in keys]
    whose = ForeignKeyConstraint([column.name for column in keys], versions, ondelete="CASCADE")
    return _of_tenant(name, *keys, _col("position", Integer, primary_key=True), *_of(kind), whose)


def _unique_of_owner(table: Table, *columns: str) -> None:
    """Make columns unique for each owner: an identity, or without one its tenant."""
    owner = table.c.tenant, func.coalesce(table.c.identity_id, text("''"))
    Index(f"uq_{table.name}_owner", *owner, *(table.c[column] for column in columns), unique=True)


tenants = _table(
    "tenants",
    _col("tenant", _NAME, primary_key=True),
    *(_col(each.name, Integer, server_default="0") for each in fields(domain.Retention)),
    # On SQLite, triggers count rows here: a cached matrix is stale when a count differs (`search.py`).
    *_count("examples_added", "examples_removed"),
)
users = _of_tenant(
    "users",
    _col("id", _ID, primary_key=True),
    # "user", or "conversation" for one who is known in the conversation of this name only.
    _col("kind", String(16)),
    _col("name", _NAME),
    _col("created_at_s", Double),
    *_count("embeddings_added", "embeddings_removed"),
    # On PostgreSQL: whether embeddings of this user are in the approximate index.
    _col("is_indexed", Boolean, server_default=false()),
    UniqueConstraint("tenant", "kind", "name"),
)
emotion_banks = _table(
    "emotion_banks",
    _to("tenants.tenant", "tenant", _NAME, primary_key=True),
    _col("name", _NAME, primary_key=True),
    *_of(domain.EmotionBank, "name"),
)
identities = _of_tenant(
    "identities",
    _col("id", _ID, primary_key=True),
    # NULL while an import is under way: nobody finds it before all of it is there.
    _col("name", _NAME, nullable=True),
    _col("version", Integer),
    _col("created_at_s", Double),
    UniqueConstraint("tenant", "name"),
)
identity_versions = _of_tenant(
    "identity_versions",
    _to("identities.id", "identity_id", primary_key=True),
    _col("version", Integer, primary_key=True),
    *_of(domain.Profile),
    _col("emotion_bank", _NAME),
    _col("changed_at_s", Double),
)
permissions = _of_version("permissions", domain.Grant)
version_references = _of_version("version_references", domain.Reference)
reference_files = _of_tenant(
    "reference_files",
    *_media(),
    _to("identities.id", "identity_id"),
    UniqueConstraint("identity_id", "digest"),
)
derived_data = _of_tenant(
    "derived_data",
    *_media(),
    _to("identities.id", "identity_id"),
    _col("kind", String(16)),
    # SHA-256 over the digests of the reference files, in the identity's order.
    _col("source", _DIGEST),
    _col("model_digest", _DIGEST),
    UniqueConstraint("identity_id", "source", "model_digest"),
)
emotion_references = _of_tenant(
    "emotion_references",
    *_media(),
    _to("identities.id", "identity_id", nullable=True, index=True),
    _col("generator", String(16)),
    _col("name", _NAME),
    _col("media_type", Text),
)
_unique_of_owner(emotion_references, "generator", "name")
examples = _of_tenant(
    "examples",
    _col("id", String(40), primary_key=True),
    _to("identities.id", "identity_id", nullable=True, index=True),
    *_of(domain.Example, "id"),
    # SHA-256 of the three above: an owner has each example once.
    _col("fingerprint", _DIGEST),
    _col("model_digest", _DIGEST),
    _col("vector", Embedding()),
)
_unique_of_owner(examples, "fingerprint")
conversations = _of_tenant(
    "conversations",
    _col("id", _BIG, primary_key=True, autoincrement=True),
    _to("identities.id", "identity_id"),
    _to("users.id", "user_id", index=True),
    _col("name", _NAME),
    # Place of the last turn. Its row lock gives concurrent turns an order.
    _col("last_place", Integer, server_default="0"),
    _col("created_at_s", Double),
    # What the last hour raised, oldest first (`repositories/risks.py`), and when the last of it fades.
    _col("risks", _JSON, server_default="[]"),
    _col("risks_until_s", Double, server_default="0"),
    Index("ix_conversations_risks_until_s", "risks_until_s", **_where(text("risks_until_s > 0"))),
    UniqueConstraint("identity_id", "user_id", "name"),
)
turns = _of_tenant(
    "turns",
    _col("pk", _BIG, primary_key=True, autoincrement=True),
    _to("conversations.id", "conversation_id", _BIG),
    _col("place", Integer),
    _col("id", _NAME),
    *_of(domain.Turn, "id", "clips", "conversation", "experiment", "phase", "degraded"),
    # Replicas of the release before insert turns without these, during an upgrade.
    _col("experiment", _LABEL, server_default=text("''")),
    _col("phase", Integer, server_default="0"),
    _col("degraded", _JSON, server_default="[]"),
    # Retention counts from here: an imported turn was said long before.
    _col("kept_at_s", Double),
    _col("are_timings_final", Boolean, server_default=false()),
    UniqueConstraint("conversation_id", "id"),
    UniqueConstraint("conversation_id", "place"),
    Index("ix_turns_tenant_said_at_s", "tenant", "said_at_s"),
    Index("ix_turns_tenant_kept_at_s", "tenant", "kept_at_s"),
)
assignments = _of_tenant(
    "assignments",
    # A user's first turn of an experiment: it outlives the turn's expiry, so that nobody is assigned twice.
    _to("users.id", "user_id", primary_key=True),
    _col("experiment", _LABEL, primary_key=True),
    _col("variants", _JSON),
    _col("phase", Integer),
    Index("ix_assignments_experiment", "experiment", "user_id"),
)
turn_embeddings = _of_tenant(
    "turn_embeddings",
    _to("turns.pk", "turn_pk", _BIG, primary_key=True, autoincrement=False),
    # What searches filter by stands here again: they read no other table before they have their hits.
    _to("users.id", "user_id"),
    _col("identity_id", _ID),
    _col("conversation_id", _BIG),
    _col("user_emotion", Text),
    _col("said_at_s", Double),
    _col("model_digest", _DIGEST),
    # On PostgreSQL the approximate index covers these rows only: those of users with many turns (`search.py`).
    _col("is_indexed", Boolean, server_default=false()),
    # NULL for a text without words: it is not found, and not embedded again.
    _col("vector", Embedding(), nullable=True),
    Index("ix_turn_embeddings_owner", "user_id", "is_indexed", "identity_id"),
)
clips = _of_tenant(
    "clips",
    *_media(),
    _to("turns.pk", "turn_pk", _BIG),
    _col("kind", String(16)),
    UniqueConstraint("turn_pk", "kind"),
)
ratings = _of_tenant(
    "ratings",
    _to("turns.pk", "turn_pk", _BIG, primary_key=True, autoincrement=False),
    _col("rater", _NAME, primary_key=True),
    *_of(domain.Rating, "rater"),
)
scores = _of_tenant(
    "scores",
    _to("turns.pk", "turn_pk", _BIG, primary_key=True, autoincrement=False),
    _col("name", _LABEL, primary_key=True),
    _col("value", Double),
)
removed_identities = _table(
    "removed_identities",
    # Identities that come with the project and were erased on purpose: a start does not add them again.
    _col("tenant", _NAME, primary_key=True),
    _col("name", _NAME, primary_key=True),
)
audits = _table(
    "audits",
    # Outlives its tenant. A restored backup is searched for `erased_ids`, of identities, users and examples.
    _col("id", _ID, primary_key=True),
    _col("tenant", _NAME),
    *_of(domain.Audit, "id"),
    _col("erased_ids", _JSON),
    # Whether object storage has a copy of the finished record (`erasures/…`).
    _col("is_copied", Boolean, server_default=false()),
    Index("ix_audits_tenant_begun_at_s", "tenant", "begun_at_s"),
)
outbox = _table(
    "outbox",
    _col("id", _BIG, primary_key=True, autoincrement=True),
    _col("tenant", _NAME),
    _col("key", Text),
    # The erasure that waits for this deletion.
    _col("audit_id", _ID, nullable=True, index=True),
)
requests = _table(
    "requests",
    # Writes by idempotency key: a retry gets the first outcome.
    _col("tenant", _NAME, primary_key=True),
    _col("key", _NAME, primary_key=True),
    _col("outcome", _JSON),
    _col("done_at_s", Double),
)
tasks = _table(
    "tasks",
    # Maintenance tasks, of which one replica at a time does each.
    _col("name", _NAME, primary_key=True),
    _col("taken_at_s", Double),
)

MEDIA = (reference_files, derived_data, emotion_references, clips)
"""Tables whose rows name objects."""

TENANT_TABLES = tuple(table for table in metadata.sorted_tables if "tenant" in table.c)
"""Tables under row-level security."""
