CREATE TABLE access_token (
  name TEXT NOT NULL PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 64),
  digest TEXT NOT NULL UNIQUE CHECK (length(digest) = 64),  -- hex
  roles TEXT NOT NULL CHECK (length(roles) BETWEEN 1 AND 256),  -- "submit,kernels"
  created_at_ms INTEGER NOT NULL,
  expires_at_ms INTEGER NOT NULL,
  last_used_at_ms INTEGER,  -- coarse
  revoked_at_ms INTEGER,
  CONSTRAINT access_token_expires_later CHECK (expires_at_ms > created_at_ms)
) STRICT;
CREATE TABLE agent (
  agent_id TEXT PRIMARY KEY CHECK (length(agent_id) BETWEEN 1 AND 256),
  host TEXT NOT NULL CHECK (length(host) <= 256),
  epoch INTEGER NOT NULL CHECK (epoch >= 1),  -- one per process; reports of an earlier one are stale
  registered_at_ms INTEGER NOT NULL,
  released_at_ms INTEGER,  -- set: this epoch has ended
  detail BLOB NOT NULL DEFAULT x'' CHECK (length(detail) <= 1048576),
  draining INTEGER NOT NULL DEFAULT 0 CHECK (draining IN (0, 1)),
  lease_until_ms INTEGER  -- NULL: it lives until it is released
) STRICT, WITHOUT ROWID;
CREATE TABLE agreed_answer (
  run_id TEXT NOT NULL REFERENCES agreed_run (run_id) ON DELETE CASCADE,
  question_sha BLOB NOT NULL CHECK (length(question_sha) = 32),
  answer BLOB NOT NULL CHECK (length(answer) <= 1048576),
  agreed_at_ms INTEGER NOT NULL,
  PRIMARY KEY (run_id, question_sha)
) STRICT;
CREATE TABLE agreed_run (
  run_id TEXT NOT NULL PRIMARY KEY CHECK (length(run_id) BETWEEN 1 AND 128),
  owner TEXT NOT NULL CHECK (length(owner) <= 256),  -- in whose quota it counts
  catalog_revision INTEGER NOT NULL CHECK (catalog_revision >= 0),
  begun_at_ms INTEGER NOT NULL,
  last_used_at_ms INTEGER NOT NULL,  -- coarse
  answers INTEGER NOT NULL DEFAULT 0 CHECK (answers >= 0),
  answer_bytes INTEGER NOT NULL DEFAULT 0 CHECK (answer_bytes >= 0)
) STRICT;
CREATE TABLE best_change (
  revision INTEGER PRIMARY KEY CHECK (revision >= 1),
  key_sha BLOB NOT NULL CHECK (length(key_sha) = 32),
  kind INTEGER NOT NULL CHECK (kind BETWEEN 1 AND 5),
  reason TEXT NOT NULL CHECK (length(CAST(reason AS BLOB)) <= 4096),
  changed_at_ms INTEGER NOT NULL,
  program_digest TEXT NOT NULL CHECK (length(program_digest) <= 128),
  problem_key TEXT NOT NULL CHECK (length(problem_key) <= 4096),
  class_id TEXT NOT NULL CHECK (length(class_id) <= 256),
  kernel_name TEXT NOT NULL CHECK (length(kernel_name) <= 256),
  kernel_id TEXT NOT NULL CHECK (length(kernel_id) <= 128),
  config TEXT NOT NULL CHECK (length(config) <= 65536),
  detail BLOB NOT NULL CHECK (length(detail) <= 4194304),
  median_ns REAL NOT NULL CHECK (median_ns >= 0),
  job_id INTEGER NOT NULL,
  study_id INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  best_revision INTEGER NOT NULL CHECK (best_revision BETWEEN 1 AND revision),  -- the best's
  promoted_at_ms INTEGER NOT NULL,
  pinned INTEGER NOT NULL CHECK (pinned IN (0, 1)),
  note TEXT NOT NULL CHECK (length(CAST(note AS BLOB)) <= 4096)
) STRICT;
CREATE TABLE best_config (
  key_sha BLOB NOT NULL PRIMARY KEY CHECK (length(key_sha) = 32),
  program_digest TEXT NOT NULL CHECK (length(program_digest) <= 128),
  problem_key TEXT NOT NULL CHECK (length(problem_key) <= 4096),
  class_id TEXT NOT NULL CHECK (length(class_id) <= 256),
  kernel_name TEXT NOT NULL CHECK (length(kernel_name) <= 256),
  kernel_id TEXT NOT NULL CHECK (length(kernel_id) <= 128),
  config TEXT NOT NULL CHECK (length(config) <= 65536),
  detail BLOB NOT NULL CHECK (length(detail) <= 4194304),
  median_ns REAL NOT NULL CHECK (median_ns >= 0),
  job_id INTEGER NOT NULL,
  study_id INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  revision INTEGER NOT NULL UNIQUE CHECK (revision >= 1),
  promoted_at_ms INTEGER NOT NULL,
  pinned INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1)),
  note TEXT NOT NULL DEFAULT '' CHECK (length(CAST(note AS BLOB)) <= 4096)
) STRICT;
CREATE TABLE best_removal (
  key_sha BLOB NOT NULL CHECK (length(key_sha) = 32),
  program_digest TEXT NOT NULL CHECK (length(program_digest) <= 128),
  problem_key TEXT NOT NULL CHECK (length(problem_key) <= 4096),
  class_id TEXT NOT NULL CHECK (length(class_id) <= 256),
  kernel_name TEXT NOT NULL CHECK (length(kernel_name) <= 256),
  revision INTEGER NOT NULL CHECK (revision >= 1),
  PRIMARY KEY (key_sha, kernel_name)
) STRICT, WITHOUT ROWID;
CREATE TABLE best_trial (
  key_sha BLOB NOT NULL PRIMARY KEY REFERENCES best_config (key_sha) ON DELETE CASCADE,
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
  samples BLOB CHECK (length(samples) BETWEEN 1 AND 4194304)
) STRICT;
CREATE TABLE catalog_rev (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  revision INTEGER NOT NULL CHECK (revision >= 0)
) STRICT;
CREATE TABLE claim_turn (
  class_id TEXT NOT NULL CHECK (length(class_id) <= 256),
  priority INTEGER NOT NULL,
  first_study_id INTEGER NOT NULL,
  last_study_id INTEGER NOT NULL,
  trials INTEGER NOT NULL CHECK (trials >= 0),  -- handed out in this turn
  PRIMARY KEY (class_id, priority),
  CONSTRAINT claim_turn_is_a_range CHECK (first_study_id <= last_study_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE config_poison (
  key_sha BLOB PRIMARY KEY CHECK (length(key_sha) = 32),  -- program, class, config, problem, toolkit
  program_digest TEXT NOT NULL CHECK (length(program_digest) <= 128),
  class_id TEXT NOT NULL CHECK (length(class_id) <= 256),
  config TEXT NOT NULL CHECK (length(config) <= 65536),
  problem_key TEXT NOT NULL CHECK (length(problem_key) <= 4096),
  toolkit TEXT NOT NULL CHECK (length(toolkit) <= 256),
  outcome INTEGER NOT NULL,  -- of the latest crash
  crashes INTEGER NOT NULL CHECK (crashes >= 1)
) STRICT, WITHOUT ROWID;
CREATE TABLE device (
  uuid TEXT PRIMARY KEY CHECK (length(uuid) BETWEEN 1 AND 256),
  class_id TEXT NOT NULL REFERENCES device_class (class_id),
  properties BLOB NOT NULL CHECK (length(properties) <= 1048576),
  seen_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE device_class (
  class_id TEXT PRIMARY KEY CHECK (length(class_id) BETWEEN 1 AND 256),
  display_name TEXT NOT NULL CHECK (length(display_name) <= 256),
  properties BLOB NOT NULL CHECK (length(properties) <= 1048576)
) STRICT, WITHOUT ROWID;
CREATE TABLE device_order (
  device_uuid TEXT NOT NULL PRIMARY KEY CHECK (length(device_uuid) BETWEEN 1 AND 256),
  held_out TEXT NOT NULL CHECK (length(held_out) <= 1024),  -- why; empty: released
  accepted_sentinels_ms INTEGER NOT NULL DEFAULT 0,  -- when they were measured; 0: none are accepted
  set_at_ms INTEGER NOT NULL,
  revision INTEGER NOT NULL CHECK (revision >= 1),  -- grows with each order for the device
  CONSTRAINT device_order_accepts_what_is_released CHECK (held_out = '' OR accepted_sentinels_ms = 0)
) STRICT;
CREATE TABLE job (
  job_id INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used twice: best_config and request_dedup outlive jobs
  uid TEXT NOT NULL UNIQUE CHECK (length(uid) BETWEEN 1 AND 128),
  kernel_id TEXT NOT NULL REFERENCES kernel (kernel_id),
  state INTEGER NOT NULL CHECK (state BETWEEN 1 AND 7),
  priority INTEGER NOT NULL,
  state_reason TEXT NOT NULL DEFAULT '' CHECK (length(state_reason) <= 65536),
  created_at_ms INTEGER NOT NULL,
  started_at_ms INTEGER,
  ended_at_ms INTEGER,
  driver TEXT NOT NULL DEFAULT '' CHECK (length(driver) <= 256),  -- the node that drives it; empty: none
  driver_epoch INTEGER NOT NULL DEFAULT 0 CHECK (driver_epoch >= 0), label TEXT NOT NULL DEFAULT '' CHECK (length(label) <= 256), submitted_by TEXT NOT NULL DEFAULT '' CHECK (length(submitted_by) <= 256),  -- steps of an earlier one are refused
  CONSTRAINT job_ended_iff_terminal CHECK ((ended_at_ms IS NOT NULL) = (state IN (5, 6, 7))),
  CONSTRAINT job_running_has_started CHECK (state <> 2 OR started_at_ms IS NOT NULL)
) STRICT;
CREATE TABLE job_spec (
  job_id INTEGER PRIMARY KEY REFERENCES job (job_id) ON DELETE CASCADE,
  spec BLOB NOT NULL CHECK (length(spec) <= 67108864)
) STRICT;
CREATE TABLE kernel (
  kernel_seq INTEGER PRIMARY KEY AUTOINCREMENT,  -- order of arrival: the newest of a name has the highest
  kernel_id TEXT NOT NULL UNIQUE CHECK (length(kernel_id) BETWEEN 1 AND 128),
  program_digest TEXT NOT NULL CHECK (length(program_digest) <= 128),
  display_name TEXT NOT NULL CHECK (length(display_name) <= 256),
  definition BLOB NOT NULL CHECK (length(definition) <= 67108864),
  created_at_ms INTEGER NOT NULL
, owner TEXT NOT NULL DEFAULT '' CHECK (length(owner) <= 256), deleted_at_ms INTEGER) STRICT;
CREATE TABLE lease (
  name TEXT PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 256),
  holder TEXT NOT NULL CHECK (length(holder) <= 256),
  detail BLOB NOT NULL CHECK (length(detail) <= 65536),
  epoch INTEGER NOT NULL CHECK (epoch >= 1),  -- grows with every change of the holder, so the row stays
  until_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE miss (
  key_sha BLOB PRIMARY KEY CHECK (length(key_sha) = 32),  -- kernel name, problem, class
  kernel_name TEXT NOT NULL CHECK (length(kernel_name) <= 256),
  problem_key TEXT NOT NULL CHECK (length(problem_key) <= 4096),
  class_id TEXT NOT NULL CHECK (length(class_id) <= 256),
  class_name TEXT NOT NULL CHECK (length(class_name) <= 256),
  program_digest TEXT NOT NULL CHECK (length(program_digest) <= 128),  -- that was asked last
  problem BLOB NOT NULL CHECK (length(problem) <= 65536),
  asked INTEGER NOT NULL CHECK (asked >= 1),  -- how often
  last_match INTEGER NOT NULL CHECK (last_match >= 0),
  last_distance REAL NOT NULL CHECK (last_distance >= 0),
  first_asked_at_ms INTEGER NOT NULL,
  last_asked_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE request_dedup (
  request_id TEXT PRIMARY KEY CHECK (length(request_id) BETWEEN 1 AND 256),
  body_digest TEXT NOT NULL CHECK (length(body_digest) <= 128),
  job_id INTEGER NOT NULL,
  created_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE schema_migration (
  number INTEGER PRIMARY KEY CHECK (number >= 1),
  name TEXT NOT NULL,
  sha256 TEXT NOT NULL CHECK (length(sha256) = 64),  -- of the migration's text as it was applied
  applied_at_ms INTEGER NOT NULL
) STRICT;
CREATE TABLE sequence (
  name TEXT PRIMARY KEY,
  value INTEGER NOT NULL CHECK (value >= 0)
) STRICT, WITHOUT ROWID;
CREATE TABLE setting (
  name TEXT PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 128),
  value TEXT NOT NULL CHECK (length(value) <= 65536)
) STRICT, WITHOUT ROWID;
CREATE TABLE study (
  study_id INTEGER PRIMARY KEY AUTOINCREMENT,
  job_id INTEGER NOT NULL REFERENCES job (job_id) ON DELETE CASCADE,
  number INTEGER NOT NULL CHECK (number BETWEEN 1 AND 4096),
  problem_key TEXT NOT NULL CHECK (length(problem_key) <= 4096),
  problem BLOB NOT NULL CHECK (length(problem) <= 16777216),
  class_id TEXT NOT NULL CHECK (length(class_id) <= 256),
  -- Empty: any device of the class; otherwise a UUID or another name that the device answers to.
  device_selector TEXT NOT NULL CHECK (length(device_selector) <= 256),
  detail BLOB NOT NULL CHECK (length(detail) <= 16777216),
  state INTEGER NOT NULL CHECK (state BETWEEN 1 AND 3),
  next_ordinal INTEGER NOT NULL CHECK (next_ordinal >= 0),
  device_busy_ms REAL NOT NULL DEFAULT 0 CHECK (device_busy_ms >= 0),
  toolkit TEXT NOT NULL DEFAULT '' CHECK (length(toolkit) <= 256),  -- the device's at submission; empty: not known
  UNIQUE (job_id, number)
) STRICT;
CREATE TABLE study_event (
  study_id INTEGER NOT NULL REFERENCES study (study_id) ON DELETE CASCADE,
  sequence INTEGER NOT NULL CHECK (sequence >= 1),
  kind INTEGER NOT NULL CHECK (kind IN (1, 2)),
  unit_id INTEGER NOT NULL,
  at_ms INTEGER NOT NULL,
  PRIMARY KEY (study_id, sequence)
) STRICT, WITHOUT ROWID;
CREATE TABLE study_prior (
  study_id INTEGER NOT NULL REFERENCES study (study_id) ON DELETE CASCADE,
  position INTEGER NOT NULL CHECK (position BETWEEN 0 AND 15),
  source_rank INTEGER NOT NULL CHECK (source_rank >= 0),
  payload BLOB NOT NULL CHECK (length(payload) <= 4194304),
  PRIMARY KEY (study_id, position)
) STRICT;
CREATE TABLE study_work (
  study_id INTEGER NOT NULL REFERENCES study (study_id) ON DELETE CASCADE,
  ordinal INTEGER NOT NULL CHECK (ordinal >= 0),
  work INTEGER NOT NULL CHECK (work <> 0),  -- with what it depends on, such as the driver
  -- The claimed unit that holds the claim of the work. NULL: the trial is stored, and others take its result over.
  unit_id INTEGER,
  token INTEGER,
  PRIMARY KEY (study_id, ordinal),
  CONSTRAINT study_work_unit_with_token CHECK ((unit_id IS NULL) = (token IS NULL))
) STRICT, WITHOUT ROWID;
CREATE TABLE trial_log (
  study_id INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  log BLOB NOT NULL CHECK (length(log) BETWEEN 1 AND 65536),
  PRIMARY KEY (study_id, ordinal),
  FOREIGN KEY (study_id, ordinal) REFERENCES trial_result (study_id, ordinal) ON DELETE CASCADE
) STRICT;
CREATE TABLE trial_result (
  study_id INTEGER NOT NULL REFERENCES study (study_id) ON DELETE CASCADE,
  ordinal INTEGER NOT NULL CHECK (ordinal >= 0),
  attempt INTEGER NOT NULL CHECK (attempt >= 1),
  outcome INTEGER NOT NULL CHECK (outcome >= 0),
  purpose INTEGER NOT NULL CHECK (purpose >= 0),
  config TEXT NOT NULL CHECK (length(config) <= 65536),
  median_ns REAL CHECK (median_ns > 0),  -- NULL: no time
  device_uuid TEXT NOT NULL CHECK (length(device_uuid) <= 256),
  ended_at_ms INTEGER NOT NULL,
  detail BLOB NOT NULL CHECK (length(detail) <= 4194304),
  -- Names what was measured: program, problem, class, toolkit, policy and config. NULL: the result is its trial's own.
  measured_key BLOB CHECK (length(measured_key) = 16),
  PRIMARY KEY (study_id, ordinal)
) STRICT;
CREATE TABLE trial_samples (
  study_id INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  samples BLOB NOT NULL CHECK (length(samples) BETWEEN 1 AND 4194304),
  PRIMARY KEY (study_id, ordinal),
  FOREIGN KEY (study_id, ordinal) REFERENCES trial_result (study_id, ordinal) ON DELETE CASCADE
) STRICT;
CREATE TABLE work_unit (
  unit_id INTEGER PRIMARY KEY AUTOINCREMENT,
  study_id INTEGER NOT NULL REFERENCES study (study_id) ON DELETE CASCADE,
  class_id TEXT NOT NULL,
  device_selector TEXT NOT NULL,
  priority INTEGER NOT NULL,
  claim_seq INTEGER NOT NULL CHECK (claim_seq >= 1),
  kind INTEGER NOT NULL CHECK (kind BETWEEN 1 AND 3),
  state INTEGER NOT NULL CHECK (state BETWEEN 1 AND 4),
  first_ordinal INTEGER NOT NULL CHECK (first_ordinal >= 0),
  trial_count INTEGER NOT NULL CHECK (trial_count BETWEEN 1 AND 64),
  rounds INTEGER NOT NULL CHECK (rounds BETWEEN 0 AND 1000000),
  payload BLOB NOT NULL CHECK (length(payload) <= 16777216),
  token INTEGER NOT NULL DEFAULT 0 CHECK (token >= 0),
  attempt INTEGER NOT NULL DEFAULT 0 CHECK (attempt >= 0),
  agent_id TEXT,  -- who holds it; set exactly while CLAIMED
  agent_epoch INTEGER,
  claimed_at_ms INTEGER,
  done_at_ms INTEGER,
  losses INTEGER NOT NULL DEFAULT 0 CHECK (losses >= 0),  -- agents that were lost with it
  suspects_end INTEGER NOT NULL DEFAULT 0 CHECK (suspects_end >= 0),  -- the suspects' ordinals are lower
  handed_end INTEGER NOT NULL DEFAULT 0 CHECK (handed_end >= 0),  -- of what was handed out last; 0: the whole unit
  UNIQUE (study_id, first_ordinal),
  CONSTRAINT work_unit_owner_iff_claimed CHECK ((agent_id IS NOT NULL) = (state = 2)),
  CONSTRAINT work_unit_epoch_iff_claimed CHECK ((agent_epoch IS NOT NULL) = (state = 2)),
  CONSTRAINT work_unit_claimed_has_token CHECK (state <> 2 OR (token >= 1 AND attempt >= 1)),
  CONSTRAINT work_unit_done_at_iff_done CHECK ((done_at_ms IS NOT NULL) = (state IN (3, 4)))
) STRICT;
CREATE INDEX agent_live ON agent (agent_id) WHERE released_at_ms IS NULL;
CREATE INDEX agreed_run_by_owner ON agreed_run (owner);
CREATE INDEX agreed_run_by_use ON agreed_run (last_used_at_ms);
CREATE INDEX best_change_by_kernel ON best_change (kernel_name);
CREATE INDEX best_change_by_key ON best_change (key_sha);
CREATE INDEX best_config_by_kernel ON best_config (kernel_id);
CREATE INDEX best_config_by_trial ON best_config (study_id, ordinal);
CREATE INDEX best_trial_by_trial ON best_trial (job_id, study_number, ordinal);
CREATE INDEX config_poison_by_program ON config_poison (program_digest, class_id);
CREATE INDEX device_by_class ON device (class_id);
CREATE INDEX job_active ON job (job_id) WHERE state < 5;
CREATE INDEX job_by_kernel ON job (kernel_id);
CREATE INDEX job_by_label ON job (label);
CREATE INDEX job_by_submitter ON job (submitted_by);
CREATE INDEX job_ended ON job (ended_at_ms) WHERE ended_at_ms IS NOT NULL;
CREATE INDEX kernel_by_name ON kernel (display_name, kernel_seq);
CREATE INDEX kernel_by_owner ON kernel (owner);
CREATE INDEX kernel_by_program ON kernel (program_digest);
CREATE INDEX request_dedup_by_age ON request_dedup (created_at_ms);
CREATE INDEX study_work_by_work ON study_work (study_id, work);
CREATE INDEX trial_result_by_measured ON trial_result (measured_key) WHERE measured_key IS NOT NULL;
CREATE INDEX trial_result_by_outcome ON trial_result (study_id, purpose, outcome);
CREATE INDEX trial_result_by_time ON trial_result (study_id, ifnull(median_ns, 9e999), ordinal);
CREATE INDEX work_unit_claimed ON work_unit (agent_id) WHERE state = 2;
CREATE INDEX work_unit_done ON work_unit (study_id, unit_id) WHERE state = 3;
CREATE INDEX work_unit_ready ON work_unit (class_id, priority DESC, study_id, claim_seq) WHERE state = 1;
