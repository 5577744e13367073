-- How far a study has come. Every step of its driver adds a row and removes the one before; the newest counts, and a study
-- without one stands where its own columns say. Apart from the study, whose row every claim reads: while an old snapshot
-- keeps vacuum from removing anything, a row is as slow to read as it has had versions.
CREATE TABLE study_step (
  study_id bigint NOT NULL,
  step bigint NOT NULL CHECK (step >= 1),
  next_ordinal bigint NOT NULL CHECK (next_ordinal >= 0),
  last_event bigint NOT NULL CHECK (last_event >= 0),
  device_busy_ms double precision NOT NULL CHECK (device_busy_ms >= 0),
  PRIMARY KEY (study_id, step)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);

CREATE VIEW study_now AS
SELECT s.study_id, s.job_id, s.number, s.problem_key, s.problem, s.class_id, s.device_uuid, s.space_summary, s.state,
  coalesce(p.next_ordinal, s.next_ordinal) AS next_ordinal, coalesce(p.last_event, s.last_event) AS last_event,
  coalesce(p.device_busy_ms, s.device_busy_ms) AS device_busy_ms, s.toolkit, coalesce(p.step, 0) AS step
FROM study s
LEFT JOIN LATERAL (
  SELECT n.step, n.next_ordinal, n.last_event, n.device_busy_ms FROM study_step n WHERE n.study_id = s.study_id
  ORDER BY n.step DESC LIMIT 1) p ON true;
