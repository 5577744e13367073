-- What a person last said of a device, for all daemons and over their ends: out of service for a reason, or released, maybe
-- with the sentinels that were measured then although they deviate.
CREATE TABLE device_order (
  device_uuid TEXT NOT NULL PRIMARY KEY CHECK (length(device_uuid) BETWEEN 1 AND 256),
  held_out TEXT NOT NULL CHECK (length(held_out) <= 1024),  -- why; empty: released
  accepted_sentinels_ms INTEGER NOT NULL DEFAULT 0,  -- when they were measured; 0: none are accepted
  set_at_ms INTEGER NOT NULL,
  revision INTEGER NOT NULL CHECK (revision >= 1),  -- grows with each order for the device
  CONSTRAINT device_order_accepts_what_is_released CHECK (held_out = '' OR accepted_sentinels_ms = 0)
) STRICT;
