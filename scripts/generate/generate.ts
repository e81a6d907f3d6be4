/**
 * Writes generated/ from proto/. With --check it only lists the committed files that differ.
 *
 * grpc-tools downloads its compiler in an install script, from a host that is not a package registry. It has a
 * lock file in this folder, which is installed here when a tool is missing, so that `npm ci` in the root works
 * behind a closed network. To use other tools, set:
 *
 *   PROTOC           protoc 3.19, as in grpc-tools; another version may write other files
 *   PROTOC_GEN_JS    protoc-gen-js; only for protoc 3.21 and later, which no longer write JavaScript
 *   PROTOC_GEN_GRPC  grpc_node_plugin
 *   PROTOC_GEN_TS    protoc-gen-ts of ts-protoc-gen
 */
import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readArguments } from '../harness/arguments.ts';

const { check: isCheck } = readArguments({ check: false });
const root = fileURLToPath(new URL('../..', import.meta.url));
const generated = join(root, 'generated');
const modules = fileURLToPath(new URL('node_modules', import.meta.url));
const windows = process.platform === 'win32';
const stubs = ['users_pb.js', 'users_pb.d.ts', 'users_grpc_pb.js', 'users_grpc_pb.d.ts'];
const descriptors = 'descriptors.binpb';

try {
  const out = mkdtempSync(join(tmpdir(), 'generate-'));
  try {
    generate(findTools(), out);
    if (isCheck) check(out);
    else replace(out);
  } finally {
    rmSync(out, { recursive: true });
  }
} catch (error) {
  console.error(`generate: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
}

function findTools(): { protoc: string; plugins: string[] } {
  const compiler = join(modules, 'grpc-tools', 'bin', windows ? 'protoc.exe' : 'protoc');
  const grpc = join(modules, 'grpc-tools', 'bin', windows ? 'grpc_node_plugin.exe' : 'grpc_node_plugin');
  const ts = join(modules, '.bin', windows ? 'protoc-gen-ts.cmd' : 'protoc-gen-ts');
  const { PROTOC, PROTOC_GEN_JS, PROTOC_GEN_GRPC, PROTOC_GEN_TS } = process.env;
  const needsCompiler = (!PROTOC && !existsSync(compiler)) || (!PROTOC_GEN_GRPC && !existsSync(grpc));
  if (needsCompiler || (!PROTOC_GEN_TS && !existsSync(ts))) installTools(needsCompiler);
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

function installTools(needsCompiler: boolean): void {
  console.error('generate: installing the tools in scripts/generate');
  const command = `npm ci --no-audit --no-fund ${needsCompiler ? '' : '--ignore-scripts'}`;
  const cwd = dirname(modules);
  const { status } = spawnSync(command, { cwd, shell: true, stdio: ['ignore', 'ignore', 'inherit'] });
  if (status === 0) return;
  const hint = needsCompiler
    ? ': set PROTOC and PROTOC_GEN_GRPC to a compiler and plugin found elsewhere'
    : '';
  throw new Error(`npm ci failed in scripts/generate${hint}`);
}

function generate({ protoc, plugins }: ReturnType<typeof findTools>, out: string): void {
  run(protoc, [
    ...plugins,
    '-Iproto',
    // Strict, because the other style adds every message to a global `proto`.
    `--js_out=import_style=commonjs_strict,binary:${out}`,
    `--grpc_out=grpc_js:${out}`,
    `--ts_out=service=grpc-node,mode=grpc-js:${out}`,
    'users.proto',
  ]);
  // Reflection serves this file. The descriptors that proto-loader would create at run time are wrong for map
  // fields, and grpc.health.v1 has one.
  run(protoc, [
    '-Iproto',
    '-Igrpc=node_modules/grpc-health-check/proto',
    '--include_imports',
    `--descriptor_set_out=${join(out, descriptors)}`,
    'users.proto',
    'grpc/health/v1/health.proto',
  ]);
  // protoc succeeds even if a plugin wrote no file. The committed file must be kept then.
  const missing = [...stubs, descriptors].filter((name) => !isWritten(join(out, name)));
  if (missing.length > 0)
    throw new Error(`the tools wrote no ${missing.join(', ')}; generated/ is unchanged`);
  const types = join(out, 'users_pb.d.ts');
  writeFileSync(types, `// GENERATED CODE -- DO NOT EDIT!\n\n${readFileSync(types, 'utf8')}`);
  writeFileSync(join(out, 'package.json'), '{ "type": "commonjs" }\n');
}

function isWritten(path: string): boolean {
  return existsSync(path) && statSync(path).size > 0;
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
  cpSync(out, generated, { recursive: true });
  const names = new Set(readdirSync(out));
  for (const name of readdirSync(generated)) if (!names.has(name)) rmSync(join(generated, name));
}
