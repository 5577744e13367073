-- What lists of jobs are filtered by, besides what the table had. Jobs from before have neither: such a list leaves them
-- out.
ALTER TABLE job ADD COLUMN label text COLLATE "C" NOT NULL DEFAULT '' CHECK (length(label) <= 256);
ALTER TABLE job ADD COLUMN submitted_by text COLLATE "C" NOT NULL DEFAULT '' CHECK (length(submitted_by) <= 256);
CREATE INDEX job_by_label ON job (label, job_id);
CREATE INDEX job_by_submitter ON job (submitted_by, job_id);
