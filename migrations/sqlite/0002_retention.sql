-- What retention needs: how long devices have worked, and the trials of bests whose job is deleted.

ALTER TABLE study ADD COLUMN device_busy_ms REAL NOT NULL DEFAULT 0 CHECK (device_busy_ms >= 0);

-- Copied when the job that won is deleted; gone when another config takes the best's place.
CREATE TABLE best_trial (
  program_digest TEXT NOT NULL,
  problem_key TEXT NOT NULL,
  class_id TEXT NOT NULL,
  job_id INTEGER NOT NULL,
  study_id INTEGER NOT NULL,
  study_number INTEGER NOT NULL CHECK (study_number BETWEEN 1 AND 4096),
  ordinal INTEGER NOT NULL CHECK (ordinal >= 0),
  attempt INTEGER NOT NULL CHECK (attempt >= 1),
  outcome INTEGER NOT NULL CHECK (outcome >= 0),
  purpose INTEGER NOT NULL CHECK (purpose >= 0),
  config TEXT NOT NULL CHECK (length(config) <= 65536),
  median_ns REAL CHECK (median_ns > 0),
  device_uuid TEXT NOT NULL CHECK (length(device_uuid) <= 256),
  ended_at_ms INTEGER NOT NULL,
  detail BLOB NOT NULL CHECK (length(detail) <= 4194304),
  log BLOB CHECK (length(log) BETWEEN 1 AND 65536),
  samples BLOB CHECK (length(samples) BETWEEN 1 AND 4194304),
  PRIMARY KEY (program_digest, problem_key, class_id),
  UNIQUE (job_id, study_number, ordinal),
  FOREIGN KEY (program_digest, problem_key, class_id)
    REFERENCES best_config (program_digest, problem_key, class_id) ON DELETE CASCADE
) STRICT;

-- Asked for every deleted job and every pruned trial.
CREATE INDEX best_config_by_trial ON best_config (study_id, ordinal);
CREATE INDEX best_config_by_kernel ON best_config (kernel_id);
-- Oldest ended jobs first.
CREATE INDEX job_ended ON job (ended_at_ms) WHERE ended_at_ms IS NOT NULL;
