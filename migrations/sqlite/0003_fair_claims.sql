-- Jobs of one priority take turns: ready units are found by job, and whose turn it is is remembered.

DROP INDEX work_unit_ready;
CREATE INDEX work_unit_ready ON work_unit (class_id, priority DESC, study_id, claim_seq) WHERE state = 1;

-- The studies of a job have ids without another's between them: they are the job's place in the circle.
CREATE TABLE claim_turn (
  class_id TEXT NOT NULL CHECK (length(class_id) <= 256),
  priority INTEGER NOT NULL,
  first_study_id INTEGER NOT NULL,
  last_study_id INTEGER NOT NULL,
  trials INTEGER NOT NULL CHECK (trials >= 0),  -- handed out in this turn
  PRIMARY KEY (class_id, priority),
  CONSTRAINT claim_turn_is_a_range CHECK (first_study_id <= last_study_id)
) STRICT, WITHOUT ROWID;
