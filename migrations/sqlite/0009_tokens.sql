-- Bearer tokens of clients. Of a token itself there is only its SHA-256.

CREATE TABLE access_token (
  name TEXT NOT NULL PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 64),
  digest TEXT NOT NULL UNIQUE CHECK (length(digest) = 64),  -- hex
  roles TEXT NOT NULL CHECK (length(roles) BETWEEN 1 AND 256),  -- "submit,kernels"
  created_at_ms INTEGER NOT NULL,
  expires_at_ms INTEGER NOT NULL,
  last_used_at_ms INTEGER,  -- coarse
  revoked_at_ms INTEGER,
  CONSTRAINT access_token_expires_later CHECK (expires_at_ms > created_at_ms)
) STRICT;
