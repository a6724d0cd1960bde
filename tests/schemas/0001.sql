INSERT INTO plugins (name, version, plugin_type, storage_uri, content_hash, requirements, created_at)
VALUES ('tone', '1.0', 'bundle', '/plugins/tone', 'aa', '["evalkit>=0.1", "regex"]', '2026-01-31 12:30:00.000000');
INSERT INTO judge_templates (name, version, prompt_template, response_schema, content_hash, created_at)
VALUES ('terse', 'v1', '{# evalkit
form: number #}
Rate {{ fence(''answer'') }} for {{ criterion.name }}.', NULL, 'bb', '2026-01-31 12:30:00.000000');
INSERT INTO benchmarks (name, plugin_id, source, details, created_at)
VALUES ('gsm8k', NULL, 'lighteval 0.13.0', '{"dataset": "openai/gsm8k (main)"}', '2026-01-31 12:30:00.000000');
INSERT INTO benchmarks (name, plugin_id, source, details, created_at)
VALUES ('tone', (SELECT id FROM plugins), 'plugin tone@1.0', '{"scoring_modes": ["judge", "jury"], "fields": null}', '2026-01-31 12:30:00.000000');
INSERT INTO packs (name, version, description, primary_metric, task_aggregation, content_hash, created_at)
VALUES ('support', '1', 'what a support bot must do', NULL, 'mean', 'cc', '2026-01-31 12:30:00.000000');
INSERT INTO pack_tasks (pack_id, position, task_spec, fewshot, weight, overrides)
VALUES ((SELECT id FROM packs), 1, 'tool_use', 3, 0.5, '{}');
INSERT INTO pack_tasks (pack_id, position, task_spec, fewshot, weight, overrides)
VALUES ((SELECT id FROM packs), 0, 'grounded_qa', 0, 2.0, '{"judge_plugin_name": "tone", "judge_profile": "strict"}');
INSERT INTO runs (id, pack_id, model, backend, scoring_mode, scoring_config, options, resolution, status, error, exit_code,
  artifacts, rerun_of, worker, heartbeat_at, cancel_wanted, created_at, started_at, finished_at)
VALUES ('0123456789abcdef', (SELECT id FROM packs), 'model_name=tiny', 'accelerate', 'jury', '{"judges": ["a"]}', '{}', '{}',
  'succeeded', NULL, 0, '{"log": "run.log"}', NULL, NULL, NULL, false, '2026-01-31 12:30:00.000000',
  '2026-01-31 12:30:01.000000', '2026-01-31 12:31:00.000000');
INSERT INTO run_tasks (run_id, position, task, weight, plugin_id, binding, receipt_state, n_samples)
VALUES ('0123456789abcdef', 0, 'grounded_qa', 2.0, (SELECT id FROM plugins), '{"judge_profile": "strict"}', 'consumed', 4);
INSERT INTO run_scores (run_id, task, metric, value, stderr, coverage)
VALUES ('0123456789abcdef', 'grounded_qa', 'faithfulness', 0.5, NULL, 0.75);
INSERT INTO receipts (run_id, task, content, created_at)
VALUES ('0123456789abcdef', 'grounded_qa', '{"task": "grounded_qa"}', '2026-01-31 12:31:00.000000');
