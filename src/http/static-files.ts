import { readdirSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { extname, join } from 'node:path';
import type { Headers } from './reply.ts';
import type { Pattern } from './router.ts';

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
export interface KnownFile {
  readonly path: string;
  readonly dev: number;
  readonly ino: number;
}

export type Coding = keyof typeof suffixes;

const suffixes = { br: '.br', gzip: '.gz' } as const;
const codings = ['br', 'gzip'] as const;
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

/** The media type of a file by its name. What is not known is bytes, which no browser runs. */
export function contentType(fileName: string): string {
  return types[extname(fileName).toLowerCase()] ?? 'application/octet-stream';
}

const metaPattern = /<meta http-equiv="Content-Security-Policy" content="([^"]+)">/i;

/**
 * The policy that a page states in its head as a header: only there may it say who may frame the page, which
 * is nobody. None for a page that states none.
 */
export function pagePolicy(path: string): Headers {
  const [, policy] = metaPattern.exec(readFileSync(path, 'utf8')) ?? [];
  return policy === undefined ? {} : { 'content-security-policy': `${policy}; frame-ancestors 'none'` };
}
