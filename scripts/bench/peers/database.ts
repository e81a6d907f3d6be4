import { DatabaseSync } from 'node:sqlite';

export interface UserRow {
  readonly id: number;
  readonly name: string;
  readonly role?: string;
}

/** What a peer does with the data: the same statements, on the same settings, as the service. */
export interface Database {
  getUser(id: number): UserRow | undefined;
  listUsers(role: string, limit: number): UserRow[];
  /** Commits by itself, as an insert does unless somebody makes it wait for others. */
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
  const get = db.prepare('SELECT id, name, role FROM users WHERE id = ?');
  const list = db.prepare('SELECT id, name, role FROM users WHERE role = ? ORDER BY name DESC, id LIMIT ?');
  const insert = db.prepare('INSERT INTO users (name, role) VALUES (?, ?)');
  return {
    getUser(id) {
      const row = get.get(id);
      return row && toUser(row);
    },
    listUsers: (role, limit) => list.all(role, limit).map(toUser),
    createUser(name, role) {
      const { lastInsertRowid } = insert.run(name, role);
      return { id: Number(lastInsertRowid), name, role };
    },
  };
}

export function toUser({ id, name, role }: Record<string, unknown> = {}): UserRow {
  return role === ''
    ? { id: Number(id), name: String(name) }
    : { id: Number(id), name: String(name), role: String(role) };
}
