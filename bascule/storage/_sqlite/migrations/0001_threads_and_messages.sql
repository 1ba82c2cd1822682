-- Times are integer microseconds since 1970 in UTC; metadata and content are JSON.

-- The integer key keeps the rows of messages short and lets an id be used by many owners.
CREATE TABLE threads (
    key INTEGER PRIMARY KEY,
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    title TEXT NOT NULL,
    metadata TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (owner, id)
);

CREATE INDEX threads_by_creation ON threads (owner, created_at);

-- No index on updated_at: every turn would have to move an entry of it (15 us of CPU), and the threads of one owner are
-- found and sorted fast enough without.

-- The newest messages of a thread are a backward scan of the primary key. A rowid table on purpose: without a rowid the
-- content lies in the index pages, and both appending and reading took longer (measured, 300 and 3000 bytes).
CREATE TABLE messages (
    thread INTEGER NOT NULL REFERENCES threads (key) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    id TEXT NOT NULL,
    role TEXT NOT NULL,
    content TEXT NOT NULL,
    metadata TEXT,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (thread, seq),
    UNIQUE (thread, id)
);
