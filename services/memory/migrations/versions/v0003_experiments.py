"""Add experiments: their turns, their assignments of users, and automatic scores."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from services.memory.migrations.security import secure

revision = "0003"
down_revision = "0002"

_BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    """Add the columns, and create the tables."""
    op.add_column("turns", sa.Column("experiment", sa.String(length=40), server_default=sa.text("''"), nullable=False))
    op.add_column("turns", sa.Column("phase", sa.Integer(), server_default="0", nullable=False))
    op.add_column("turns", sa.Column("degraded", _JSON, server_default="[]", nullable=False))
    op.create_table(
        "assignments",
        sa.Column("user_id", sa.String(length=32), nullable=False),
        sa.Column("experiment", sa.String(length=40), nullable=False),
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("variants", _JSON, nullable=False),
        sa.Column("phase", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.tenant"], name=op.f("fk_assignments_tenant"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_assignments_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("user_id", "experiment", name=op.f("pk_assignments")),
    )
    op.create_index("ix_assignments_experiment", "assignments", ["experiment", "user_id"], unique=False)
    op.create_table(
        "scores",
        sa.Column("turn_pk", _BIG, autoincrement=False, nullable=False),
        sa.Column("name", sa.String(length=40), nullable=False),
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.tenant"], name=op.f("fk_scores_tenant"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["turn_pk"], ["turns.pk"], name=op.f("fk_scores_turn_pk"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("turn_pk", "name", name=op.f("pk_scores")),
    )
    for table in ("assignments", "scores"):
        op.create_index(op.f(f"ix_{table}_tenant"), table, ["tenant"], unique=False)
    if op.get_bind().dialect.name == "postgresql":
        for table, column in (("turns", "degraded"), ("assignments", "variants"), ("scores", "name")):  # As in 0001.
            op.execute(f"ALTER TABLE {table} ALTER COLUMN {column} SET STATISTICS 0")
        secure("assignments", "scores")
