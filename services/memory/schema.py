"""Tables of the memory, the same on SQLite and PostgreSQL. `migrations/` creates them."""

from typing import Any

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
    UniqueConstraint,
    cast,
    false,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator, TypeEngine, UserDefinedType

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
        if value is None or dialect.name != "postgresql":
            return None if value is None else value.astype("<f2").tobytes()
        return vector_text(value)


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

_ID = String(32)
_NAME = String(63)
_DIGEST = String(64)
_BIG = BigInteger().with_variant(Integer, "sqlite")
_JSON = JSON().with_variant(JSONB(), "postgresql")


def _tenant() -> Column[Any]:
    return Column("tenant", _NAME, ForeignKey("tenants.tenant", ondelete="CASCADE"), nullable=False, index=True)


def _identity(nullable: bool = False) -> Column[Any]:
    target = ForeignKey("identities.id", ondelete="CASCADE")
    return Column("identity_id", _ID, target, nullable=nullable, index=True)


def _media() -> list[Column[Any]]:
    """Columns of a row that names an object; a trigger puts its key into `outbox` when the row goes."""
    return [
        Column("key", Text, primary_key=True),
        Column("digest", _DIGEST, nullable=False),
        Column("size_bytes", BigInteger, nullable=False),
        Column("created_at_s", Double, nullable=False),
    ]


tenants = Table(
    "tenants",
    metadata,
    Column("tenant", _NAME, primary_key=True),
    Column("turns_days", Integer, nullable=False, server_default="0"),
    Column("clips_days", Integer, nullable=False, server_default="0"),
    Column("derived_days", Integer, nullable=False, server_default="0"),
    Column("audits_days", Integer, nullable=False, server_default="0"),
    # On SQLite, triggers count rows here: a cached matrix is stale when a count differs (`search.py`).
    Column("examples_added", _BIG, nullable=False, server_default="0"),
    Column("examples_removed", _BIG, nullable=False, server_default="0"),
)

users = Table(
    "users",
    metadata,
    Column("id", _ID, primary_key=True),
    _tenant(),
    # "user", or "conversation" for one who is known in the conversation of this name only.
    Column("kind", String(16), nullable=False),
    Column("name", _NAME, nullable=False),
    Column("created_at_s", Double, nullable=False),
    Column("embeddings_added", _BIG, nullable=False, server_default="0"),
    Column("embeddings_removed", _BIG, nullable=False, server_default="0"),
    # On PostgreSQL: whether embeddings of this user are in the approximate index.
    Column("is_indexed", Boolean, nullable=False, server_default=false()),
    UniqueConstraint("tenant", "kind", "name"),
)

emotion_banks = Table(
    "emotion_banks",
    metadata,
    Column("tenant", _NAME, ForeignKey("tenants.tenant", ondelete="CASCADE"), primary_key=True),
    Column("name", _NAME, primary_key=True),
    Column("face_classes", _JSON, nullable=False),
    Column("voice_styles", _JSON, nullable=False),
)

identities = Table(
    "identities",
    metadata,
    Column("id", _ID, primary_key=True),
    _tenant(),
    # NULL while an import is under way: nobody finds it before all of it is there.
    Column("name", _NAME),
    Column("version", Integer, nullable=False),
    Column("created_at_s", Double, nullable=False),
    UniqueConstraint("tenant", "name"),
)

identity_versions = Table(
    "identity_versions",
    metadata,
    Column("identity_id", _ID, ForeignKey("identities.id", ondelete="CASCADE"), primary_key=True),
    Column("version", Integer, primary_key=True),
    _tenant(),
    Column("name", Text, nullable=False),
    Column("age", Text, nullable=False),
    Column("gender", Text, nullable=False),
    Column("timbre", Text, nullable=False),
    Column("language", Text, nullable=False),
    Column("about", Text, nullable=False),
    Column("speaking_style", Text, nullable=False),
    Column("emotion_bank", _NAME, nullable=False),
    Column("changed_at_s", Double, nullable=False),
)


