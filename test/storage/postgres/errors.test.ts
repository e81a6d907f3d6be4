import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { DomainError, type ErrorKind } from '../../../src/domain/errors.ts';
import {
  cannotConnect,
  cannotOpen,
  type Fault,
  isRefusal,
  meaningOf,
  sqlState,
} from '../../../src/storage/postgres/errors.ts';

function fromServer(code: string, severity = 'ERROR'): Error {
  return Object.assign(new Error(`message of ${code}`), { code, severity });
}

function fromSystem(code: string, message = `connect ${code}`): Error {
  return Object.assign(new Error(message), { code, syscall: 'connect' });
}

const states: readonly [code: string, fault: Fault, kind: ErrorKind][] = [
  ['08003', 'lost', 'unavailable'], // connection does not exist
  ['08006', 'lost', 'unavailable'], // connection failure
  ['08P01', 'lost', 'unavailable'], // protocol violation
  ['2200H', 'final', 'unavailable'], // sequence limit exceeded
  ['22003', 'final', 'internal'], // number out of range
  ['22021', 'final', 'internal'], // U+0000 in a text
  ['23001', 'final', 'conflict'], // foreign key with RESTRICT
  ['23503', 'final', 'conflict'], // foreign key
  ['23505', 'rolled-back', 'unavailable'], // unique
  ['23514', 'final', 'internal'], // check
  ['25006', 'stale', 'unavailable'], // read-only transaction
  ['25P03', 'lost', 'unavailable'], // idle in transaction for too long
  ['25P04', 'lost', 'deadline-exceeded'], // transaction timeout
  ['26000', 'unprepared', 'unavailable'], // prepared statement does not exist
  ['28P01', 'final', 'internal'], // wrong password
  ['40001', 'rolled-back', 'unavailable'], // serialization failure
  ['40P01', 'rolled-back', 'unavailable'], // deadlock
  ['42501', 'final', 'internal'], // no privilege
  ['42601', 'final', 'internal'], // syntax
  ['42P05', 'unprepared', 'unavailable'], // prepared statement exists
  ['42P01', 'final', 'internal'], // no such table
  ['53100', 'final', 'unavailable'], // disk full
  ['53200', 'final', 'unavailable'], // out of memory
  ['53300', 'final', 'unavailable'], // too many connections
  ['54000', 'final', 'unavailable'], // no transaction id is left
  ['55P03', 'final', 'unavailable'], // lock timeout
  ['57014', 'final', 'deadline-exceeded'], // statement timeout
  ['57P01', 'lost', 'unavailable'], // ended by an administrator
  ['57P02', 'lost', 'unavailable'], // another session crashed
  ['57P03', 'lost', 'unavailable'], // starting up or shutting down
  ['57P04', 'lost', 'unavailable'], // database dropped
  ['57P05', 'stale', 'unavailable'], // idle for too long
  ['58000', 'final', 'unavailable'], // system error
  ['58030', 'final', 'unavailable'], // input or output
  ['58P01', 'final', 'unavailable'], // a file is missing
  ['XX001', 'final', 'unavailable'], // data corrupted
  ['XX002', 'final', 'unavailable'], // index corrupted
  ['XX000', 'final', 'internal'], // bug
];

