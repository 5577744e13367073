-- What a job can start from: results of other studies of its program, and measurements that need not be made again.

CREATE INDEX kernel_by_program ON kernel (program_digest);

-- Of the device when the study was submitted; empty: not known.
ALTER TABLE study ADD COLUMN toolkit TEXT NOT NULL DEFAULT '' CHECK (length(toolkit) <= 256);

-- What a study was told of others before its first proposal. Written with that proposal and gone when the study has
-- ended: until then a restart reads it back, whatever has become of those others.
CREATE TABLE study_prior (
  study_id INTEGER NOT NULL REFERENCES study (study_id) ON DELETE CASCADE,
  position INTEGER NOT NULL CHECK (position BETWEEN 0 AND 15),
  source_rank INTEGER NOT NULL CHECK (source_rank >= 0),
  payload BLOB NOT NULL CHECK (length(payload) <= 4194304),
  PRIMARY KEY (study_id, position)
) STRICT;

-- Names what was measured: program, problem, class, toolkit, policy and config. NULL: the result is its trial's own.
ALTER TABLE trial_result ADD COLUMN measured_key BLOB CHECK (length(measured_key) = 16);
CREATE INDEX trial_result_by_measured ON trial_result (measured_key) WHERE measured_key IS NOT NULL;
