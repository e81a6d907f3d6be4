import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { it } from 'node:test';
import { inspect } from 'node:util';
import { DomainError } from '../../../src/domain/errors.ts';
import { connect, migrate } from '../../../src/storage/sqlite/schema.ts';
import { groupCommit } from '../../../src/storage/sqlite/writer-thread.ts';
import { type SqliteWrites, sqliteWrites } from '../../../src/storage/sqlite/writes.ts';
import { type Scheduler, testSchedules } from '../../support/scheduler.ts';
import { temporaryFolder } from '../../support/temporary.ts';

const busyTimeoutMs = 20;
const busy = 5;
const full = 13;
const ioError = 10;
const noTransaction = 1;
const keptFiles = { checkLength() {}, check() {} };

function sqliteError(errcode: number): Error {
  return Object.assign(new Error(`result ${errcode}`), { errcode });
}

/** A database file that other processes lock, on a disk that sometimes fails. */
class FakeDatabase {
  readonly rows: number[] = [];
  isTransaction = false;
  filesAreThere = true;
  readonly #scheduler: Scheduler;
  #lockedUntil = 0;
  #added: number[] = [];

  constructor(scheduler: Scheduler) {
    this.#scheduler = scheduler;
  }

  lock(): void {
    this.#lockedUntil = this.#scheduler.now + this.#scheduler.random.below(busyTimeoutMs * 2);
  }

  exec(sql: string): void {
    if (sql === 'BEGIN IMMEDIATE') {
      if (this.#scheduler.now < this.#lockedUntil) throw sqliteError(busy);
      this.isTransaction = true;
      this.#added = [];
    } else if (sql === 'ROLLBACK') {
      assert.ok(this.isTransaction);
      this.isTransaction = false;
    } else {
      if (!this.isTransaction) throw sqliteError(noTransaction);
      // On some errors SQLite rolls back the transaction itself.
      if (this.#scheduler.oneIn(6)) {
        this.isTransaction = this.#scheduler.oneIn(2);
        throw sqliteError(full);
      }
      this.isTransaction = false;
      this.rows.push(...this.#added);
    }
  }

  add(row: number): number {
    if (this.#scheduler.oneIn(8)) throw new DomainError('conflict', 'refused');
    if (this.#scheduler.oneIn(12)) {
      this.isTransaction = false;
      throw sqliteError(ioError);
    }
    // Without a transaction, SQLite commits each statement at once.
    (this.isTransaction ? this.#added : this.rows).push(row);
    return row;
  }
}

testSchedules(
  'a group is committed completely except for writes that fail, or not at all',
  async (scheduler) => {
    const db = new FakeDatabase(scheduler);
    const writes = { continueIds: (last: number) => db.add(last) } as unknown as SqliteWrites;
    const check = () => {
      if (!db.filesAreThere) throw sqliteError(ioError);
    };
    const commit = groupCommit(db, writes, { ...keptFiles, check }, busyTimeoutMs);
    let next = 0;
    let mayCommit = true;
    for (let group = 0; group < 8; group += 1) {
      if (scheduler.oneIn(3)) db.lock();
      db.filesAreThere = !scheduler.oneIn(4);
      const ids = Array.from({ length: 1 + scheduler.random.below(4) }, () => next++);
      const before = db.rows.length;
      const since = scheduler.now;
      const reply = commit(ids.map((id) => ({ name: 'continueIds', parameters: [id] })));
      const outcomes = 'value' in reply ? reply.value : [];
      assert.ok(scheduler.now - since <= busyTimeoutMs + 2, 'the group waited too long for the lock');
      assert.equal(db.isTransaction, false, 'a transaction stayed open');
      const made = outcomes.flatMap((outcome) => ('value' in outcome ? [outcome.value] : []));
      const added = db.rows.slice(before);
      if ('value' in reply) {
        assert.equal(outcomes.length, ids.length);
        assert.deepEqual(added, made);
      } else if (db.filesAreThere) {
        assert.deepEqual(added, [], 'a write of a failed group was committed');
      }
      if (!mayCommit && !db.filesAreThere) assert.deepEqual(added, [], 'a write went to lost files');
      if (db.filesAreThere) mayCommit = true;
      else if (added.length > 0) mayCommit = false;
      await scheduler.turn();
    }
  },
);

it('a connection that cannot write ends its thread, and leaves no transaction open', () => {
  const path = join(temporaryFolder(), 'users.db');
  writeFileSync(path, '');
  connect(path, migrate).close();
  // SQLite opens a file so if it cannot open it for writing.
  using db = new DatabaseSync(path, { readOnly: true });
  const commit = groupCommit(db, sqliteWrites(db, 10), keptFiles, busyTimeoutMs);
  for (const name of ['touch', 'create'] as const) {
    const write = { name, parameters: ['users', { name: 'Ada', role: undefined }] };
    assert.throws(() => commit([write, write]), /readonly/);
    assert.equal(db.isTransaction, false);
  }
});

it('a group fails at once if its transaction cannot begin for another reason than a lock', () => {
  let attempts = 0;
  const exec = () => {
    attempts += 1;
    throw sqliteError(ioError);
  };
  const commit = groupCommit({ exec, isTransaction: false }, {} as SqliteWrites, keptFiles, busyTimeoutMs);
  assert.ok('failed' in commit([{ name: 'touch', parameters: [] }]));
  assert.equal(attempts, 1);
});

it('an error that ends the transaction of a group is the reason of its failure', () => {
  const path = join(temporaryFolder(), 'users.db');
  writeFileSync(path, '');
  connect(path, migrate).close();
  using db = connect(path);
  const commit = groupCommit(db, sqliteWrites(db, 10), keptFiles, busyTimeoutMs);
  db.exec(`
    INSERT INTO users (name) VALUES ('Ada');
    CREATE TRIGGER full BEFORE DELETE ON users BEGIN SELECT RAISE(ROLLBACK, 'the disk is full'); END`);
  const reply = commit([{ name: 'delete', parameters: ['users', [1]] }]);
  assert.match(inspect(reply), /the disk is full/);
});
