/**
 * Writes generated/ from proto/; with --check it only tells which committed files differ.
 *
 * The compiler is the one of grpc-tools, whose install script downloads it and so fails behind a closed
 * network. allowScripts in package.json keeps it from `npm ci`; it is run here. Tools found elsewhere:
 *
 *   PROTOC           protoc 3.19, as in grpc-tools; another one may write other files
 *   PROTOC_GEN_JS    protoc-gen-js; only for protoc 3.21 and later, which no longer write JavaScript
 *   PROTOC_GEN_GRPC  grpc_node_plugin
 *   PROTOC_GEN_TS    protoc-gen-ts of ts-protoc-gen
 */
import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const generated = join(root, 'generated');
const grpcTools = join(root, 'node_modules', 'grpc-tools');
const windows = process.platform === 'win32';

try {
  const out = mkdtempSync(join(tmpdir(), 'generate-'));
  try {
    generate(findTools(), out);
    if (process.argv.includes('--check')) check(out);
    else replace(out);
  } finally {
    rmSync(out, { recursive: true });
  }
} catch (error) {
  console.error(`generate: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
}

function findTools(): { protoc: string; plugins: string[] } {
  const compiler = join(grpcTools, 'bin', windows ? 'protoc.exe' : 'protoc');
  const grpc = join(grpcTools, 'bin', windows ? 'grpc_node_plugin.exe' : 'grpc_node_plugin');
  const ts = join(root, 'node_modules', '.bin', windows ? 'protoc-gen-ts.cmd' : 'protoc-gen-ts');
  const { PROTOC, PROTOC_GEN_JS, PROTOC_GEN_GRPC } = process.env;
  if ((!PROTOC && !existsSync(compiler)) || (!PROTOC_GEN_GRPC && !existsSync(grpc))) fetchCompiler();
  return {
    protoc: locate('PROTOC', compiler),
    plugins: [
      ...(PROTOC_GEN_JS ? [`--plugin=protoc-gen-js=${locate('PROTOC_GEN_JS', PROTOC_GEN_JS)}`] : []),
      `--plugin=protoc-gen-grpc=${locate('PROTOC_GEN_GRPC', grpc)}`,
      `--plugin=protoc-gen-ts=${locate('PROTOC_GEN_TS', ts)}`,
    ],
  };
}

function locate(variable: string, installed: string): string {
  const path = resolve(process.env[variable] || installed);
  if (existsSync(path)) return path;
  throw new Error(`${path} is missing: set ${variable} to the path of another one`);
}

function fetchCompiler(): void {
  if (!existsSync(grpcTools)) throw new Error('grpc-tools is not installed: run npm ci');
  console.error('generate: grpc-tools has no compiler yet: running its install script, which downloads it');
  spawnSync('npm run install', { cwd: grpcTools, shell: true, stdio: ['ignore', 'ignore', 'inherit'] });
}

function generate({ protoc, plugins }: ReturnType<typeof findTools>, out: string): void {
  run(protoc, [
    ...plugins,
    '-Iproto',
    // Strict, because the plain style hangs every message on a global `proto`.
    `--js_out=import_style=commonjs_strict,binary:${out}`,
    `--grpc_out=grpc_js:${out}`,
    `--ts_out=service=grpc-node,mode=grpc-js:${out}`,
    'users.proto',
  ]);
  // What reflection serves. The descriptors that proto-loader would make at run time are wrong for map
  // fields, and grpc.health.v1 has one.
  run(protoc, [
    '-Iproto',
    '-Igrpc=node_modules/grpc-health-check/proto',
    '--include_imports',
    `--descriptor_set_out=${join(out, 'descriptors.binpb')}`,
    'users.proto',
    'grpc/health/v1/health.proto',
  ]);
  const types = join(out, 'users_pb.d.ts');
  writeFileSync(types, `// GENERATED CODE -- DO NOT EDIT!\n\n${readFileSync(types, 'utf8')}`);
  writeFileSync(join(out, 'package.json'), '{ "type": "commonjs" }\n');
}

function run(protoc: string, args: readonly string[]): void {
  const { status, stderr, error } = spawnSync(protoc, args, { cwd: root, encoding: 'utf8' });
  if (error) throw error;
  if (status === 0) return;
  const hint = stderr.includes('protoc-gen-js:') ? '\nThis protoc needs PROTOC_GEN_JS' : '';
  throw new Error(`protoc failed\n${stderr.trim()}${hint}`);
}

function check(out: string): void {
  const names = new Set([...readdirSync(out), ...(existsSync(generated) ? readdirSync(generated) : [])]);
  const read = (folder: string, name: string) =>
    existsSync(join(folder, name)) ? readFileSync(join(folder, name), 'base64') : undefined;
  const stale = [...names].filter((name) => read(out, name) !== read(generated, name)).sort();
  if (stale.length > 0) throw new Error(`run npm run generate; not up to date: ${stale.join(', ')}`);
}

function replace(out: string): void {
  rmSync(generated, { recursive: true, force: true });
  mkdirSync(generated);
  cpSync(out, generated, { recursive: true });
}
