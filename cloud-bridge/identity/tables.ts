const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
/** SQL: the public key with no unused bit set in its last character. */
const canonical = `(substr(public_key, 1, 42) ||
  substr('AEIMQUYcgkosw048', (instr('${alphabet}', substr(public_key, 43, 1)) - 1) / 4 + 1, 1))`

/** Migrations of the identity database. */
export const identityTables = [
  `CREATE TABLE enrol_tokens (
    id TEXT PRIMARY KEY,
    secret_hash BLOB NOT NULL UNIQUE,
    device_group TEXT NOT NULL,
    uses_left INTEGER NOT NULL CHECK (uses_left >= 0),
    approve INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    revoked_at TEXT
  ) STRICT;
  CREATE TABLE identities (
    device TEXT PRIMARY KEY,
    device_group TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'approved', 'revoked')),
    public_key TEXT NOT NULL UNIQUE,
    token_id TEXT NOT NULL,
    enrolled_at TEXT NOT NULL,
    hardware TEXT,
    clone TEXT
  ) STRICT;
  CREATE TABLE audit (
    id INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail TEXT NOT NULL
  ) STRICT;`,
  `CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    secret_hash BLOB NOT NULL UNIQUE,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    created_at TEXT NOT NULL,
    revoked_at TEXT
  ) STRICT`,
  "UPDATE keys SET role = CASE role WHEN 'submitter' THEN 'operator' ELSE 'viewer' END",
  `ALTER TABLE keys ADD COLUMN requests_per_minute INTEGER;
  ALTER TABLE keys ADD COLUMN jobs_per_day INTEGER;
  CREATE TABLE key_usage (
    key_id TEXT PRIMARY KEY REFERENCES keys (id),
    day TEXT NOT NULL,
    jobs INTEGER NOT NULL
  ) STRICT;
  ALTER TABLE audit ADD COLUMN origin TEXT;
  ALTER TABLE audit ADD COLUMN outcome TEXT NOT NULL DEFAULT 'ok';
  UPDATE audit SET outcome = 'refused' WHERE action LIKE '%.refused'`,
  // Base64url has four spellings of 32 bytes, and agents use one. A device that enrolled under another waits for approval;
  // where the key was known under its one spelling too, the other is revoked, and never fits a signature.
  `UPDATE OR IGNORE identities
    SET public_key = ${canonical}, status = CASE status WHEN 'approved' THEN 'pending' ELSE status END
    WHERE public_key <> ${canonical};
  UPDATE identities SET status = 'revoked' WHERE public_key <> ${canonical};
  CREATE TABLE former_keys (
    public_key TEXT PRIMARY KEY,
    device TEXT NOT NULL,
    at TEXT NOT NULL
  ) STRICT`,
  `CREATE TABLE audit_requests (
    id INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    actor TEXT NOT NULL,
    origin TEXT,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    outcome TEXT NOT NULL,
    detail TEXT NOT NULL
  ) STRICT;
  CREATE TABLE audit_refusals (
    id INTEGER PRIMARY KEY,
    minute INTEGER NOT NULL,
    count INTEGER NOT NULL,
    at TEXT NOT NULL,
    actor TEXT NOT NULL,
    origin TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    outcome TEXT NOT NULL,
    detail TEXT NOT NULL,
    UNIQUE (minute, actor, origin, action)
  ) STRICT;
  INSERT INTO audit_refusals (minute, count, at, actor, origin, action, subject, outcome, detail)
    SELECT unixepoch(min(at)) / 60, count(*), min(at), actor, coalesce(origin, ''), action, substr(min(subject), 1, 200), 'refused', '{}'
    FROM audit WHERE outcome = 'refused' GROUP BY unixepoch(at) / 60, actor, coalesce(origin, ''), action ORDER BY min(id);
  DELETE FROM audit WHERE outcome = 'refused';
  CREATE TABLE audit_export (changes INTEGER NOT NULL, requests INTEGER NOT NULL, refusals INTEGER NOT NULL) STRICT;
  INSERT INTO audit_export VALUES (0, 0, 0)`,
  'ALTER TABLE keys ADD COLUMN expires_at TEXT',
  `ALTER TABLE identities ADD COLUMN key_since TEXT;
  ALTER TABLE identities ADD COLUMN key_expires_at TEXT`,
  // Releases whose default for MQTT over TLS was 1883 gave that port to their devices.
  `CREATE TABLE tls_port (port INTEGER NOT NULL) STRICT;
  INSERT INTO tls_port SELECT 1883 WHERE EXISTS (SELECT 1 FROM identities)`,
  // `pins`: separated by spaces.
  `CREATE TABLE next_pins (pin TEXT PRIMARY KEY, announced_at TEXT NOT NULL) STRICT, WITHOUT ROWID;
  CREATE TABLE device_pins (device TEXT PRIMARY KEY, pins TEXT NOT NULL) STRICT, WITHOUT ROWID`,
  "ALTER TABLE enrol_tokens ADD COLUMN labels TEXT NOT NULL DEFAULT '{}'",
]
