"""Add ratings of turns."""

import sqlalchemy as sa
from alembic import op

from services.memory.migrations.security import secure

revision = "0002"
down_revision = "0001"

_BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "ratings",
        sa.Column("turn_pk", _BIG, autoincrement=False, nullable=False),
        sa.Column("rater", sa.String(length=63), nullable=False),
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("expressiveness", sa.Integer(), nullable=False),
        sa.Column("consistency", sa.Integer(), nullable=False),
        sa.Column("naturalness", sa.Integer(), nullable=False),
        sa.Column("rated_at_s", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.tenant"], name=op.f("fk_ratings_tenant"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["turn_pk"], ["turns.pk"], name=op.f("fk_ratings_turn_pk"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("turn_pk", "rater", name=op.f("pk_ratings")),
    )
    op.create_index(op.f("ix_ratings_tenant"), "ratings", ["tenant"], unique=False)
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE ratings ALTER COLUMN rater SET STATISTICS 0")  # As in 0001.
        secure("ratings")
