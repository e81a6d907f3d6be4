import { DomainError, messageOf } from '../../domain/errors.ts';
import { idsExhausted } from '../../domain/record.ts';

/** Primary result codes (sqlite.org/rescode.html) of a database that is temporarily unusable. */
const unavailableCodes = new Set([
  5, // SQLITE_BUSY: another process kept the lock for longer than the busy timeout
  6, // SQLITE_LOCKED
  7, // SQLITE_NOMEM
  8, // SQLITE_READONLY
  10, // SQLITE_IOERR
  11, // SQLITE_CORRUPT
  13, // SQLITE_FULL
  14, // SQLITE_CANTOPEN
  15, // SQLITE_PROTOCOL: other processes kept the locks of the log for too long
  26, // SQLITE_NOTADB
]);
const busy = 5;
const readOnly = 8;
const ioError = 10;
const full = 13;
const checkConstraint = 275;

/** Converts an error of SQLite, or of the system while it checks the files, into a `DomainError`. */
export function toDomainError(caught: unknown): DomainError {
  if (isIdRejected(caught)) return idsExhausted();
  const isOfSystem = Error.isError(caught) && 'syscall' in caught;
  const isUnavailable = isOfSystem || unavailableCodes.has(primary(resultCode(caught)));
  return isUnavailable ? unavailable(caught) : DomainError.from(caught);
}

/** The failure of a call while the store cannot be used. The cause is for the operator. */
export function unavailable(cause?: unknown): DomainError {
  return new DomainError('unavailable', 'the store is not available', { cause });
}

/** An error with the result code in its message, if a full or broken disk is the cause; else `undefined`. */
export function diskError(caught: unknown): Error | undefined {
  const code = resultCode(caught);
  if (primary(code) !== ioError && primary(code) !== full) return undefined;
  return new Error(`${messageOf(caught)} (code ${code} of SQLite)`, { cause: caught });
}

export function isBusy(caught: unknown): boolean {
  return primary(resultCode(caught)) === busy;
}

/** Whether the connection cannot write, because SQLite could open one of its files only for reading. */
export function isReadOnly(caught: unknown): boolean {
  return primary(resultCode(caught)) === readOnly;
}

/** Whether a new id would be too high. Ids are the only columns with a CHECK. */
export function isIdRejected(caught: unknown): boolean {
  return resultCode(caught) === checkConstraint;
}

/** Whether a foreign key prevents a write. Its result code is no sign: with RESTRICT it is that of a trigger. */
export function isForeignKeyRejected(caught: unknown): boolean {
  return Error.isError(caught) && caught.message === 'FOREIGN KEY constraint failed';
}

function resultCode(caught: unknown): number {
  return Error.isError(caught) && 'errcode' in caught ? Number(caught.errcode) : 0;
}

// An extended code has its primary code in the low byte.
function primary(code: number): number {
  return code & 0xff;
}
