"""The tables of the record. Postgres gets the same ones, with its own names for the types (postgres.py)."""

SCHEMA_VERSION = 3
"""The version in an SQLite file. A file of another version is refused."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS record (
    seq INTEGER PRIMARY KEY,         -- without gaps; chained by hash (chain.py)
    kind TEXT NOT NULL,              -- intent: about to run; outcome: has ended; or a note: retention, lost
    time REAL NOT NULL,              -- Unix seconds: when the call came in; of an intent, when it was about to run
    call_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    category TEXT NOT NULL,
    verdict TEXT NOT NULL,
    session_id TEXT,
    channel TEXT,
    arguments TEXT,                  -- JSON as bound, cut at MAX_ARGUMENTS characters; NULL: those of the intent
    rule TEXT,
    duration REAL,                   -- seconds, outcome only
    size INTEGER,                    -- characters of the output, outcome only
    outcome TEXT,                    -- ok or an error kind, outcome only
    labels TEXT,                     -- information-flow labels, JSON; NULL where nobody set any
    intent INTEGER,                  -- seq of the outcome's intent
    approver TEXT,
    error TEXT,                      -- the start of an error's text
    approval TEXT,                   -- the stored approval that an intent used up
    hash BLOB NOT NULL
);
-- Outcomes only: an intent is written while its call waits, and each index would cost it a page.
CREATE INDEX IF NOT EXISTS record_tool_time ON record (tool, time) WHERE kind = 'outcome';
CREATE INDEX IF NOT EXISTS record_time ON record (time) WHERE kind = 'outcome';
CREATE INDEX IF NOT EXISTS record_call ON record (call_id) WHERE kind = 'outcome';
CREATE INDEX IF NOT EXISTS record_failed ON record (outcome, time) WHERE kind = 'outcome' AND outcome <> 'ok';
CREATE INDEX IF NOT EXISTS record_session ON record (session_id) WHERE kind = 'outcome';
CREATE INDEX IF NOT EXISTS record_notes ON record (seq) WHERE kind NOT IN ('intent', 'outcome');
CREATE TABLE IF NOT EXISTS approval (
    id TEXT PRIMARY KEY,
    call_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    category TEXT NOT NULL,
    arguments TEXT NOT NULL,
    preview TEXT NOT NULL,
    reason TEXT NOT NULL,
    rule TEXT,
    digest TEXT NOT NULL,            -- SHA-256 of tool and canonical arguments: what a yes is bound to
    session_id TEXT,
    state TEXT NOT NULL,             -- pending, approved, denied, expired, used
    created REAL NOT NULL,
    expires REAL NOT NULL,
    approver TEXT,
    answer TEXT,                     -- the person's reason
    edited TEXT,                     -- arguments the person changed, JSON
    scope TEXT NOT NULL DEFAULT 'once',
    asked_by TEXT,                   -- what asks whatever rules allow; NULL where `rule` would allow the call
    scopes TEXT NOT NULL DEFAULT 'once session',  -- how far a yes may reach
    workspace TEXT,                  -- the folder it was asked for: where a rule would hold
    caller TEXT,                     -- channel, chat, sender and agent that asked, JSON
    process TEXT,                    -- the process that asked; NULL once its session has ended
    run TEXT,                        -- the call that used the yes up, and when
    run_time REAL
);
CREATE INDEX IF NOT EXISTS approval_digest ON approval (digest, state);
"""

_WRITER = "CREATE TABLE IF NOT EXISTS writer (chain INTEGER PRIMARY KEY, holder TEXT NOT NULL)"
"""The connection that had each chain last."""

STEPS = (SCHEMA, _WRITER)
"""What makes each version of the tables on Postgres from the one before."""
