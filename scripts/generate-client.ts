/**
 * Writes test/generated/openapi.ts, the types of an HTTP client, from public/openapi.json.
 *
 * The generator is downloaded only by this command, because it needs the compiler of TypeScript 5, which
 * would otherwise be in every checkout. The file contains a digest of its source, which a test compares.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { shapeDigest } from '../test/kit/openapi-shape.ts';
import { readArguments } from './harness/arguments.ts';

readArguments({});

const document = new URL('../public/openapi.json', import.meta.url);
const folder = new URL('../test/generated/', import.meta.url);
const types = new URL('openapi.ts', folder);
const packages = ['openapi-typescript@7.13.0', 'typescript@5.9.3'];

mkdirSync(folder, { recursive: true });
const args = ['exec', '--yes', ...packages.map((name) => `--package=${name}`), '--'];
const { status } = spawnSync(
  'npm',
  [...args, 'openapi-typescript', '../../public/openapi.json', '--output', 'openapi.ts'],
  {
    // Run outside the project, so that the generator does not use the TypeScript of the project.
    cwd: fileURLToPath(folder),
    stdio: ['ignore', 'ignore', 'inherit'],
    shell: process.platform === 'win32',
  },
);
if (status === 0) {
  const digest = shapeDigest(JSON.parse(readFileSync(document, 'utf8')));
  const header = `// GENERATED CODE -- DO NOT EDIT! npm run generate:client\n// shape ${digest}\n`;
  writeFileSync(types, `${header}${shorten(readFileSync(types, 'utf8'))}`);
} else {
  console.error('generate-client: the generator failed');
  process.exitCode = 1;
}

/**
 * Leaves out the comments, which repeat the document, and the methods and parameters that a path or an operation does
 * not have. Writes an object in one line where it fits.
 */
function shorten(source: string): string {
  const comment = /^ *\/\*\*[\s\S]*?\*\/\n/gm;
  let shorter = source.replace(comment, '').replace(/^ *(?!content)\w+\?: never;\n/gm, '');
  let before = '';
  while (shorter !== before) {
    before = shorter;
    shorter = before.replace(/^.*\{\n[^{}]*\}.*$/gm, (object) => {
      const line = object.replace(/\n */g, ' ');
      return line.length > 160 ? object : line;
    });
  }
  return shorter;
}
