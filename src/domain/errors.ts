/** The kinds of errors of the service. The list is closed: both APIs map each kind exactly once. */
export const errorKinds = [
  'invalid',
  'unauthenticated',
  'forbidden',
  'not-found',
  'conflict',
  'gone',
  'precondition-failed',
  'precondition-required',
  'unprocessable',
  'overloaded',
  'unavailable',
  'deadline-exceeded',
  'cancelled',
  'internal',
] as const;

export type ErrorKind = (typeof errorKinds)[number];

/** A failure with a message for clients. The `cause`, and the message of `internal`, are only for the observer. */
export class DomainError extends Error {
  override readonly name = 'DomainError';
  readonly kind: ErrorKind;
  /** Whether a retry cannot succeed, although it may for other errors of this kind. */
  readonly isFinal: boolean;

  constructor(kind: ErrorKind, message: string, options: ErrorOptions & { readonly isFinal?: boolean } = {}) {
    super(message, options);
    // A store in plain JavaScript may misspell a kind, which has no status.
    if (!errorKinds.includes(kind)) throw new TypeError(`${kind} is not one of ${errorKinds.join(', ')}`);
    this.kind = kind;
    this.isFinal = options.isFinal === true;
  }

  /** An unknown error becomes `internal`, as does an `AbortError` of a store while the request was not cancelled. */
  static from(caught: unknown, isCancelled = true): DomainError {
    // `instanceof` alone can throw for a proxy.
    if (Error.isError(caught) && caught instanceof DomainError) return caught;
    if (isCancelled && isNamed(caught, 'AbortError')) {
      return new DomainError('cancelled', 'the request was cancelled', { cause: caught });
    }
    return new DomainError('internal', 'internal error', { cause: caught });
  }
}

/** Where it failed, for operators; `undefined` if the client is the reason. */
export function failureSource<Face extends string>(error: DomainError, face: Face) {
  if (error.kind === 'internal') return face;
  // An overloaded store still answers other requests.
  if (error.kind === 'overloaded') return 'overload';
  // A time limit of a store has a cause, but not the deadline of a client.
  const isLate = error.kind === 'deadline-exceeded' && error.cause !== undefined;
  return isLate || error.kind === 'unavailable' ? 'store' : undefined;
}

/** The message of any caught value. An error for several addresses has no message itself, only one for each address. */
export function messageOf(caught: unknown): string {
  if (caught instanceof AggregateError) return caught.errors.map(messageOf).join(', ');
  return Error.isError(caught) ? caught.message || caught.name : String(caught);
}

/** The error of an invalid value. `culprit` is the field, parameter or header as the client wrote it. */
export function invalid(culprit: string, problem: string): DomainError {
  return new DomainError('invalid', `${culprit} ${problem}`);
}

export function notFound(record: string, id: number, userId?: number): DomainError {
  const owner = userId === undefined ? '' : ` of user ${userId}`;
  return new DomainError('not-found', `${record} ${id}${owner} not found`);
}

export function preconditionFailed(record: string, id: number): DomainError {
  return new DomainError('precondition-failed', `${record} ${id} does not have the expected version`);
}

export function idsExhausted(): DomainError {
  return new DomainError('unavailable', 'no more ids are available', { isFinal: true });
}

/** The failure of a deletion that a foreign key of another table prevents. */
export function stillReferenced(cause: unknown): DomainError {
  return new DomainError('conflict', 'a record of another table refers to it', { cause, isFinal: true });
}

/** The failure of a write that a unique index of the operator prevents. */
export function valueTaken(cause: unknown): DomainError {
  const message = 'another record has a value that must be unique';
  return new DomainError('conflict', message, { cause, isFinal: true });
}

/** The failure of a write that had no effect, although nothing that it refers to is missing. */
export function changePrevented(): DomainError {
  return DomainError.from(new Error('a trigger has prevented the change'));
}

export function keyReused(): DomainError {
  return new DomainError('unprocessable', 'Idempotency-Key was used before, for another request');
}

export function keyInUse(): DomainError {
  return new DomainError('conflict', 'a request with this Idempotency-Key is still running');
}

export function storeClosed(): DomainError {
  return new DomainError('unavailable', 'the store is closed');
}

// Not `instanceof`, which depends on the realm.
function isNamed(caught: unknown, name: string): boolean {
  return Error.isError(caught) && caught.name === name;
}

/** The failure of a call whose signal has aborted: a passed deadline or a cancelled request, by its reason. */
export function aborted({ reason }: AbortSignal): DomainError {
  if (reason instanceof DomainError) return reason;
  return isNamed(reason, 'TimeoutError')
    ? new DomainError('deadline-exceeded', 'the deadline has passed', { cause: reason })
    : new DomainError('cancelled', 'the request was cancelled', { cause: reason });
}

/** Settles as the result does, but rejects at once when the signal, if there is one, aborts. */
export function unlessAborted<T>(result: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return result;
  return new Promise((resolve, reject) => {
    const abort = () => reject(aborted(signal));
    if (signal.aborted) abort();
    else signal.addEventListener('abort', abort);
    result.finally(() => signal.removeEventListener('abort', abort)).then(resolve, reject);
  });
}
