import type { Origin } from '../domain/change.ts';
import type { DomainError } from '../domain/errors.ts';
import type { RecordName } from '../domain/record.ts';
import {
  type Answer,
  answered,
  type CallOptions,
  type ChangeOptions,
  type Created,
  type CreateOptions,
} from '../domain/repository.ts';
import { isNotModified } from '../http/conditional.ts';
import type { Handler } from '../http/listener.ts';
import { type Headers, json, type Reply } from '../http/reply.ts';
import type { HttpRequest } from '../http/request.ts';
import { idempotencyKey, replayedHeader } from './idempotency.ts';
import { checkIfMatch, expectedVersions } from './preconditions.ts';

const patchTypes = ['application/merge-patch+json', 'application/json'];

/** A kind of record with its own paths, and the functions to find and change a record by the key in its path. */
export interface Resource<Key, Row extends Versioned, Patch> {
  /** The name in messages. */
  readonly name: RecordName;
  readonly parseKey: (request: HttpRequest) => Key;
  readonly notFound: (key: Key) => DomainError;
  readonly get: (key: Key, options: CallOptions) => Answer<Row | undefined>;
  readonly update: (key: Key, patch: Patch, options: ChangeOptions) => Promise<Row | undefined>;
  readonly delete: (key: Key, options: ChangeOptions) => Promise<boolean>;
  /** Parses the body of PUT into a patch that replaces all fields. */
  readonly parseReplacement: (body: unknown, key: Key) => Patch;
  readonly parsePatch: (body: unknown) => Patch;
  /** The public fields of a record. */
  readonly view: (row: Row) => object;
}

export interface Versioned {
  readonly id: number;
  readonly version: number;
}

export interface CollectionHandlers {
  readonly list: Handler;
  readonly create: Handler;
  readonly get: Handler;
  readonly replace: Handler;
  readonly update: Handler;
  readonly delete: Handler;
}

/** The handlers of one record at its path: conditional reads and changes. */
export function resourceHandlers<Key, Row extends Versioned, Patch>(
  resource: Resource<Key, Row, Patch>,
  requirePreconditions: boolean,
): Omit<CollectionHandlers, 'list' | 'create'> {
  const { parseKey, notFound, view } = resource;
  const changeOptions = (request: HttpRequest): ChangeOptions => {
    const expected = expectedVersions(request, requirePreconditions);
    return { origin: originOf(request), ...(expected && { expected }) };
  };
  const change = async (key: Key, patch: Patch, options: ChangeOptions): Promise<Reply> => {
    const row = await resource.update(key, patch, options);
    if (row === undefined) throw notFound(key);
    return recordReply(200, view(row), row.version);
  };
  const show = (request: HttpRequest, key: Key, row: Row | undefined): Reply => {
    if (row === undefined) throw notFound(key);
    if (request.header('if-match') !== undefined) checkIfMatch(request, resource.name, row);
    const seen = request.header('if-none-match');
    if (seen !== undefined && isNotModified(seen, String(row.version))) {
      return { status: 304, headers: { etag: `"${row.version}"`, 'cache-control': 'no-cache' } };
    }
    return recordReply(200, view(row), row.version);
  };
  return {
    get(request) {
      const key = parseKey(request);
      return answered(resource.get(key, request), (row) => show(request, key, row));
    },

    async replace(request) {
      const key = parseKey(request);
      const options = changeOptions(request);
      return change(key, resource.parseReplacement((await request.json()).value, key), options);
    },

    async update(request) {
      const key = parseKey(request);
      const options = changeOptions(request);
      return change(key, resource.parsePatch((await request.json(patchTypes)).value), options);
    },

    async delete(request) {
      const key = parseKey(request);
      if (!(await resource.delete(key, changeOptions(request)))) throw notFound(key);
      return { status: 204 };
    },
  };
}

/** Creates a record in the collection at `path`, once for an Idempotency-Key. */
export async function create<Row extends Versioned>(
  request: HttpRequest,
  path: string,
  draft: object,
  make: (options: CreateOptions) => Promise<Created<Row>>,
  view: (row: Row) => object,
): Promise<Reply> {
  const idempotency = idempotencyKey(request, draft);
  const origin = originOf(request);
  const { value, replayed } = await make({ origin, ...(idempotency && { idempotency }) });
  const location = `${request.basePath}${path}/${value.id}`;
  return recordReply(201, view(value), value.version, { location, ...replayedHeader(replayed) });
}

/** The client of a write, for the feed of changes. */
function originOf({ id, keyName }: HttpRequest): Origin {
  return { requestId: id, ...(keyName !== undefined && { key: keyName }) };
}

/** A reply with one record and the tag of its version. */
function recordReply(status: number, view: object, version: number, headers?: Headers): Reply {
  return json(status, view, { etag: `"${version}"`, ...headers });
}
