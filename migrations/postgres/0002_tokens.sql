-- Bearer tokens of clients. Of a token itself there is only its SHA-256.
CREATE TABLE access_token (
  name text COLLATE "C" PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 64),
  digest text COLLATE "C" NOT NULL UNIQUE CHECK (length(digest) = 64),  -- hex
  roles text NOT NULL CHECK (length(roles) BETWEEN 1 AND 256),  -- "submit,kernels"
  created_at_ms bigint NOT NULL,
  expires_at_ms bigint NOT NULL,
  last_used_at_ms bigint,  -- coarse
  revoked_at_ms bigint,
  CONSTRAINT access_token_expires_later CHECK (expires_at_ms > created_at_ms)
);
