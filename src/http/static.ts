import { constants, readFileSync, type Stats, statSync } from 'node:fs';
import { type FileHandle, open, readlink, realpath } from 'node:fs/promises';
import { chooseEncoding, hasVersion, requestedRange, type Validators } from './conditional.ts';
import { free } from './memory-budget.ts';
import { loadCrypto } from './node-http.ts';
import { type Headers, HttpError, isStream, noSuchResource, type Reply } from './reply.ts';
import type { Handler, HttpRequest } from './request.ts';
import { type Coding, codings, isWithin, type KnownFile, type StaticFile } from './static-files.ts';

/** A version of a file, with the headers of its replies. */
interface Version extends Validators {
  readonly stat: Stats;
  /** The bytes of a small file, or the open file. The class of the bytes may not be the global one, as with jsdom. */
  readonly content: Uint8Array | FileHandle;
  readonly headers: Headers;
  readonly contentHeaders: Headers;
}

// The file may have been replaced by a link out of the folder, or by a FIFO, which would never open without a writer.
const openFlags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
// The errors of opening a path that is no longer a readable file. Any other error is an internal failure.
const goneCodes = ['ENOENT', 'ENOTDIR', 'EISDIR', 'ELOOP', 'ENXIO', 'EACCES', 'EPERM'];
const busyCodes = ['EMFILE', 'ENFILE'];
// A file up to this size is read at once, and kept in memory. A longer one is read in chunks of this size.
const chunkBytes = 64 * 1024;
// A file that Yarn reads from an archive is not disposable.
const close = (handle: FileHandle): Promise<void> => handle.close();

/**
 * Creates the handler of a file, with conditional requests, one range, and compression. `extra` are further headers.
 * Keeps a small file, and checks at each request that it is unchanged. All files of a folder share the room in `cache`.
 */
export function fileHandler(file: StaticFile, extra: Headers, cache: { freeBytes: number }): Handler {
  const encodings = codings.filter((coding) => file.compressed[coding] !== undefined);
  const kept = new Map<Coding | undefined, Version>();
  const keep = (coding: Coding | undefined, version: Version): void => {
    cache.freeBytes += kept.get(coding)?.stat.size ?? 0;
    kept.delete(coding);
    const { size } = version.stat;
    if (size > Math.min(chunkBytes, cache.freeBytes) || !isSettled(version.stat, Date.now())) return;
    cache.freeBytes -= size;
    kept.set(coding, version);
  };

  const describe = (stat: Stats, content: Version['content'], coding: Coding | undefined): Version => {
    // RFC 9110, 8.8.2.1: not in the future, even if the clock of the file system is.
    const modified = Math.floor(Math.min(stat.mtimeMs, Date.now()) / 1000) * 1000;
    const tag = entityTag(stat, content, coding);
    const headers: Headers = {
      etag: `"${tag}"`,
      'last-modified': new Date(modified).toUTCString(),
      'cache-control': 'no-cache',
      ...(encodings.length > 0 && { vary: 'accept-encoding' }),
      ...extra,
    };
    const contentHeaders = {
      ...headers,
      'content-type': file.type,
      'accept-ranges': 'bytes',
      ...(coding && { 'content-encoding': coding }),
    };
    return { tag, modified, stat, content, headers, contentHeaders };
  };

  const serveOpened = async (request: HttpRequest, accepted: Coding | undefined): Promise<Reply> => {
    const compressed = accepted && file.compressed[accepted];
    const sibling = compressed && (await openFile(compressed));
    const opened = sibling ?? (await openFile(file.plain));
    if (opened === undefined) throw noSuchResource();
    const { handle, stat } = opened;
    await using closing = new AsyncDisposableStack();
    closing.adopt(handle, close);
    const coding = sibling && accepted;
    const content = stat.size <= chunkBytes ? await readFully(handle, 0, stat.size) : handle;
    const version = describe(stat, content, coding);
    keep(coding, version);
    const reply = toReply(request, version);
    // A stream closes the file at its end, but none is read for HEAD.
    if (isStream(reply.body) && request.method !== 'HEAD') closing.move();
    return reply;
  };

  return (request) => {
    const coding = chooseEncoding(request.header('accept-encoding'), encodings);
    const version = kept.get(coding);
    const known = (coding && file.compressed[coding]) ?? file.plain;
    return version !== undefined && isUnchanged(known, version)
      ? toReply(request, version)
      : serveOpened(request, coding);
  };
}

