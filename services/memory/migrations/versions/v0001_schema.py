"""Create the tables of identities, conversations, examples and erasures."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from services.memory.migrations.security import secure
from services.memory.schema import Embedding

revision = "0001"
down_revision = None

_JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
_BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_VECTOR = Embedding()


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "audits",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("asked_by", sa.Text(), nullable=False),
        sa.Column("begun_at_s", sa.Double(), nullable=False),
        sa.Column("done_at_s", sa.Double(), nullable=False),
        sa.Column("counts", _JSON, nullable=False),
        sa.Column("caches_gone_by_s", sa.Double(), nullable=False),
        sa.Column("erased_ids", _JSON, nullable=False),
        sa.Column("is_copied", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audits")),
    )
    op.create_index("ix_audits_tenant_begun_at_s", "audits", ["tenant", "begun_at_s"], unique=False)
    op.create_table(
        "outbox",
        sa.Column("id", _BIG, autoincrement=True, nullable=False),
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("audit_id", sa.String(length=32), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
    )
    op.create_index(op.f("ix_outbox_audit_id"), "outbox", ["audit_id"], unique=False)
    op.create_table(
        "removed_identities",
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "name", name=op.f("pk_removed_identities")),
    )
    op.create_table(
        "requests",
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("key", sa.String(length=63), nullable=False),
        sa.Column("outcome", _JSON, nullable=False),
        sa.Column("done_at_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "key", name=op.f("pk_requests")),
    )
    op.create_table(
        "tasks",
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("taken_at_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_tasks")),
    )
    op.create_table(
        "tenants",
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("turns_days", sa.Integer(), server_default="0", nullable=False),
        sa.Column("clips_days", sa.Integer(), server_default="0", nullable=False),
        sa.Column("derived_days", sa.Integer(), server_default="0", nullable=False),
        sa.Column("audits_days", sa.Integer(), server_default="0", nullable=False),
        sa.Column("examples_added", _BIG, server_default="0", nullable=False),
        sa.Column("examples_removed", _BIG, server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("tenant", name=op.f("pk_tenants")),
    )
    op.create_table(
        "emotion_banks",
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("face_classes", _JSON, nullable=False),
        sa.Column("voice_styles", _JSON, nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant"], ["tenants.tenant"], name=op.f("fk_emotion_banks_tenant"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("tenant", "name", name=op.f("pk_emotion_banks")),
    )
    op.create_table(
        "identities",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("name", sa.String(length=63), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at_s", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.tenant"], name=op.f("fk_identities_tenant"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_identities")),
        sa.UniqueConstraint("tenant", "name", name=op.f("uq_identities_tenant_name")),
    )
    op.create_index(op.f("ix_identities_tenant"), "identities", ["tenant"], unique=False)
    op.create_table(
        "users",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("created_at_s", sa.Double(), nullable=False),
        sa.Column("embeddings_added", _BIG, server_default="0", nullable=False),
        sa.Column("embeddings_removed", _BIG, server_default="0", nullable=False),
        sa.Column("is_indexed", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.tenant"], name=op.f("fk_users_tenant"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        sa.UniqueConstraint("tenant", "kind", "name", name=op.f("uq_users_tenant_kind_name")),
    )
    op.create_index(op.f("ix_users_tenant"), "users", ["tenant"], unique=False)
    op.create_table(
        "conversations",
        sa.Column("id", _BIG, autoincrement=True, nullable=False),
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("identity_id", sa.String(length=32), nullable=False),
        sa.Column("user_id", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("last_place", sa.Integer(), server_default="0", nullable=False),
        sa.Column("created_at_s", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["identity_id"], ["identities.id"], name=op.f("fk_conversations_identity_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["tenant"], ["tenants.tenant"], name=op.f("fk_conversations_tenant"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_conversations_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_conversations")),
        sa.UniqueConstraint("identity_id", "user_id", "name", name=op.f("uq_conversations_identity_id_user_id_name")),
    )
    op.create_index(op.f("ix_conversations_tenant"), "conversations", ["tenant"], unique=False)
    op.create_index(op.f("ix_conversations_user_id"), "conversations", ["user_id"], unique=False)
    op.create_table(
        "derived_data",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_at_s", sa.Double(), nullable=False),
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("identity_id", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("source", sa.String(length=64), nullable=False),
        sa.Column("model_digest", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["identity_id"], ["identities.id"], name=op.f("fk_derived_data_identity_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["tenant"], ["tenants.tenant"], name=op.f("fk_derived_data_tenant"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_derived_data")),
        sa.UniqueConstraint(
            "identity_id", "source", "model_digest", name=op.f("uq_derived_data_identity_id_source_model_digest")
        ),
    )
    op.create_index(op.f("ix_derived_data_tenant"), "derived_data", ["tenant"], unique=False)
    op.create_table(
        "emotion_references",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_at_s", sa.Double(), nullable=False),
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("identity_id", sa.String(length=32), nullable=True),
        sa.Column("generator", sa.String(length=16), nullable=False),
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("media_type", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["identity_id"], ["identities.id"], name=op.f("fk_emotion_references_identity_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["tenant"], ["tenants.tenant"], name=op.f("fk_emotion_references_tenant"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_emotion_references")),
    )
    op.create_index(op.f("ix_emotion_references_identity_id"), "emotion_references", ["identity_id"], unique=False)
    op.create_index(op.f("ix_emotion_references_tenant"), "emotion_references", ["tenant"], unique=False)
    op.create_table(
        "examples",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("identity_id", sa.String(length=32), nullable=True),
        sa.Column("user_text", sa.Text(), nullable=False),
        sa.Column("user_emotion", sa.Text(), nullable=False),
        sa.Column("reply_text", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("model_digest", sa.String(length=64), nullable=False),
        sa.Column("vector", _VECTOR, nullable=False),
        sa.ForeignKeyConstraint(
            ["identity_id"], ["identities.id"], name=op.f("fk_examples_identity_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.tenant"], name=op.f("fk_examples_tenant"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_examples")),
    )
    op.create_index(op.f("ix_examples_identity_id"), "examples", ["identity_id"], unique=False)
    op.create_index(op.f("ix_examples_tenant"), "examples", ["tenant"], unique=False)
    op.create_table(
        "identity_versions",
        sa.Column("identity_id", sa.String(length=32), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("age", sa.Text(), nullable=False),
        sa.Column("gender", sa.Text(), nullable=False),
        sa.Column("timbre", sa.Text(), nullable=False),
        sa.Column("language", sa.Text(), nullable=False),
        sa.Column("about", sa.Text(), nullable=False),
        sa.Column("speaking_style", sa.Text(), nullable=False),
        sa.Column("emotion_bank", sa.String(length=63), nullable=False),
        sa.Column("changed_at_s", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["identity_id"], ["identities.id"], name=op.f("fk_identity_versions_identity_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["tenant"], ["tenants.tenant"], name=op.f("fk_identity_versions_tenant"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("identity_id", "version", name=op.f("pk_identity_versions")),
    )
    op.create_index(op.f("ix_identity_versions_tenant"), "identity_versions", ["tenant"], unique=False)
    op.create_table(
        "reference_files",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_at_s", sa.Double(), nullable=False),
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("identity_id", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(
            ["identity_id"], ["identities.id"], name=op.f("fk_reference_files_identity_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["tenant"], ["tenants.tenant"], name=op.f("fk_reference_files_tenant"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_reference_files")),
        sa.UniqueConstraint("identity_id", "digest", name=op.f("uq_reference_files_identity_id_digest")),
    )
    op.create_index(op.f("ix_reference_files_tenant"), "reference_files", ["tenant"], unique=False)
    op.create_table(
        "permissions",
        sa.Column("identity_id", sa.String(length=32), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("use", sa.Text(), nullable=False),
        sa.Column("granted_by", sa.Text(), nullable=False),
        sa.Column("granted_on", sa.Text(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("until", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["identity_id", "version"],
            ["identity_versions.identity_id", "identity_versions.version"],
            name=op.f("fk_permissions_identity_id_version"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.tenant"], name=op.f("fk_permissions_tenant"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("identity_id", "version", "position", name=op.f("pk_permissions")),
    )
    op.create_index(op.f("ix_permissions_tenant"), "permissions", ["tenant"], unique=False)
    op.create_table(
        "turns",
        sa.Column("pk", _BIG, autoincrement=True, nullable=False),
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("conversation_id", _BIG, nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("id", sa.String(length=63), nullable=False),
        sa.Column("user_text", sa.Text(), nullable=False),
        sa.Column("user_emotion", sa.Text(), nullable=False),
        sa.Column("reply_text", sa.Text(), nullable=False),
        sa.Column("reply_emotion", sa.Text(), nullable=False),
        sa.Column("user_intensity", sa.Double(), nullable=False),
        sa.Column("vote_record", sa.LargeBinary(), nullable=False),
        sa.Column("models", _JSON, nullable=False),
        sa.Column("variants", _JSON, nullable=False),
        sa.Column("votes", _JSON, nullable=False),
        sa.Column("delivery", _JSON, nullable=False),
        sa.Column("timings_s", _JSON, nullable=False),
        sa.Column("said_at_s", sa.Double(), nullable=False),
        sa.Column("kept_at_s", sa.Double(), nullable=False),
        sa.Column("are_timings_final", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.ForeignKeyConstraint(
            ["conversation_id"], ["conversations.id"], name=op.f("fk_turns_conversation_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.tenant"], name=op.f("fk_turns_tenant"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("pk", name=op.f("pk_turns")),
        sa.UniqueConstraint("conversation_id", "id", name=op.f("uq_turns_conversation_id_id")),
        sa.UniqueConstraint("conversation_id", "place", name=op.f("uq_turns_conversation_id_place")),
    )
    op.create_index(op.f("ix_turns_tenant"), "turns", ["tenant"], unique=False)
    op.create_index("ix_turns_tenant_kept_at_s", "turns", ["tenant", "kept_at_s"], unique=False)
    op.create_index("ix_turns_tenant_said_at_s", "turns", ["tenant", "said_at_s"], unique=False)
    op.create_table(
        "version_references",
        sa.Column("identity_id", sa.String(length=32), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("since", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["identity_id", "version"],
            ["identity_versions.identity_id", "identity_versions.version"],
            name=op.f("fk_version_references_identity_id_version"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["tenant"], ["tenants.tenant"], name=op.f("fk_version_references_tenant"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("identity_id", "version", "position", name=op.f("pk_version_references")),
    )
    op.create_index(op.f("ix_version_references_tenant"), "version_references", ["tenant"], unique=False)
    op.create_table(
        "clips",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_at_s", sa.Double(), nullable=False),
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("turn_pk", _BIG, nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.tenant"], name=op.f("fk_clips_tenant"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["turn_pk"], ["turns.pk"], name=op.f("fk_clips_turn_pk"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_clips")),
        sa.UniqueConstraint("turn_pk", "kind", name=op.f("uq_clips_turn_pk_kind")),
    )
    op.create_index(op.f("ix_clips_tenant"), "clips", ["tenant"], unique=False)
    op.create_table(
        "turn_embeddings",
        sa.Column("turn_pk", _BIG, autoincrement=False, nullable=False),
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("user_id", sa.String(length=32), nullable=False),
        sa.Column("identity_id", sa.String(length=32), nullable=False),
        sa.Column("conversation_id", _BIG, nullable=False),
        sa.Column("user_emotion", sa.Text(), nullable=False),
        sa.Column("said_at_s", sa.Double(), nullable=False),
        sa.Column("model_digest", sa.String(length=64), nullable=False),
        sa.Column("is_indexed", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("vector", _VECTOR, nullable=True),
        sa.ForeignKeyConstraint(
            ["tenant"], ["tenants.tenant"], name=op.f("fk_turn_embeddings_tenant"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["turn_pk"], ["turns.pk"], name=op.f("fk_turn_embeddings_turn_pk"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_turn_embeddings_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("turn_pk", name=op.f("pk_turn_embeddings")),
    )
    op.create_index(
        "ix_turn_embeddings_owner", "turn_embeddings", ["user_id", "is_indexed", "identity_id"], unique=False
    )
    op.create_index(op.f("ix_turn_embeddings_tenant"), "turn_embeddings", ["tenant"], unique=False)
    for table in ("examples", "emotion_references"):
        columns = "fingerprint" if table == "examples" else "generator, name"
        name = "owner"
        op.execute(f"CREATE UNIQUE INDEX uq_{table}_{name} ON {table} (tenant, coalesce(identity_id, ''), {columns})")
    _engine_parts()


def _engine_parts() -> None:
    """Add what differs between the engines: outbox triggers, counters or row-level security, the approximate index."""
    if op.get_bind().dialect.name == "sqlite":
        for table in MEDIA:
            op.execute(
                f"CREATE TRIGGER {table}_outbox AFTER DELETE ON {table} BEGIN"
                " INSERT INTO outbox (tenant, key) VALUES (OLD.tenant, OLD.key); END"
            )
        counted = {"turn_embeddings": ("users", "id", "user_id"), "examples": ("tenants", "tenant", "tenant")}
        for table, (owner, column, reference) in counted.items():
            counter = table.removeprefix("turn_")
            for event, row, suffix in (("INSERT", "NEW", "added"), ("DELETE", "OLD", "removed")):
                op.execute(
                    f"CREATE TRIGGER {table}_{suffix} AFTER {event} ON {table} BEGIN UPDATE {owner}"
                    f" SET {counter}_{suffix} = {counter}_{suffix} + 1 WHERE {column} = {row}.{reference}; END"
                )
        return
    op.execute(
        "CREATE FUNCTION e3rg_outbox() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN INSERT INTO outbox (tenant, key) VALUES (OLD.tenant, OLD.key); RETURN OLD; END $$"
    )
    for table in MEDIA:
        op.execute(f"CREATE TRIGGER {table}_outbox AFTER DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION e3rg_outbox()")
    op.execute(
        "CREATE INDEX ix_turn_embeddings_hnsw ON turn_embeddings"
        " USING hnsw (vector halfvec_cosine_ops) WHERE is_indexed"
    )
    for table, columns in PERSONAL.items():  # The planner's samples of a column outlive its rows.
        for column in columns:
            op.execute(f"ALTER TABLE {table} ALTER COLUMN {column} SET STATISTICS 0")
    # pg_trgm would serve text filters better; it is left to the operator, who may not have it.
    secure(*TENANT_TABLES)


PERSONAL = {
    "users": ("name",),
    "identities": ("name",),
    "identity_versions": ("name", "about", "speaking_style"),
    "permissions": ("granted_by", "purpose"),
    "examples": ("user_text", "reply_text", "vector"),
    "conversations": ("name",),
    "turns": ("id", "user_text", "reply_text", "models", "variants", "votes", "delivery", "vote_record"),
    "turn_embeddings": ("vector",),
}

MEDIA = ("reference_files", "derived_data", "emotion_references", "clips")

TENANT_TABLES = (
    "audits",
    "outbox",
    "removed_identities",
    "requests",
    "tenants",
    "emotion_banks",
    "identities",
    "users",
    "conversations",
    "derived_data",
    "emotion_references",
    "examples",
    "identity_versions",
    "reference_files",
    "permissions",
    "turns",
    "version_references",
    "clips",
    "turn_embeddings",
)
