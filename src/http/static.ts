import { constants, readdirSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { chooseEncoding } from './accept-encoding.ts';
import { isNotModified } from './conditional.ts';
import { contentType } from './content-type.ts';
import { HttpError } from './http-error.ts';
import type { Pattern } from './pattern.ts';
import { type ByteRange, parseRange } from './range.ts';
import type { Headers, Reply } from './reply.ts';
import type { HttpRequest } from './request.ts';

/** A file that may be asked for, found when the service started. */
export interface StaticFile {
  readonly pattern: Pattern;
  readonly path: string;
  readonly type: string;
  /** Compressed siblings, best first: `app.js.br` beside `app.js`. */
  readonly encodings: readonly Coding[];
}

type Coding = 'br' | 'gzip';

const siblings: readonly (readonly [coding: Coding, suffix: string])[] = [
  ['br', '.br'],
  ['gzip', '.gz'],
];
// What took the file's place since the start may be a link out of the folder, or a FIFO without a
// writer, on which a plain open would wait for ever.
const openFlags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
// A file no longer than this is read at once: one read instead of a stream's four hops.
const wholeFileBytes = 64 * 1024;
const chunkBytes = 64 * 1024;

/**
 * Walks a folder once into the list of files it serves: regular files, no links, no dot-files.
 * A request can only ever name one of these, so no spelling of a path leads out of the folder.
 */
export function listFiles(folder: string): StaticFile[] {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  const names = entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + (folder.endsWith(sep) ? 0 : 1)));
  const known = new Set(names);
  return names
    .map((name) => ({ name, segments: name.split(sep) }))
    .filter(({ segments }) => !segments.some((segment) => segment.startsWith('.')))
    .flatMap(({ name, segments }): StaticFile[] => {
      const encodings = siblings.filter(([, suffix]) => known.has(name + suffix)).map(([coding]) => coding);
      const file = { path: join(folder, name), type: contentType(name), encodings };
      const index = segments.at(-1) === 'index.html' ? [[...segments.slice(0, -1), '']] : [];
      return [segments, ...index].map((path) => ({ ...file, pattern: pattern(path) }));
    });
}

function pattern(path: readonly string[]): Pattern {
  const segments = path.map((literal) => ({ literal }));
  return { method: 'GET', segments, template: `/${path.join('/')}` };
}

/** Answers a request for a file: conditional, whole or one range, compressed where accepted. */
export async function serveFile(file: StaticFile, request: HttpRequest): Promise<Reply> {
  const coding = chooseEncoding(request.header('accept-encoding'), file.encodings);
  const suffix = siblings.find(([known]) => known === coding)?.[1] ?? '';
  const handle = await openFile(file.path + suffix);
  let streaming = false;
  try {
    // Size and times are those of the opened file, whatever the name stands for by now.
    const stat = await handle.stat();
    if (!stat.isFile()) throw gone();
    const tag = `${stat.size.toString(36)}-${Math.trunc(stat.mtimeMs).toString(36)}${suffix}`;
    const headers: Headers = {
      etag: `"${tag}"`,
      'last-modified': stat.mtime.toUTCString(),
      'cache-control': 'no-cache',
      'x-content-type-options': 'nosniff',
      ...(file.encodings.length > 0 && { vary: 'accept-encoding' }),
    };
    if (isFresh(request, tag, stat.mtimeMs)) return { status: 304, headers };

    const range = parseRange(rangeHeader(request, tag, stat.mtime), stat.size);
    if (range === 'unsatisfiable') {
      throw new HttpError(416, 'the range lies outside the file', {
        'content-range': `bytes */${stat.size}`,
      });
    }
    const bytes = range ?? { start: 0, end: stat.size - 1 };
    const length = bytes.end - bytes.start + 1;
    const entity: Headers = {
      ...headers,
      'content-type': file.type,
      'accept-ranges': 'bytes',
      ...(coding && { 'content-encoding': coding }),
      ...(range && { 'content-range': `bytes ${range.start}-${range.end}/${stat.size}` }),
    };
    const status = range === undefined ? 200 : 206;
    if (length <= wholeFileBytes)
      return { status, headers: entity, body: await readWhole(handle, bytes.start, length) };
    streaming = true;
    return { status, headers: entity, body: { chunks: readChunks(handle, bytes), length } };
  } finally {
    if (!streaming) await handle.close();
  }
}

async function openFile(path: string): Promise<FileHandle> {
  try {
    return await open(path, openFlags);
  } catch (error) {
    // Whatever came in its place, a file that cannot be opened as one is no longer a resource.
    throw gone(error);
  }
}

function gone(cause?: unknown): HttpError {
  return new HttpError(404, 'no such resource', {}, { cause });
}

function isFresh(request: HttpRequest, tag: string, modifiedMs: number): boolean {
  const ifNoneMatch = request.header('if-none-match');
  if (ifNoneMatch !== undefined) return isNotModified(ifNoneMatch, tag);
  const since = Date.parse(request.header('if-modified-since') ?? '');
  return Math.trunc(modifiedMs / 1000) * 1000 <= since;
}

// RFC 9110, 13.1.5: a range of a file that has changed since is answered with the whole.
function rangeHeader(request: HttpRequest, tag: string, modified: Date): string | undefined {
  const ifRange = request.header('if-range');
  const same = ifRange === undefined || ifRange === `"${tag}"` || ifRange === modified.toUTCString();
  return same ? request.header('range') : undefined;
}

async function readWhole(handle: FileHandle, start: number, length: number): Promise<Uint8Array> {
  const { buffer, bytesRead } = await handle.read(Buffer.allocUnsafe(length), 0, length, start);
  if (bytesRead < length) throw new Error('the file became shorter while it was read');
  return buffer;
}

async function* readChunks(handle: FileHandle, range: ByteRange): AsyncGenerator<Uint8Array> {
  try {
    for (let position = range.start; position <= range.end; ) {
      const length = Math.min(chunkBytes, range.end - position + 1);
      // A buffer of its own for each chunk: the one before may still wait for the socket.
      const chunk = await readWhole(handle, position, length);
      position += chunk.length;
      yield chunk;
    }
  } finally {
    await handle.close();
  }
}