def _of_version(name: str, *columns: Column[Any]) -> Table:
    return Table(
        name,
        metadata,
        Column("identity_id", _ID, primary_key=True),
        Column("version", Integer, primary_key=True),
        Column("position", Integer, primary_key=True),
        _tenant(),
        *columns,
        ForeignKeyConstraint(
            ["identity_id", "version"],
            ["identity_versions.identity_id", "identity_versions.version"],
            ondelete="CASCADE",
        ),
    )


permissions = _of_version(
    "permissions",
    Column("use", Text, nullable=False),
    Column("granted_by", Text, nullable=False),
    Column("granted_on", Text, nullable=False),
    Column("purpose", Text, nullable=False),
    Column("until", Text, nullable=False),
)

version_references = _of_version(
    "version_references",
    Column("digest", _DIGEST, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("since", Integer, nullable=False),
)

reference_files = Table(
    "reference_files",
    metadata,
    *_media(),
    _tenant(),
    _identity(),
    UniqueConstraint("identity_id", "digest"),
)

derived_data = Table(
    "derived_data",
    metadata,
    *_media(),
    _tenant(),
    _identity(),
    Column("kind", String(16), nullable=False),
    # SHA-256 over the digests of the reference files, in the identity's order.
    Column("source", _DIGEST, nullable=False),
    Column("model_digest", _DIGEST, nullable=False),
    UniqueConstraint("identity_id", "source", "model_digest"),
)

emotion_references = Table(
    "emotion_references",
    metadata,
    *_media(),
    _tenant(),
    _identity(nullable=True),
    Column("generator", String(16), nullable=False),
    Column("name", _NAME, nullable=False),
    Column("media_type", Text, nullable=False),
)
Index(
    "uq_emotion_references_owner",
    emotion_references.c.tenant,
    func.coalesce(emotion_references.c.identity_id, text("''")),
    emotion_references.c.generator,
    emotion_references.c.name,
    unique=True,
)

examples = Table(
    "examples",
    metadata,
    Column("id", String(40), primary_key=True),
    _tenant(),
    _identity(nullable=True),
    Column("user_text", Text, nullable=False),
    Column("user_emotion", Text, nullable=False),
    Column("reply_text", Text, nullable=False),
    # SHA-256 of the three above: an owner has each example once.
    Column("fingerprint", _DIGEST, nullable=False),
    Column("model_digest", _DIGEST, nullable=False),
    Column("vector", Embedding(), nullable=False),
)
Index(
    "uq_examples_fingerprint",
    examples.c.tenant,
    func.coalesce(examples.c.identity_id, text("''")),
    examples.c.fingerprint,
    unique=True,
)

conversations = Table(
    "conversations",
    metadata,
    Column("id", _BIG, primary_key=True, autoincrement=True),
    _tenant(),
    _identity(),
    Column("user_id", _ID, ForeignKey("users.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("name", _NAME, nullable=False),
    # Place of the last turn. Its row lock gives concurrent turns an order.
    Column("last_place", Integer, nullable=False, server_default="0"),
    Column("created_at_s", Double, nullable=False),
    UniqueConstraint("identity_id", "user_id", "name"),
)

turns = Table(
    "turns",
    metadata,
    Column("pk", _BIG, primary_key=True, autoincrement=True),
    _tenant(),
    Column("conversation_id", _BIG, ForeignKey("conversations.id", ondelete="CASCADE"), nullable=False),
    Column("place", Integer, nullable=False),
    Column("id", _NAME, nullable=False),
    Column("said_at_s", Double, nullable=False),
    # Retention counts from here: an imported turn was said long before.
    Column("kept_at_s", Double, nullable=False),
    Column("user_text", Text, nullable=False),
    Column("user_emotion", Text, nullable=False),
    Column("user_intensity", Double, nullable=False),
    Column("reply_text", Text, nullable=False),
    Column("reply_emotion", Text, nullable=False),
    Column("models", _JSON, nullable=False),
    Column("variants", _JSON, nullable=False),
    Column("votes", _JSON, nullable=False),
    Column("delivery", _JSON, nullable=False),
    Column("timings_s", _JSON, nullable=False),
    Column("are_timings_final", Boolean, nullable=False, server_default=false()),
    Column("vote_record", LargeBinary, nullable=False),
    UniqueConstraint("conversation_id", "id"),
    UniqueConstraint("conversation_id", "place"),
    Index("ix_turns_tenant_said_at_s", "tenant", "said_at_s"),
    Index("ix_turns_tenant_kept_at_s", "tenant", "kept_at_s"),
)

turn_embeddings = Table(
    "turn_embeddings",
    metadata,
    Column("turn_pk", _BIG, ForeignKey("turns.pk", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    _tenant(),
    # What searches filter by stands here again: they read no other table before they have their hits.
    Column("user_id", _ID, ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("identity_id", _ID, nullable=False),
    Column("conversation_id", _BIG, nullable=False),
    Column("user_emotion", Text, nullable=False),
    Column("said_at_s", Double, nullable=False),
    Column("model_digest", _DIGEST, nullable=False),
    # On PostgreSQL the approximate index covers these rows only: those of users with many turns (`search.py`).
    Column("is_indexed", Boolean, nullable=False, server_default=false()),
    # NULL for a text without words: it is not found, and not embedded again.
    Column("vector", Embedding()),
    Index("ix_turn_embeddings_owner", "user_id", "is_indexed", "identity_id"),
)

clips = Table(
    "clips",
    metadata,
    *_media(),
    _tenant(),
    Column("turn_pk", _BIG, ForeignKey("turns.pk", ondelete="CASCADE"), nullable=False),
    Column("kind", String(16), nullable=False),
    UniqueConstraint("turn_pk", "kind"),
)

ratings = Table(
    "ratings",
    metadata,
    Column("turn_pk", _BIG, ForeignKey("turns.pk", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("rater", _NAME, primary_key=True),
    _tenant(),
    Column("expressiveness", Integer, nullable=False),
    Column("consistency", Integer, nullable=False),
    Column("naturalness", Integer, nullable=False),
    Column("rated_at_s", Double, nullable=False),
)

removed_identities = Table(
    "removed_identities",
    metadata,
    # Identities that come with the project and were erased on purpose: a start does not add them again.
    Column("tenant", _NAME, primary_key=True),
    Column("name", _NAME, primary_key=True),
)

# These outlive their tenant.
audits = Table(
    "audits",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("tenant", _NAME, nullable=False),
    Column("what", Text, nullable=False),
    # Ids of the erased identities or users; a restored backup is searched for them. Empty for a tenant.
    Column("erased_ids", _JSON, nullable=False),
    Column("asked_by", Text, nullable=False),
    Column("begun_at_s", Double, nullable=False),
    Column("done_at_s", Double, nullable=False),
    Column("counts", _JSON, nullable=False),
    Column("caches_gone_by_s", Double, nullable=False),
    # Whether object storage has a copy of the finished record (`erasures/…`).
    Column("is_copied", Boolean, nullable=False, server_default=false()),
    Index("ix_audits_tenant_begun_at_s", "tenant", "begun_at_s"),
)

outbox = Table(
    "outbox",
    metadata,
    Column("id", _BIG, primary_key=True, autoincrement=True),
    Column("tenant", _NAME, nullable=False),
    Column("key", Text, nullable=False),
    # The erasure that waits for this deletion.
    Column("audit_id", _ID, index=True),
)

requests = Table(
    "requests",
    metadata,
    # Writes by idempotency key: a retry gets the first outcome.
    Column("tenant", _NAME, primary_key=True),
    Column("key", _NAME, primary_key=True),
    Column("outcome", _JSON, nullable=False),
    Column("done_at_s", Double, nullable=False),
)

tasks = Table(
    "tasks",
    metadata,
    # Maintenance tasks, of which one replica at a time does each.
    Column("name", String(63), primary_key=True),
    Column("taken_at_s", Double, nullable=False),
)

MEDIA = (reference_files, derived_data, emotion_references, clips)
"""Tables whose rows name objects."""

TENANT_TABLES = tuple(table for table in metadata.sorted_tables if "tenant" in table.c)
"""Tables under row-level security."""
