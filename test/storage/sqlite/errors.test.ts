import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { DomainError, type ErrorKind } from '../../../src/domain/errors.ts';
import { isReadOnly, toDomainError } from '../../../src/storage/sqlite/errors.ts';

const codes: readonly [code: number, name: string, kind: ErrorKind][] = [
  [1, 'SQLITE_ERROR', 'internal'],
  [5, 'SQLITE_BUSY', 'unavailable'],
  [261, 'SQLITE_BUSY_RECOVERY', 'unavailable'],
  [6, 'SQLITE_LOCKED', 'unavailable'],
  [7, 'SQLITE_NOMEM', 'unavailable'],
  [3082, 'SQLITE_IOERR_NOMEM', 'unavailable'],
  [8, 'SQLITE_READONLY', 'unavailable'],
  [1288, 'SQLITE_READONLY_CANTINIT', 'unavailable'],
  [10, 'SQLITE_IOERR', 'unavailable'],
  [522, 'SQLITE_IOERR_SHORT_READ', 'unavailable'],
  [11, 'SQLITE_CORRUPT', 'unavailable'],
  [13, 'SQLITE_FULL', 'unavailable'],
  [14, 'SQLITE_CANTOPEN', 'unavailable'],
  [15, 'SQLITE_PROTOCOL', 'unavailable'],
  [21, 'SQLITE_MISUSE', 'internal'],
  [26, 'SQLITE_NOTADB', 'unavailable'],
  [275, 'SQLITE_CONSTRAINT_CHECK', 'internal'], // a condition of the operator
  [1555, 'SQLITE_CONSTRAINT_PRIMARYKEY', 'internal'],
  [2067, 'SQLITE_CONSTRAINT_UNIQUE', 'conflict'], // an index of the operator
];

describe('an error of SQLite', () => {
  for (const [errcode, name, kind] of codes) {
    it(`with the result code ${name} becomes ${kind}`, () => {
      const error = Object.assign(new Error(name), { code: 'ERR_SQLITE_ERROR', errcode });
      const converted = toDomainError(error);
      assert.equal(converted.kind, kind);
      assert.equal(isReadOnly(error), name.startsWith('SQLITE_READONLY'));
      assert.ok(!converted.message.includes(name), converted.message);
    });
  }

  it('that has been converted already stays the same', () => {
    const conflict = new DomainError('conflict', 'conflict');
    assert.equal(toDomainError(conflict), conflict);
  });
});

describe('an error of the system while the files of SQLite are checked', () => {
  for (const code of ['EACCES', 'EIO', 'ELOOP', 'ESTALE']) {
    it(`with the code ${code} becomes unavailable`, () => {
      const error = Object.assign(new Error(`${code}: stat '/srv/users.db'`), { code, syscall: 'stat' });
      const { kind, message, cause } = toDomainError(error);
      assert.deepEqual([kind, message, cause], ['unavailable', 'the store is not available', error]);
    });
  }
});
