"""Drop what a still later release needs no more."""

from alembic import op

revision = "9002"
down_revision = "9001"


def upgrade() -> None:
    op.drop_column("turns", "weather")