/** Whether the path still leads to exactly the file that was read. */
function isUnchanged({ path }: KnownFile, { stat }: Version): boolean {
  try {
    const { dev, ino, size, mtimeMs, ctimeMs } = statSync(path);
    const same = dev === stat.dev && ino === stat.ino && size === stat.size;
    return same && mtimeMs === stat.mtimeMs && ctimeMs === stat.ctimeMs;
  } catch {
    return false;
  }
}

function toReply(request: HttpRequest, version: Version): Reply {
  const { tag, stat, content, headers, contentHeaders } = version;
  if (hasVersion(request, version)) return { status: 304, headers };
  const range = requestedRange(request, tag, stat.size);
  const { start, end } = range ?? { start: 0, end: stat.size - 1 };
  const body = ArrayBuffer.isView(content)
    ? content.subarray(start, end + 1)
    : { chunks: readRange(content, start, end), length: end - start + 1, release: free };
  if (range === undefined) return { status: 200, headers: contentHeaders, body };
  const contentRange = `bytes ${start}-${end}/${stat.size}`;
  return { status: 206, headers: { ...contentHeaders, 'content-range': contentRange }, body };
}

/** Opens a file; `undefined` if its path no longer leads to one in the folder. The `stat` is of the opened file. */
async function openFile({ path, within, dev, ino }: KnownFile) {
  await using opened = new AsyncDisposableStack();
  try {
    // A link may have a new target: Kubernetes replaces the targets of its links on each change.
    const target = within === path ? path : await realpath(path);
    if (!isWithin(within, target)) return undefined;
    const handle = opened.adopt(await open(target, openFlags), close);
    const stat = await handle.stat();
    const same = stat.ino === ino && stat.dev === dev;
    if (!stat.isFile() || !(same || (await isOpenedFrom(target, handle)))) return undefined;
    opened.move();
    return { handle, stat };
  } catch (error) {
    const { code } = Object(error);
    if (goneCodes.includes(code)) return undefined;
    if (!busyCodes.includes(code)) throw error;
    throw new HttpError(503, 'too many files are open', undefined, { cause: error });
  }
}

/** Whether the file was opened at this path. `openFlags` do not detect that a folder above it has become a link. */
async function isOpenedFrom(path: string, { fd }: FileHandle): Promise<boolean> {
  // On Linux, /proc has the path of an open file, even after its replacement.
  const opened = await readlink(`/proc/self/fd/${fd}`).catch(() => realpath(path));
  return opened === path || opened === `${path} (deleted)`;
}

/** Whether the next change of a file will show in its time. Some file systems store times in steps of 1 or 2 s. */
export function isSettled({ ctimeMs }: Pick<Stats, 'ctimeMs'>, now: number): boolean {
  return now - ctimeMs >= (ctimeMs % 1_000 === 0 ? 2_000 : 100);
}

// A reproducible build gives all versions of a file the same time, so the tag of a short file is a digest. The tag of a
// long file, which is not in memory, has the time of its last change on this disk, which no build can set.
function entityTag(stat: Stats, content: Version['content'], coding: Coding | undefined): string {
  const version = ArrayBuffer.isView(content)
    ? loadCrypto().hash('sha256', content, 'base64url')
    : `${stat.size.toString(36)}-${Math.trunc(stat.ctimeMs * 1000).toString(36)}`;
  return coding === undefined ? version : `${version}-${coding}`;
}

/** Reads a range of an open file, and then closes it. A reply reads at least one chunk, unless it is for HEAD. */
async function* readRange(handle: FileHandle, start: number, end: number): AsyncGenerator<Uint8Array> {
  try {
    for (let position = start; position <= end; position += chunkBytes)
      yield await readFully(handle, position, Math.min(chunkBytes, end - position + 1));
  } finally {
    await handle.close();
  }
}

/** Fails when the file has become shorter, because its length is already in the head. */
async function readFully(handle: FileHandle, start: number, length: number): Promise<Uint8Array> {
  const { buffer, bytesRead } = await handle.read(Buffer.allocUnsafeSlow(length), 0, length, start);
  if (bytesRead < length) throw new HttpError(503, 'the file changed while it was read');
  return buffer;
}

const metaPattern = /<meta http-equiv="Content-Security-Policy" content="([^"]+)">/i;

/** The Content-Security-Policy of a page as a header, if it has one. Only a header can forbid frames. */
export function pagePolicy(path: string): Headers {
  const [, policy] = metaPattern.exec(readFileSync(path, 'utf8')) ?? [];
  return policy === undefined ? {} : { 'content-security-policy': `${policy}; frame-ancestors 'none'` };
}
