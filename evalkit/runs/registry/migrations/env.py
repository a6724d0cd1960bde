"""Alembic's environment: it uses the connection and transaction of `database`."""

from alembic import context

from evalkit.runs.registry.database_tables import Base

if hasattr(context, "config"):  # only while Alembic runs this file, not when tools import it
    context.configure(
        connection=context.config.attributes["connection"],
        target_metadata=Base.metadata,
        # SQLite cannot alter a column: Alembic then copies the table
        render_as_batch=True,
    )
    context.run_migrations()
