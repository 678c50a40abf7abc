"""Runs migrations over the connection that `services.memory.migrate` opened."""

from alembic import context

from services.memory.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
