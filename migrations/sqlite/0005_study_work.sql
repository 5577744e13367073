-- What trials of searches make devices do (Trial.work): which trial does a work, and which has done it. At most one row
-- for each trial.
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
CREATE INDEX study_work_by_work ON study_work (study_id, work);
