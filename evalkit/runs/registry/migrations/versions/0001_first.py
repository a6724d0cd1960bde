"""The first schema: plugins, templates, benchmarks, packs, runs."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To this schema."""
    op.create_table(
        "judge_templates",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("version", sa.String(length=200), nullable=False),
        sa.Column("prompt_template", sa.Text(), nullable=False),
        sa.Column("response_schema", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("content_hash", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_judge_templates")),
        sa.UniqueConstraint("name", "version", name=op.f("uq_judge_templates_name_version")),
    )
    op.create_table(
        "packs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("version", sa.String(length=200), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("primary_metric", sa.String(length=200), nullable=True),
        sa.Column("task_aggregation", sa.String(length=20), nullable=False),
        sa.Column("content_hash", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_packs")),
        sa.UniqueConstraint("name", "version", name=op.f("uq_packs_name_version")),
    )
    op.create_table(
        "plugins",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("version", sa.String(length=200), nullable=False),
        sa.Column("plugin_type", sa.String(length=20), nullable=False),
        sa.Column("storage_uri", sa.Text(), nullable=False),
        sa.Column("content_hash", sa.String(length=64), nullable=False),
        sa.Column("requirements", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("plugin_type IN ('task', 'metric', 'bundle')", name=op.f("ck_plugins_plugin_type")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_plugins")),
        sa.UniqueConstraint("name", "version", name=op.f("uq_plugins_name_version")),
    )
    op.create_table(
        "benchmarks",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("plugin_id", sa.Integer(), nullable=True),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["plugin_id"], ["plugins.id"], name=op.f("fk_benchmarks_plugin_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_benchmarks")),
        sa.UniqueConstraint("name", "plugin_id", name=op.f("uq_benchmarks_name_plugin_id")),
    )
    op.create_index(
        "uq_benchmarks_own",
        "benchmarks",
        ["name"],
        unique=True,
        sqlite_where=sa.text("plugin_id IS NULL"),
        postgresql_where=sa.text("plugin_id IS NULL"),
    )
    op.create_table(
        "pack_tasks",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("pack_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("task_spec", sa.String(length=200), nullable=False),
        sa.Column("fewshot", sa.Integer(), nullable=False),
        sa.Column("weight", sa.Double(), nullable=False),
        sa.Column("overrides", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["pack_id"], ["packs.id"], name=op.f("fk_pack_tasks_pack_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pack_tasks")),
        sa.UniqueConstraint("pack_id", "position", name=op.f("uq_pack_tasks_pack_id_position")),
        sa.UniqueConstraint("pack_id", "task_spec", name=op.f("uq_pack_tasks_pack_id_task_spec")),
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("pack_id", sa.Integer(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("backend", sa.String(length=40), nullable=False),
        sa.Column("scoring_mode", sa.String(length=20), nullable=False),
        sa.Column("scoring_config", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("options", sa.JSON(), nullable=False),
        sa.Column("resolution", sa.JSON(), nullable=False),
        sa.Column("status", sa.String(length=20), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("artifacts", sa.JSON(), nullable=False),
        sa.Column("rerun_of", sa.String(length=32), nullable=True),
        sa.Column("worker", sa.Text(), nullable=True),
        sa.Column("heartbeat_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("cancel_wanted", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("scoring_mode IN ('deterministic', 'judge', 'jury')", name=op.f("ck_runs_scoring_mode")),
        sa.CheckConstraint(
            "status IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')", name=op.f("ck_runs_status")
        ),
        sa.ForeignKeyConstraint(["pack_id"], ["packs.id"], name=op.f("fk_runs_pack_id")),
        sa.ForeignKeyConstraint(["rerun_of"], ["runs.id"], name=op.f("fk_runs_rerun_of")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runs")),
    )
    op.create_index("ix_runs_status_created_at", "runs", ["status", "created_at"], unique=False)
    op.create_table(
        "receipts",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.String(length=32), nullable=False),
        sa.Column("task", sa.String(length=200), nullable=False),
        sa.Column("content", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_receipts_run_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_receipts")),
        sa.UniqueConstraint("run_id", "task", name=op.f("uq_receipts_run_id_task")),
    )
    op.create_table(
        "run_scores",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.String(length=32), nullable=False),
        sa.Column("task", sa.String(length=200), nullable=False),
        sa.Column("metric", sa.String(length=200), nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("stderr", sa.Double(), nullable=True),
        sa.Column("coverage", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_run_scores_run_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_run_scores")),
        sa.UniqueConstraint("run_id", "task", "metric", name=op.f("uq_run_scores_run_id_task_metric")),
    )
    op.create_table(
        "run_tasks",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.String(length=32), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("task", sa.String(length=200), nullable=False),
        sa.Column("weight", sa.Double(), nullable=False),
        sa.Column("plugin_id", sa.Integer(), nullable=True),
        sa.Column("binding", sa.JSON(), nullable=False),
        sa.Column("receipt_state", sa.String(length=20), nullable=True),
        sa.Column("n_samples", sa.Integer(), nullable=True),
        sa.CheckConstraint(
            "receipt_state IN ('consumed', 'own_config', 'not_consumed', 'deterministic')",
            name=op.f("ck_run_tasks_receipt_state"),
        ),
        sa.ForeignKeyConstraint(["plugin_id"], ["plugins.id"], name=op.f("fk_run_tasks_plugin_id")),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_run_tasks_run_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_run_tasks")),
        sa.UniqueConstraint("run_id", "task", name=op.f("uq_run_tasks_run_id_task")),
    )
