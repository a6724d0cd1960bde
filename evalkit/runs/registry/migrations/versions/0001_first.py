"""The first schema: the tables as `database_tables` describes them.

The first change of a table after a release needs two steps: replace this `upgrade` by the tables as they were released
(``alembic revision --autogenerate`` writes them), and describe the change in a migration of its own.
"""

from alembic import op

from evalkit.runs.registry.database_tables import Base

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create all tables."""
    Base.metadata.create_all(op.get_bind())
