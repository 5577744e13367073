-- Problems that were looked up and had no exact best. The daemon counts them in memory and writes them down now and then.

CREATE TABLE miss (
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
  last_asked_at_ms INTEGER NOT NULL,
  PRIMARY KEY (kernel_name, problem_key, class_id)
) STRICT, WITHOUT ROWID;
