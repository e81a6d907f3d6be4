import { constants, readdirSync, realpathSync, type Stats, statSync } from 'node:fs';
import { type FileHandle, open, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { chooseEncoding } from './accept-encoding.ts';
import { evaluateConditions, isSameVersion, type Validators } from './conditional.ts';
import { contentType } from './content-type.ts';
import { FileStream, readFully } from './file-stream.ts';
import { HttpError, noSuchResource } from './http-error.ts';
import type { Pattern } from './pattern.ts';
import { type ByteRange, parseRange } from './range.ts';
import type { Headers, Reply } from './reply.ts';
import type { HttpRequest } from './request.ts';

/** A file that may be asked for, found when the service started. */
export interface StaticFile {
  readonly pattern: Pattern;
  readonly plain: KnownFile;
  readonly type: string;
  /** Compressed siblings, best first: `app.js.br` beside `app.js`. */
  readonly encodings: readonly Coding[];
  readonly compressed: Readonly<Partial<Record<Coding, KnownFile>>>;
}

/** A file as the walk found it: its path without links, and which file on the disk that was. */
interface KnownFile {
  readonly path: string;
  readonly dev: number;
  readonly ino: number;
}

interface OpenedFile {
  readonly handle: FileHandle;
  /** Size and times of the opened file, whatever its name stands for by now. */
  readonly stat: Stats;
}

type Coding = keyof typeof suffixes;

const suffixes = { br: '.br', gzip: '.gz' } as const;
const codings = ['br', 'gzip'] as const;
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

/**
 * Walks a folder once into the list of files it serves: regular files, no links, no dot-files.
 * A request can only ever name one of these, so no spelling of a path leads out of the folder.
 */
export function listFiles(publicFolder: string): StaticFile[] {
  const folder = realpathSync(publicFolder);
  const paths = walk(folder, []);
  const known = new Set(paths.map((path) => path.join('/')));
  return paths.flatMap((path): StaticFile[] => {
    const name = path.join('/');
    const encodings = codings.filter((coding) => known.has(name + suffixes[coding]));
    const plain = identify(join(folder, ...path));
    const siblings = encodings.map((coding) => [coding, identify(plain.path + suffixes[coding])]);
    const file = { plain, type: contentType(name), encodings, compressed: Object.fromEntries(siblings) };
    const index = path.at(-1) === 'index.html' ? [[...path.slice(0, -1), '']] : [];
    return [path, ...index].map((segments) => ({ ...file, pattern: pattern(segments) }));
  });
}

function identify(path: string): KnownFile {
  const { dev, ino } = statSync(path);
  return { path, dev, ino };
}

// Step by step, since Node's own recursive walk follows links to folders.
function walk(folder: string, path: readonly string[]): string[][] {
  return readdirSync(join(folder, ...path), { withFileTypes: true }).flatMap((entry): string[][] => {
    const inner = [...path, entry.name];
    if (entry.name.startsWith('.')) return [];
    if (entry.isDirectory()) return walk(folder, inner);
    return entry.isFile() ? [inner] : [];
  });
}

function pattern(path: readonly string[]): Pattern {
  const segments = path.map((literal) => ({ literal }));
  return { method: 'GET', segments, template: `/${path.join('/')}` };
}

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
      'x-content-type-options': 'nosniff',
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
        ? { chunks: new FileStream(handle, bytes), length }
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
async function openFile(known: KnownFile): Promise<OpenedFile | undefined> {
  let handle: FileHandle | undefined;
  try {
    handle = await open(known.path, openFlags);
    const stat = await handle.stat();
    const same = stat.ino === known.ino && stat.dev === known.dev;
    // The flags look at the last name alone: a folder before it may have become a link.
    if (stat.isFile() && (same || (await realpath(known.path)) === known.path)) return { handle, stat };
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
