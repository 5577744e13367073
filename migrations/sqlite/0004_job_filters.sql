-- What lists of jobs are filtered by, besides what the table had. Jobs from before have neither: such a list leaves them
-- out.
ALTER TABLE job ADD COLUMN label TEXT NOT NULL DEFAULT '' CHECK (length(label) <= 256);
ALTER TABLE job ADD COLUMN submitted_by TEXT NOT NULL DEFAULT '' CHECK (length(submitted_by) <= 256);
CREATE INDEX job_by_label ON job (label);
CREATE INDEX job_by_submitter ON job (submitted_by);
