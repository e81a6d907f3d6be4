import { readdirSync, realpathSync, statSync } from 'node:fs';
import { extname, join, relative, sep } from 'node:path';

export interface StaticFile {
  /** The path of its URL, decoded, such as `/index.html` or `/`. */
  readonly urlPath: string;
  readonly plain: KnownFile;
  readonly type: string;
  /** Compressed siblings, such as `app.js.br` beside `app.js`. */
  readonly compressed: Readonly<Record<Coding, KnownFile | undefined>>;
}

/** A path, and which file on the disk it led to at the start. */
export interface KnownFile {
  readonly path: string;
  /** Where the real path must be: the public folder if a part of `path` is a link, otherwise `path` itself. */
  readonly within: string;
  readonly dev: number;
  readonly ino: number;
}

/** The codings of compressed files, the best first. */
export const codings = ['br', 'gzip'] as const;
export type Coding = (typeof codings)[number];

/**
 * Lists the files that a folder serves: regular files, no dot-files, and links that lead to a place inside the folder.
 * Leaves out folders that this user cannot read. Requests can only select these files, never a path outside.
 */
export function listFiles(publicFolder: string): StaticFile[] {
  const folder = realpathSync.native(publicFolder);
  const found = new Map(walk(folder, folder, [folder]).map((file) => [file.path, file]));
  return [...found].flatMap(([path, plain]): StaticFile[] => {
    const compressed = { br: found.get(`${path}.br`), gzip: found.get(`${path}.gz`) };
    const file = { plain, compressed, type: contentType(path) };
    const urlPath = `/${relative(folder, path).split(sep).join('/')}`;
    const withoutIndex = urlPath.replace(/\/index\.html$/, '/');
    return [...new Set([urlPath, withoutIndex])].map((one) => ({ ...file, urlPath: one }));
  });
}

// `parents` are the real paths of the folder and of those above it. A link back to one of them would never end.
function walk(root: string, path: string, parents: readonly string[]): KnownFile[] {
  return readdirSync(path, { withFileTypes: true }).flatMap((entry): KnownFile[] => {
    if (entry.name.startsWith('.')) return [];
    const inner = join(path, entry.name);
    const realPath = entry.isSymbolicLink()
      ? attempt(() => realpathSync.native(inner))
      : join(parents.at(-1) ?? root, entry.name);
    if (realPath === undefined || !isWithin(root, realPath)) return [];
    const stat = statSync(realPath, { throwIfNoEntry: false });
    if (stat?.isFile())
      return [{ path: inner, within: realPath === inner ? inner : root, dev: stat.dev, ino: stat.ino }];
    if (!stat?.isDirectory() || parents.includes(realPath)) return [];
    return attempt(() => walk(root, inner, [...parents, realPath]), unreadableCodes) ?? [];
  });
}

// The errors of a folder that this user cannot read, such as `lost+found`, or that was removed meanwhile.
const unreadableCodes = ['EACCES', 'EPERM', 'ENOENT', 'ENOTDIR'];

/** Returns `undefined` if `read` fails with one of `codes`. Without `codes`, as for links, it may be any error. */
function attempt<T>(read: () => T, codes?: readonly string[]): T | undefined {
  try {
    return read();
  } catch (caught) {
    if (codes?.includes(Object(caught).code) ?? true) return undefined;
    throw caught;
  }
}

/** Whether a path without links is in a folder, or is that folder. */
export function isWithin(folder: string, path: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
}

// biome-ignore format: one line for each type is too long to read.
const types: Readonly<Record<string, string>> = {
  '.avif': 'image/avif', '.css': 'text/css; charset=utf-8', '.csv': 'text/csv; charset=utf-8',
  '.gif': 'image/gif', '.htm': 'text/html; charset=utf-8', '.html': 'text/html; charset=utf-8',
  '.ico': 'image/x-icon', '.jpeg': 'image/jpeg', '.jpg': 'image/jpeg', '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json; charset=utf-8', '.map': 'application/json; charset=utf-8',
  '.md': 'text/markdown; charset=utf-8', '.mjs': 'text/javascript; charset=utf-8', '.mp3': 'audio/mpeg',
  '.mp4': 'video/mp4', '.ogg': 'audio/ogg', '.otf': 'font/otf', '.pdf': 'application/pdf', '.png': 'image/png',
  '.proto': 'text/plain; charset=utf-8', '.svg': 'image/svg+xml', '.ttf': 'font/ttf',
  '.txt': 'text/plain; charset=utf-8', '.wasm': 'application/wasm', '.wav': 'audio/wav', '.webm': 'video/webm',
  '.webmanifest': 'application/manifest+json', '.webp': 'image/webp', '.woff': 'font/woff',
  '.woff2': 'font/woff2', '.xml': 'application/xml; charset=utf-8', '.yaml': 'application/yaml',
  '.yml': 'application/yaml', '.zip': 'application/zip',
};

/** The media type of a file by its name. Browsers do not run a file of an unknown type. */
export function contentType(fileName: string): string {
  return types[extname(fileName).toLowerCase()] ?? 'application/octet-stream';
}
