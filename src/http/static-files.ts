import { readdirSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { extname, join, sep } from 'node:path';
import type { Headers } from './reply.ts';
import type { Pattern } from './router.ts';

/** A file that can be requested, found when the service started. */
export interface StaticFile {
  readonly pattern: Pattern;
  readonly plain: KnownFile;
  readonly type: string;
  /** Compressed siblings, best first: `app.js.br` beside `app.js`. */
  readonly encodings: readonly Coding[];
  readonly compressed: Readonly<Partial<Record<Coding, KnownFile>>>;
}

/** A file as the walk found it, and which file on the disk that was. */
export interface KnownFile {
  readonly path: string;
  /** The folder that the path must not leave; set if a part of it is a link. */
  readonly within?: string;
  readonly dev: number;
  readonly ino: number;
}

export type Coding = keyof typeof suffixes;

const suffixes = { br: '.br', gzip: '.gz' } as const;
const codings = ['br', 'gzip'] as const;

/**
 * Walks a folder once into the list of files it serves: regular files, no dot-files, and only links that
 * stay inside it. A request can only name one of these, so no spelling of a path leads out of the folder.
 */
export function listFiles(publicFolder: string): StaticFile[] {
  const folder = realpathSync(publicFolder);
  const found = new Map(walk(folder, folder, [], []).map((known) => [known.path.join('/'), known]));
  const identify = (name: string): KnownFile => {
    const path = join(folder, name);
    const { dev, ino } = statSync(path);
    return { path, dev, ino, ...(found.get(name)?.linked === true && { within: folder }) };
  };
  return [...found].flatMap(([name, { path }]): StaticFile[] => {
    const encodings = codings.filter((coding) => found.has(name + suffixes[coding]));
    const compressed = Object.fromEntries(
      encodings.map((coding) => [coding, identify(name + suffixes[coding])]),
    );
    const file = { plain: identify(name), type: contentType(name), encodings, compressed };
    const index = path.at(-1) === 'index.html' ? [[...path.slice(0, -1), '']] : [];
    return [path, ...index].map((segments) => ({ ...file, pattern: pattern(segments) }));
  });
}

interface Found {
  readonly path: readonly string[];
  readonly linked: boolean;
}

// Step by step, since Node's own recursive walk follows any link. `real` is the folder without links,
// and `above` are those around it: a link back to one of them would never end.
function walk(folder: string, real: string, path: readonly string[], above: readonly string[]): Found[] {
  const linkedHere = real !== join(folder, ...path);
  return readdirSync(real, { withFileTypes: true }).flatMap((entry): Found[] => {
    if (entry.name.startsWith('.')) return [];
    const inner = [...path, entry.name];
    const link = entry.isSymbolicLink();
    const target = link ? resolveLink(join(real, entry.name), folder) : join(real, entry.name);
    if (target === undefined) return [];
    const kind = link ? statSync(target) : entry;
    if (kind.isFile()) return [{ path: inner, linked: link || linkedHere }];
    if (!kind.isDirectory() || target === real || above.includes(target)) return [];
    return walk(folder, target, inner, [...above, real]);
  });
}

/** Where a link leads; `undefined` if it leads nowhere or out of the folder. */
function resolveLink(link: string, folder: string): string | undefined {
  try {
    const target = realpathSync(link);
    return isWithin(folder, target) ? target : undefined;
  } catch {
    return undefined;
  }
}

/** Whether a path without links lies in a folder, or is that folder. */
export function isWithin(folder: string, path: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
}

function pattern(path: readonly string[]): Pattern {
  const segments = path.map((literal) => ({ literal }));
  return { method: 'GET', segments, template: `/${path.join('/')}` };
}

const types: Readonly<Record<string, string>> = {
  '.avif': 'image/avif',
  '.css': 'text/css; charset=utf-8',
  '.csv': 'text/csv; charset=utf-8',
  '.gif': 'image/gif',
  '.htm': 'text/html; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.ico': 'image/x-icon',
  '.jpeg': 'image/jpeg',
  '.jpg': 'image/jpeg',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.map': 'application/json; charset=utf-8',
  '.md': 'text/markdown; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.mp3': 'audio/mpeg',
  '.mp4': 'video/mp4',
  '.ogg': 'audio/ogg',
  '.otf': 'font/otf',
  '.pdf': 'application/pdf',
  '.png': 'image/png',
  '.proto': 'text/plain; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.ttf': 'font/ttf',
  '.txt': 'text/plain; charset=utf-8',
  '.wasm': 'application/wasm',
  '.wav': 'audio/wav',
  '.webm': 'video/webm',
  '.webmanifest': 'application/manifest+json',
  '.webp': 'image/webp',
  '.woff': 'font/woff',
  '.woff2': 'font/woff2',
  '.xml': 'application/xml; charset=utf-8',
  '.yaml': 'application/yaml',
  '.yml': 'application/yaml',
  '.zip': 'application/zip',
};

/** The media type of a file by its name; an unknown one is bytes, which no browser runs. */
export function contentType(fileName: string): string {
  return types[extname(fileName).toLowerCase()] ?? 'application/octet-stream';
}

const metaPattern = /<meta http-equiv="Content-Security-Policy" content="([^"]+)">/i;

/**
 * The policy that a page states in its head, as a header, which alone can say that no page may frame it.
 * None for a page that states none.
 */
export function pagePolicy(path: string): Headers {
  const [, policy] = metaPattern.exec(readFileSync(path, 'utf8')) ?? [];
  return policy === undefined ? {} : { 'content-security-policy': `${policy}; frame-ancestors 'none'` };
}
