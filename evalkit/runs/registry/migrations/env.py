"""How Alembic reaches the registry: by the connection that `databases` hands over, inside its transaction."""

from alembic import context

from evalkit.runs.registry.database_tables import Base

if hasattr(context, "config"):  # it is there while Alembic runs this file, and not where tools import it
    context.configure(
        connection=context.config.attributes["connection"],
        target_metadata=Base.metadata,
        # SQLite cannot alter a column: Alembic then copies the table
        render_as_batch=True,
    )
    context.run_migrations()
