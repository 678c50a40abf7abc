"""Add what a later release needs: a nullable column and a table."""

import sqlalchemy as sa
from alembic import op

from services.memory.migrations.security import secure

revision = "9001"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("turns", sa.Column("weather", sa.Text(), nullable=True))
    op.create_table(
        "moods",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.tenant"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("name"),
    )
    if op.get_bind().dialect.name == "postgresql":
        secure("moods")
