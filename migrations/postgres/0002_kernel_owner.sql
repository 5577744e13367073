-- Kernels have an owner, whose quota they count in, and can be deleted. What ended jobs and best configs refer to stays
-- as a row with an empty definition. kernel_seq orders a name's kernels by when they were last submitted, and
-- created_at_ms is that time.
ALTER TABLE kernel ADD COLUMN owner text COLLATE "C" NOT NULL DEFAULT '' CHECK (length(owner) <= 256);
ALTER TABLE kernel ADD COLUMN deleted_at_ms bigint;
CREATE INDEX kernel_by_owner ON kernel (owner);
