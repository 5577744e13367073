-- Results that other tools recorded. Nothing that measures, looks up or promotes reads these tables.

CREATE TABLE recording (
  recording_id INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used twice: clients remember names
  display_name TEXT NOT NULL CHECK (length(display_name) BETWEEN 1 AND 128),
  content_digest TEXT NOT NULL CHECK (length(content_digest) BETWEEN 1 AND 128),  -- of the unpacked file
  kernel_name TEXT NOT NULL CHECK (length(kernel_name) <= 256),
  problem TEXT NOT NULL CHECK (length(problem) <= 256),
  device_name TEXT NOT NULL CHECK (length(device_name) <= 256),
  file_name TEXT NOT NULL CHECK (length(file_name) <= 256),
  result_count INTEGER NOT NULL CHECK (result_count BETWEEN 1 AND 1000000),
  valid_count INTEGER NOT NULL CHECK (valid_count >= 0),
  stored_bytes INTEGER NOT NULL CHECK (stored_bytes >= 0),
  imported_at_ms INTEGER NOT NULL,
  is_complete INTEGER NOT NULL CHECK (is_complete IN (0, 1)),  -- 0: its parts are still being written, or a crash left it
  CONSTRAINT recording_valid_of_results CHECK (valid_count <= result_count)
) STRICT;

-- One of a name and one of a content.
CREATE UNIQUE INDEX recording_by_name ON recording (display_name);
CREATE UNIQUE INDEX recording_by_content ON recording (content_digest);

-- Large, and never updated.
CREATE TABLE recording_detail (
  recording_id INTEGER PRIMARY KEY REFERENCES recording (recording_id) ON DELETE CASCADE,
  detail BLOB NOT NULL CHECK (length(detail) <= 1048576),
  parameters BLOB NOT NULL CHECK (length(parameters) <= 8388608)
) STRICT;
CREATE TABLE recording_part (
  recording_id INTEGER NOT NULL REFERENCES recording (recording_id) ON DELETE CASCADE,
  first_result INTEGER NOT NULL CHECK (first_result >= 0),
  result_count INTEGER NOT NULL CHECK (result_count BETWEEN 1 AND 65536),
  results BLOB NOT NULL CHECK (length(results) <= 4194304),
  PRIMARY KEY (recording_id, first_result)
) STRICT;
