-- A file of schema version 1, with rows. Never edited: every later version must open it.
CREATE TABLE users (
  id INTEGER PRIMARY KEY AUTOINCREMENT CHECK (id BETWEEN 1 AND 2147483647),
  name TEXT NOT NULL,
  role TEXT NOT NULL DEFAULT '',
  version INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE INDEX users_by_name ON users (name, id, role);  -- sort=name, -name
CREATE INDEX users_by_role ON users (role);            -- sort=role; role=x by id
CREATE INDEX users_by_role_desc ON users (role DESC);  -- sort=-role
CREATE INDEX users_by_role_name ON users (role, name); -- sort=role,name; role=x with sort=name, -name
CREATE INDEX users_by_role_desc_name ON users (role DESC, name); -- sort=-role,name and, backwards, role,-name

CREATE TABLE posts (
  id INTEGER PRIMARY KEY AUTOINCREMENT CHECK (id BETWEEN 1 AND 2147483647),
  user_id INTEGER NOT NULL REFERENCES users ON DELETE CASCADE,
  title TEXT NOT NULL,
  body TEXT NOT NULL
) STRICT;
CREATE INDEX posts_by_user ON posts (user_id);              -- a user's posts by id; the cascade
CREATE INDEX posts_by_user_title ON posts (user_id, title); -- a user's posts by title

CREATE TABLE idempotency_keys (
  key TEXT PRIMARY KEY,
  fingerprint TEXT NOT NULL,
  response TEXT NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX idempotency_keys_by_expiry ON idempotency_keys (expires_at);

CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT;
INSERT INTO meta VALUES ('cursor_secret', randomblob(32));

-- One row a table from the start, so that raising an id is an UPDATE.
INSERT INTO sqlite_sequence (name, seq) VALUES ('users', 0), ('posts', 0);

INSERT INTO users (id, name, role, version) VALUES
  (1, 'Ada', 'admin', 3), (2, 'Bob', '', 1), (5, 'Ada', 'editor', 1), (9, 'gone', '', 1);
INSERT INTO posts (id, user_id, title, body) VALUES
  (1, 1, 'title', 'line 1' || char(10) || 'line 2'), (2, 5, 'title', ''), (7, 9, 'gone', '');
DELETE FROM users WHERE id = 9;
DELETE FROM posts WHERE id = 7;
INSERT INTO idempotency_keys (key, fingerprint, response, expires_at)
  VALUES ('key', 'fingerprint', '{"id":2,"name":"Bob","version":1}', 4102444800000),
    ('post', 'fingerprint', '{"id":2,"userId":5,"title":"title","body":""}', 4102444800000);
PRAGMA user_version = 1;
