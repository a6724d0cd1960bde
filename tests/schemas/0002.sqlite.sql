CREATE TABLE judge_templates (
	prompt_template TEXT NOT NULL,
	response_schema JSON,
	id INTEGER NOT NULL,
	name VARCHAR(200) NOT NULL,
	version VARCHAR(200) NOT NULL,
	content_hash VARCHAR(64) NOT NULL,
	created_at DATETIME NOT NULL,
	CONSTRAINT pk_judge_templates PRIMARY KEY (id),
	CONSTRAINT uq_judge_templates_name_version UNIQUE (name, version)
);
CREATE TABLE packs (
	description TEXT NOT NULL,
	primary_metric VARCHAR(200),
	task_aggregation VARCHAR(20) NOT NULL,
	id INTEGER NOT NULL,
	name VARCHAR(200) NOT NULL,
	version VARCHAR(200) NOT NULL,
	content_hash VARCHAR(64) NOT NULL,
	created_at DATETIME NOT NULL,
	CONSTRAINT pk_packs PRIMARY KEY (id),
	CONSTRAINT uq_packs_name_version UNIQUE (name, version)
);
CREATE TABLE plugins (
	plugin_type VARCHAR(20) NOT NULL,
	storage_uri TEXT NOT NULL,
	requirements JSON NOT NULL,
	id INTEGER NOT NULL,
	name VARCHAR(200) NOT NULL,
	version VARCHAR(200) NOT NULL,
	content_hash VARCHAR(64) NOT NULL,
	created_at DATETIME NOT NULL,
	CONSTRAINT pk_plugins PRIMARY KEY (id),
	CONSTRAINT uq_plugins_name_version UNIQUE (name, version),
	CONSTRAINT ck_plugins_plugin_type CHECK (plugin_type IN ('task', 'metric', 'bundle'))
);
CREATE TABLE pack_tasks (
	id INTEGER NOT NULL,
	pack_id INTEGER NOT NULL,
	position INTEGER NOT NULL,
	task_spec VARCHAR(200) NOT NULL,
	fewshot INTEGER NOT NULL,
	weight DOUBLE NOT NULL,
	overrides JSON NOT NULL,
	CONSTRAINT pk_pack_tasks PRIMARY KEY (id),
	CONSTRAINT uq_pack_tasks_pack_id_position UNIQUE (pack_id, position),
	CONSTRAINT uq_pack_tasks_pack_id_task_spec UNIQUE (pack_id, task_spec),
	CONSTRAINT fk_pack_tasks_pack_id FOREIGN KEY(pack_id) REFERENCES packs (id)
);
CREATE TABLE runs (
	id VARCHAR(32) NOT NULL,
	pack_id INTEGER NOT NULL,
	model TEXT NOT NULL,
	backend VARCHAR(40) NOT NULL,
	scoring_mode VARCHAR(20) NOT NULL,
	scoring_config JSON,
	options JSON NOT NULL,
	resolution JSON NOT NULL,
	status VARCHAR(20) NOT NULL,
	error TEXT,
	exit_code INTEGER,
	artifacts JSON NOT NULL,
	rerun_of VARCHAR(32),
	worker TEXT,
	created_at DATETIME NOT NULL,
	started_at DATETIME,
	finished_at DATETIME,
	CONSTRAINT pk_runs PRIMARY KEY (id),
	CONSTRAINT ck_runs_scoring_mode CHECK (scoring_mode IN ('deterministic', 'judge', 'jury')),
	CONSTRAINT ck_runs_status CHECK (status IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')),
	CONSTRAINT fk_runs_pack_id FOREIGN KEY(pack_id) REFERENCES packs (id),
	CONSTRAINT fk_runs_rerun_of FOREIGN KEY(rerun_of) REFERENCES runs (id)
);
CREATE INDEX ix_runs_status_created_at ON runs (status, created_at);
CREATE TABLE receipts (
	content JSON NOT NULL,
	created_at DATETIME NOT NULL,
	id INTEGER NOT NULL,
	run_id VARCHAR(32) NOT NULL,
	task VARCHAR(200) NOT NULL,
	CONSTRAINT pk_receipts PRIMARY KEY (id),
	CONSTRAINT uq_receipts_run_id_task UNIQUE (run_id, task),
	CONSTRAINT fk_receipts_run_id FOREIGN KEY(run_id) REFERENCES runs (id)
);
CREATE TABLE run_scores (
	metric VARCHAR(200) NOT NULL,
	value DOUBLE,
	stderr DOUBLE,
	coverage DOUBLE,
	id INTEGER NOT NULL,
	run_id VARCHAR(32) NOT NULL,
	task VARCHAR(200) NOT NULL,
	CONSTRAINT pk_run_scores PRIMARY KEY (id),
	CONSTRAINT uq_run_scores_run_id_task_metric UNIQUE (run_id, task, metric),
	CONSTRAINT fk_run_scores_run_id FOREIGN KEY(run_id) REFERENCES runs (id)
);
CREATE TABLE run_tasks (
	position INTEGER NOT NULL,
	weight DOUBLE NOT NULL,
	plugin_id INTEGER,
	binding JSON NOT NULL,
	receipt_state VARCHAR(20),
	n_samples INTEGER,
	id INTEGER NOT NULL,
	run_id VARCHAR(32) NOT NULL,
	task VARCHAR(200) NOT NULL,
	CONSTRAINT pk_run_tasks PRIMARY KEY (id),
	CONSTRAINT uq_run_tasks_run_id_task UNIQUE (run_id, task),
	CONSTRAINT ck_run_tasks_receipt_state CHECK (receipt_state IN ('consumed', 'own_config', 'not_consumed', 'deterministic')),
	CONSTRAINT fk_run_tasks_plugin_id FOREIGN KEY(plugin_id) REFERENCES plugins (id),
	CONSTRAINT fk_run_tasks_run_id FOREIGN KEY(run_id) REFERENCES runs (id)
);
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL,
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO alembic_version (version_num) VALUES ('0002');
