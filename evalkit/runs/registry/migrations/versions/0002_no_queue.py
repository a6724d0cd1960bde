"""No list of tasks, and no queue of runs: what only they needed goes. The rows of runs stay."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Drop a table and two columns of an earlier checkout; a new database never had them."""
    if not sa.inspect(op.get_bind()).has_table("benchmarks"):
        return
    op.drop_table("benchmarks")
    op.drop_column("runs", "heartbeat_at")
    op.drop_column("runs", "cancel_wanted")
