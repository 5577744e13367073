-- Agents on other machines hold leases; daemons that share a database hold named ones, and drive jobs under an epoch.
ALTER TABLE agent ADD COLUMN detail BLOB NOT NULL DEFAULT x'' CHECK (length(detail) <= 1048576);
ALTER TABLE agent ADD COLUMN draining INTEGER NOT NULL DEFAULT 0 CHECK (draining IN (0, 1));
ALTER TABLE agent ADD COLUMN lease_until_ms INTEGER;  -- NULL: it lives until it is released
CREATE INDEX agent_live ON agent (agent_id) WHERE released_at_ms IS NULL;
CREATE TABLE lease (
  name TEXT PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 256),
  holder TEXT NOT NULL CHECK (length(holder) <= 256),
  detail BLOB NOT NULL CHECK (length(detail) <= 65536),
  epoch INTEGER NOT NULL CHECK (epoch >= 1),  -- grows with every change of the holder, so the row stays
  until_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
ALTER TABLE job ADD COLUMN driver TEXT NOT NULL DEFAULT '' CHECK (length(driver) <= 256);  -- a node; empty: none
ALTER TABLE job ADD COLUMN driver_epoch INTEGER NOT NULL DEFAULT 0 CHECK (driver_epoch >= 0);
CREATE INDEX work_unit_done ON work_unit (study_id, unit_id) WHERE state = 3;