describe('a PostgreSQL error', () => {
  for (const [code, fault, kind] of states) {
    it(`with the code ${code} becomes ${kind} with the fault ${fault}`, () => {
      const error = fromServer(code);
      assert.equal(meaningOf(error).fault, fault);
      const converted = meaningOf(error).error(error);
      assert.equal(converted.kind, kind);
      assert.doesNotMatch(converted.message, /message of/);
      if (code !== '2200H') assert.equal(converted.cause, error);
    });
  }

  it('of a unique index becomes a conflict, unless the index is that of a primary key', () => {
    for (const [constraint, kind, code = '23505'] of [
      ['users_pkey', 'unavailable'],
      ['users_pkey1', 'unavailable'],
      ['users_name', 'conflict'],
      ['users_check', 'internal', '23514'],
    ] as const) {
      const error = Object.assign(fromServer(code), { constraint });
      assert.equal(meaningOf(error).error(error).kind, kind);
    }
  });

  // Those that PostgreSQL sends as FATAL keep their meaning.
  const fatal: readonly [code: string, fault: Fault, kind: ErrorKind, message: string][] = [
    ['08P01', 'lost', 'unavailable', 'the connection to the database was lost'],
    ['25P03', 'lost', 'unavailable', 'the connection to the database was lost'],
    ['25P04', 'lost', 'deadline-exceeded', 'the database took too long'],
    ['28P01', 'final', 'internal', 'internal error'],
    ['3D000', 'final', 'internal', 'internal error'],
    ['53300', 'final', 'unavailable', 'the database has no capacity left'],
    ['57P01', 'lost', 'unavailable', 'the connection to the database was lost'],
    ['57P02', 'lost', 'unavailable', 'the connection to the database was lost'],
    ['57P03', 'lost', 'unavailable', 'the connection to the database was lost'],
    ['57P05', 'stale', 'unavailable', 'the connection to the database was lost'],
    ['58030', 'final', 'unavailable', 'the database cannot read or write its files'],
    // pgcat and Supavisor
    ['58000', 'final', 'unavailable', 'the database cannot be reached'],
    ['XX000', 'ended', 'unavailable', 'the connection to the database was lost'],
  ];
  for (const [code, fault, kind, message] of fatal) {
    it(`that ends the session with the code ${code} becomes ${kind} with the fault ${fault}`, () => {
      const error = fromServer(code, 'FATAL');
      assert.equal(meaningOf(error).fault, fault);
      const converted = meaningOf(error).error(error);
      assert.deepEqual([converted.kind, converted.message], [kind, message]);
    });
  }

  it('of an attempt to connect is a refusal only if open connections may still work', () => {
    for (const code of ['08P01', '28P01', '42501', '53300', '55000', '58000', 'XX000']) {
      assert.equal(isRefusal(fromServer(code, 'FATAL')), true, code);
    }
    for (const code of ['3D000', '57P01', '57P02', '57P03', '58030', '58P01', 'XX001']) {
      assert.equal(isRefusal(fromServer(code, 'FATAL')), false, code);
    }
  });

  const messages: readonly [code: string, message: string][] = [
    ['08006', 'the connection to the database was lost'],
    ['25006', 'the database takes no writes at present'],
    ['40001', 'too many conflicting changes at once'],
    ['53100', 'the database has no capacity left'],
    ['54000', 'the database has no capacity left'],
    ['55P03', 'another transaction has locked the records to change'],
    ['57014', 'the database took too long'],
    ['58030', 'the database cannot read or write its files'],
    ['XX001', 'the database cannot read or write its files'],
  ];
  for (const [code, message] of messages) {
    it(`with the code ${code} has the message "${message}"`, () => {
      const error = fromServer(code);
      assert.equal(meaningOf(error).error(error).message, message);
    });
  }

  it('of a connection is a lack of capacity only if the server says so', () => {
    const messageOf = (cause: unknown) => cannotConnect(cause).message;
    assert.equal(messageOf(fromServer('53300')), 'the database has no capacity left');
    for (const other of [fromServer('28P01'), fromServer('57P03'), fromSystem('ECONNREFUSED')]) {
      assert.equal(messageOf(other), 'the database cannot be reached');
    }
  });

  it('has a SQLSTATE only if the server sent it', () => {
    assert.equal(sqlState(fromServer('40001')), '40001');
    for (const other of [fromSystem('EPIPE'), fromSystem('ECONNRESET'), new Error('x'), 'EPIPE', undefined]) {
      assert.equal(sqlState(other), undefined);
    }
  });

  it('on a closed connection becomes unavailable with any message of the driver', () => {
    for (const error of [new Error('Connection terminated unexpectedly'), fromSystem('EPIPE'), 'odd']) {
      assert.equal(meaningOf(error, true).error(error).kind, 'unavailable');
      assert.equal(meaningOf(error).error(error).kind, 'internal');
    }
  });

  it('that is a DomainError is not changed', () => {
    const conflict = new DomainError('conflict', 'differs');
    assert.equal(meaningOf(conflict).fault, 'final');
    assert.equal(meaningOf(conflict).error(conflict), conflict);
  });
});

describe('the error of a database that cannot be used', () => {
  const reasons: readonly [cause: unknown, message: string][] = [
    [fromSystem('ECONNREFUSED', 'connect ECONNREFUSED 10.0.0.1:5432'), 'connect ECONNREFUSED 10.0.0.1:5432'],
    [
      new AggregateError([new Error('refused by ::1'), new Error('and 127.0.0.1')]),
      'refused by ::1, and 127.0.0.1',
    ],
    [new Error(), 'Error'],
    ['odd', 'odd'],
  ];
  for (const [cause, message] of reasons) {
    it(`contains the address and "${message}"`, () => {
      const refusal = cannotOpen('db.example:5432', cause);
      assert.equal(refusal.message, `PostgreSQL at db.example:5432 cannot be used: ${message}`);
      assert.equal(refusal.kind, 'unavailable');
    });
  }
});
