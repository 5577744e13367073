-- What the processes of distributed runs agreed on: for each run the catalog's revision when it began, and the answers
-- to look-ups that are fixed for it.
CREATE TABLE agreed_run (
  run_id text COLLATE "C" PRIMARY KEY CHECK (length(run_id) BETWEEN 1 AND 128),
  owner text COLLATE "C" NOT NULL CHECK (length(owner) <= 256),  -- in whose quota it counts
  catalog_revision bigint NOT NULL CHECK (catalog_revision >= 0),
  begun_at_ms bigint NOT NULL,
  last_used_at_ms bigint NOT NULL,  -- coarse
  answers bigint NOT NULL DEFAULT 0 CHECK (answers >= 0),
  answer_bytes bigint NOT NULL DEFAULT 0 CHECK (answer_bytes >= 0)
);
CREATE INDEX agreed_run_by_owner ON agreed_run (owner);
CREATE INDEX agreed_run_by_use ON agreed_run (last_used_at_ms);
CREATE TABLE agreed_answer (
  run_id text COLLATE "C" NOT NULL REFERENCES agreed_run (run_id) ON DELETE CASCADE,
  question_sha bytea NOT NULL CHECK (length(question_sha) = 32),
  answer bytea NOT NULL CHECK (length(answer) <= 1048576),
  agreed_at_ms bigint NOT NULL,
  PRIMARY KEY (run_id, question_sha)
);
