-- What people decide about bests, what became of each, and what is gone: so that a watcher can be told every change.

-- An empty catalog has a revision too: to watchers, 0 means "everything".
UPDATE catalog_rev SET revision = revision + 1;

ALTER TABLE best_config ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1));
ALTER TABLE best_config ADD COLUMN note TEXT NOT NULL DEFAULT '' CHECK (length(CAST(note AS BLOB)) <= 4096);

-- One row a change of the catalog, never updated; the newest of each key are kept. With the best as it was after the
-- change, or before it where it was taken out: whole, so that it can be put back.
CREATE TABLE best_change (
  revision INTEGER PRIMARY KEY CHECK (revision >= 1),
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
CREATE INDEX best_change_by_key ON best_change (program_digest, problem_key, class_id);
CREATE INDEX best_change_by_kernel ON best_change (kernel_name);

INSERT INTO best_change
  SELECT revision, 1, '', promoted_at_ms, program_digest, problem_key, class_id, kernel_name, kernel_id, config, detail,
         median_ns, job_id, study_id, ordinal, revision, promoted_at_ms, 0, ''
  FROM best_config ORDER BY revision;

-- Names under which a key had a best and has none now: it was taken out, or another name of the program has it. One row
-- each, however often that happens; gone when a best is filed there again.
CREATE TABLE best_removal (
  program_digest TEXT NOT NULL CHECK (length(program_digest) <= 128),
  problem_key TEXT NOT NULL CHECK (length(problem_key) <= 4096),
  class_id TEXT NOT NULL CHECK (length(class_id) <= 256),
  kernel_name TEXT NOT NULL CHECK (length(kernel_name) <= 256),
  revision INTEGER NOT NULL CHECK (revision >= 1),
  PRIMARY KEY (program_digest, problem_key, class_id, kernel_name)
) STRICT, WITHOUT ROWID;
