"""The tables of sessions: what makes each version from the one before."""

STEPS = (
    """
CREATE TABLE IF NOT EXISTS agent_session (
    id TEXT PRIMARY KEY,
    created REAL NOT NULL,
    updated REAL NOT NULL,
    title TEXT NOT NULL,
    model TEXT NOT NULL,
    system TEXT NOT NULL,            -- the system prompt, the same for all requests of the session
    state TEXT NOT NULL,
    waiting TEXT NOT NULL,           -- what it waits for: JSON list
    parent TEXT,                     -- the session that it was forked from, or that spawned it
    usage TEXT NOT NULL,             -- tokens of all requests, JSON
    cost REAL,                       -- dollars of all requests with a known price
    extra TEXT NOT NULL              -- the todo list and more, JSON
);
CREATE INDEX IF NOT EXISTS agent_session_updated ON agent_session (updated);
CREATE INDEX IF NOT EXISTS agent_session_parent ON agent_session (parent);
CREATE TABLE IF NOT EXISTS agent_turn (
    session TEXT NOT NULL,
    position INTEGER NOT NULL,
    time REAL NOT NULL,
    turn TEXT NOT NULL,
    PRIMARY KEY (session, position)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS agent_result (  -- of calls whose turn has other calls that still run or wait
    call_id TEXT PRIMARY KEY,
    result TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS agent_message (
    seq INTEGER PRIMARY KEY,
    session TEXT NOT NULL,
    kind TEXT NOT NULL,
    turn TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS agent_message_session ON agent_message (session, kind, seq);
CREATE TABLE IF NOT EXISTS agent_seen (  -- messages from channels that came, so that none counts twice
    key TEXT PRIMARY KEY,
    expires REAL NOT NULL
) WITHOUT ROWID;
""",
    """
ALTER TABLE agent_session ADD COLUMN workspace TEXT;
""",
    """
ALTER TABLE agent_session ADD COLUMN stop TEXT NOT NULL DEFAULT '';
ALTER TABLE agent_session ADD COLUMN stopped_by TEXT NOT NULL DEFAULT '';
""",
)
