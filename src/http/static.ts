import { constants, type Stats } from 'node:fs';
import { type FileHandle, open, realpath } from 'node:fs/promises';
import {
  type ByteRange,
  chooseEncoding,
  evaluateConditions,
  isSameVersion,
  parseRange,
  type Validators,
} from './conditional.ts';
import { type ByteStream, type Headers, HttpError, noSuchResource, type Reply } from './reply.ts';
import type { HttpRequest } from './request.ts';
import { type Coding, isWithin, type KnownFile, type StaticFile } from './static-files.ts';

interface OpenedFile {
  readonly handle: FileHandle;
  /** Size and times of the opened file, whatever its name stands for by now. */
  readonly stat: Stats;
}

// What took the file's place since the start may be a link out of the folder, or a FIFO without a
// writer, on which a plain open would wait for ever.
const openFlags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
// How an open fails when what it names is no longer a file to be read. Any other failure is ours.
const goneCodes: ReadonlySet<string> = new Set([
  'ENOENT',
  'ENOTDIR',
  'EISDIR',
  'ELOOP',
  'ENXIO',
  'EACCES',
  'EPERM',
]);
const busyCodes: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE']);
// A file no longer than this is read at once: one read instead of a stream's four hops.
const wholeFileBytes = 64 * 1024;

/** Answers a request for a file: conditional, whole or one range, compressed where accepted. */
export async function serveFile(file: StaticFile, request: HttpRequest): Promise<Reply> {
  const { handle, stat, coding } = await openAccepted(file, request.header('accept-encoding'));
  let streaming = false;
  try {
    const validators = { tag: entityTag(stat, coding), modified: stat.mtime };
    const headers: Headers = {
      etag: `"${validators.tag}"`,
      'last-modified': stat.mtime.toUTCString(),
      'cache-control': 'no-cache',
      ...(file.encodings.length > 0 && { vary: 'accept-encoding' }),
    };
    const outcome = evaluateConditions(request, validators);
    if (outcome === 'failed') throw new HttpError(412, 'the file is not the expected one');
    if (outcome === 'not-modified') return { status: 304, headers };

    const range = requestedRange(request, validators, stat.size);
    const bytes = range ?? { start: 0, end: stat.size - 1 };
    const length = bytes.end - bytes.start + 1;
    streaming = length > wholeFileBytes;
    return {
      status: range === undefined ? 200 : 206,
      headers: {
        ...headers,
        'content-type': file.type,
        'accept-ranges': 'bytes',
        ...(coding && { 'content-encoding': coding }),
        ...(range && { 'content-range': `bytes ${range.start}-${range.end}/${stat.size}` }),
      },
      body: streaming
        ? new FileStream(handle, bytes)
        : await readFully(handle, bytes.start, Buffer.allocUnsafe(length)),
    };
  } finally {
    if (!streaming) await handle.close();
  }
}

async function openAccepted(
  file: StaticFile,
  acceptEncoding: string | undefined,
): Promise<OpenedFile & { readonly coding: Coding | undefined }> {
  const coding = chooseEncoding(acceptEncoding, file.encodings);
  const sibling = coding && file.compressed[coding];
  const compressed = sibling && (await openFile(sibling));
  if (compressed !== undefined) return { ...compressed, coding };
  const plain = await openFile(file.plain);
  if (plain === undefined) throw noSuchResource();
  return { ...plain, coding: undefined };
}

/** `undefined` when what stands at the path now is no file of the folder. */
async function openFile({ path, within, dev, ino }: KnownFile): Promise<OpenedFile | undefined> {
  let handle: FileHandle | undefined;
  try {
    // A link may lead elsewhere by now: Kubernetes replaces what its links lead to on each change.
    const target = within === undefined ? path : await realpath(path);
    if (within !== undefined && !isWithin(within, target)) return undefined;
    handle = await open(target, openFlags);
    const stat = await handle.stat();
    const same = stat.ino === ino && stat.dev === dev;
    // The flags look at the last name alone: a folder before it may have become a link.
    if (stat.isFile() && (same || (await realpath(target)) === target)) return { handle, stat };
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    if (busyCodes.has(code)) {
      throw new HttpError(503, 'too many files are open', { 'retry-after': '1' }, { cause: error });
    }
    if (!goneCodes.has(code)) {
      await handle?.close();
      throw error;
    }
  }
  await handle?.close();
  return undefined;
}

// To the microsecond, as far as a number holds it: a file replaced within its second is another one.
function entityTag({ size, mtimeMs }: Stats, coding: Coding | undefined): string {
  const version = `${size.toString(36)}-${Math.trunc(mtimeMs * 1000).toString(36)}`;
  return coding === undefined ? version : `${version}-${coding}`;
}

// RFC 9110, 14.2: a range is for GET alone.
function requestedRange(request: HttpRequest, validators: Validators, size: number): ByteRange | undefined {
  if (request.method !== 'GET' || !isSameVersion(request.header('if-range'), validators)) return undefined;
  const range = parseRange(request.header('range'), size);
  if (range === 'unsatisfiable') {
    throw new HttpError(416, 'the range lies outside the file', { 'content-range': `bytes */${size}` });
  }
  return range;
}

const chunkBytes = 64 * 1024;

/**
 * A range of an open file, chunk by chunk. It owns the handle, and closes it at the end, on a failure,
 * or when it is returned early: a generator would not, were it never begun.
 */
class FileStream implements ByteStream, AsyncIterableIterator<Uint8Array> {
  readonly chunks = this;
  readonly length: number;
  readonly #handle: FileHandle;
  readonly #end: number;
  #position: number;
  // Memory for the next chunk, once the one before it has left.
  #free: Uint8Array | undefined;

  constructor(handle: FileHandle, { start, end }: ByteRange) {
    this.#handle = handle;
    this.#position = start;
    this.#end = end;
    this.length = end - start + 1;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<Uint8Array>> {
    if (this.#position > this.#end) return await this.return();
    const length = Math.min(chunkBytes, this.#end - this.#position + 1);
    const memory = this.#free ?? Buffer.allocUnsafe(length);
    this.#free = undefined;
    try {
      const value = await readFully(this.#handle, this.#position, memory.subarray(0, length));
      this.#position += length;
      return { done: false, value };
    } catch (error) {
      await this.return();
      throw error;
    }
  }

  readonly release = (chunk: string | Uint8Array): void => {
    if (typeof chunk === 'object') this.#free = chunk;
  };

  async return(): Promise<IteratorReturnResult<undefined>> {
    this.#position = Number.POSITIVE_INFINITY;
    await this.#handle.close();
    return { done: true, value: undefined };
  }
}

/** Fills a buffer. Fails when the file has become shorter, because its length is already in the head. */
async function readFully(handle: FileHandle, start: number, buffer: Uint8Array): Promise<Uint8Array> {
  const { bytesRead } = await handle.read(buffer, 0, buffer.length, start);
  if (bytesRead < buffer.length) throw new Error('the file became shorter while it was read');
  return buffer;
}
