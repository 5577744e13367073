-- Units whose agents are lost with them: how often, below which ordinal the suspects are, and where what was handed out
-- last ended (0: with the unit).
ALTER TABLE work_unit ADD COLUMN losses integer NOT NULL DEFAULT 0 CHECK (losses >= 0);
ALTER TABLE work_unit ADD COLUMN suspects_end bigint NOT NULL DEFAULT 0 CHECK (suspects_end >= 0);
ALTER TABLE work_unit ADD COLUMN handed_end bigint NOT NULL DEFAULT 0 CHECK (handed_end >= 0);
