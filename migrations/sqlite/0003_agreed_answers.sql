-- What the processes of distributed runs agreed on: for each run the catalog's revision when it began, and the answers
-- to look-ups that are fixed for it.
CREATE TABLE agreed_run (
  run_id TEXT NOT NULL PRIMARY KEY CHECK (length(run_id) BETWEEN 1 AND 128),
  owner TEXT NOT NULL CHECK (length(owner) <= 256),  -- in whose quota it counts
  catalog_revision INTEGER NOT NULL CHECK (catalog_revision >= 0),
  begun_at_ms INTEGER NOT NULL,
  last_used_at_ms INTEGER NOT NULL,  -- coarse
  answers INTEGER NOT NULL DEFAULT 0 CHECK (answers >= 0),
  answer_bytes INTEGER NOT NULL DEFAULT 0 CHECK (answer_bytes >= 0)
) STRICT;
CREATE INDEX agreed_run_by_owner ON agreed_run (owner);
CREATE INDEX agreed_run_by_use ON agreed_run (last_used_at_ms);
CREATE TABLE agreed_answer (
  run_id TEXT NOT NULL REFERENCES agreed_run (run_id) ON DELETE CASCADE,
  question_sha BLOB NOT NULL CHECK (length(question_sha) = 32),
  answer BLOB NOT NULL CHECK (length(answer) <= 1048576),
  agreed_at_ms INTEGER NOT NULL,
  PRIMARY KEY (run_id, question_sha)
) STRICT;
