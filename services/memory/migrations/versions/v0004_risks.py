"""Add the risks that conversations raised within the last hour."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"

_JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    """Add the columns and their index."""
    op.add_column("conversations", sa.Column("risks", _JSON, server_default="[]", nullable=False))
    op.add_column("conversations", sa.Column("risks_until_s", sa.Double(), server_default="0", nullable=False))
    raised = sa.text("risks_until_s > 0")
    op.create_index(
        "ix_conversations_risks_until_s",
        "conversations",
        ["risks_until_s"],
        sqlite_where=raised,
        postgresql_where=raised,
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE conversations ALTER COLUMN risks SET STATISTICS 0")  # As in 0001.
