import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { openApi } from '../kit/openapi.ts';
import { send } from '../support/client.ts';
import { startService } from '../support/service.ts';

const version = '7.14.0';
// Generating and compiling three clients takes half a minute, so it runs only on request.
const jar = process.env['OPENAPI_GENERATOR_JAR'];
const root = fileURLToPath(new URL('../..', import.meta.url));
const programs = fileURLToPath(new URL('programs', import.meta.url));

// The tests download nothing. A client is skipped if the machine lacks a tool for it.
const offline = { ...process.env, GOPROXY: 'off', GOSUMDB: 'off', GOFLAGS: '-mod=mod' };

/** Runs a program in a folder, and resolves to its output. */
async function run(cwd: string, command: string, ...args: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(command, args, { cwd, env: offline });
  return stdout;
}

interface Language {
  readonly generator: string;
  /** Fails if the machine lacks a tool that the client needs. */
  readonly probe: (folder: string) => Promise<unknown>;
  /** Compiles the client in `folder/client` and runs the program with it. */
  readonly start: (folder: string, http: string) => Promise<string>;
}

const languages: readonly Language[] = [
  {
    generator: 'typescript-fetch',
    probe: async () => undefined,
    async start(folder, http) {
      cpSync(join(programs, 'users.ts'), join(folder, 'users.ts'));
      writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
      const types = ['--types', 'node', '--typeRoots', join(root, 'node_modules/@types')];
      const flags = ['--strict', '--target', 'es2024', '--module', 'nodenext', '--lib', 'es2024,dom'];
      await run(folder, join(root, 'node_modules/.bin/tsc'), ...flags, ...types, 'users.ts');
      return await run(folder, process.execPath, 'users.js', http);
    },
  },
  {
    generator: 'python',
    probe: (folder) => run(folder, 'python3', '-c', 'import pydantic, urllib3, dateutil'),
    async start(folder, http) {
      cpSync(join(programs, 'users.py'), join(folder, 'client/users.py'));
      return await run(join(folder, 'client'), 'python3', 'users.py', http);
    },
  },
  {
    generator: 'go',
    probe: (folder) => run(folder, 'go', 'mod', 'download', 'gopkg.in/validator.v2@v2.0.1'),
    async start(folder, http) {
      mkdirSync(join(folder, 'client/users'));
      cpSync(join(programs, 'users.go'), join(folder, 'client/users/main.go'));
      return await run(join(folder, 'client'), 'go', 'run', './users', http);
    },
  },
];

async function whyNot({ probe }: Language, folder: string): Promise<string | undefined> {
  if (!jar) return `set OPENAPI_GENERATOR_JAR to the path of openapi-generator-cli-${version}.jar`;
  if (!existsSync(jar)) return `${jar} is missing`;
  const problem = (error: Error) => error.message;
  return await run(folder, 'java', '-version')
    .then(() => probe(folder))
    .then(() => undefined, problem);
}

describe('code generators support each schema', () => {
  // The effect of each form. Without a name, it is that on a client that openapi-generator 7.14 generates.
  const unsupported: Readonly<Record<string, (schema: Record<string, unknown>) => boolean>> = {
    'several types other than null, which become a type of one of them': ({ type }) =>
      Array.isArray(type) && type.filter((name) => name !== 'null').length > 1,
    'additionalProperties: false, which hides null from the fields': (schema) =>
      schema['additionalProperties'] === false,
    'null beside another schema, which loses null': ({ oneOf = [] }) =>
      (oneOf as { type?: string }[]).some(({ type }) => type === 'null'),
    'patterns that Go cannot compile': ({ pattern }) =>
      typeof pattern === 'string' && /\\u|\(\?[=!<]/.test(pattern),
    'parameters with a list, which openapi-fetch and openapi-python-client repeat': ({ explode }) =>
      explode !== undefined,
    'addresses with a slash at the end, which Redocly rejects': ({ url }) => /\/$/.test(String(url)),
  };
  for (const [form, isUsed] of Object.entries(unsupported)) {
    it(`the document does not use ${form}`, () => {
      const found: object[] = [];
      JSON.stringify(openApi, (_, value) => {
        if (typeof value === 'object' && value !== null && isUsed(value)) found.push(value);
        return value;
      });
      assert.deepEqual(found, []);
    });
  }

  it('no schema has the name of a type of a programming language', () => {
    const names = Object.keys(openApi.components.schemas);
    const reserved = names.filter((name) => /^(any|json|list|map|null|object|string)$/i.test(name));
    assert.deepEqual(reserved, []);
  });
});

/** Generates the clients of several languages, each in its own folder, by one process of Java. */
async function generate(folder: string, wanted: readonly Language[]): Promise<void> {
  const configs = wanted.map(({ generator }) => {
    const config = {
      generatorName: generator,
      inputSpec: join(root, 'public/openapi.json'),
      outputDir: join(folder, generator, 'client'),
      additionalProperties: { importFileExtension: '.js' },
    };
    writeFileSync(join(folder, `${generator}.json`), JSON.stringify(config));
    return `${generator}.json`;
  });
  const java = ['-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC', '-jar', String(jar)];
  if (configs.length > 0) await run(folder, 'java', ...java, 'batch', '--fail-fast', ...configs);
}

describe(`a client generated by openapi-generator ${version}`, { concurrency: 1 }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'client-'));
  const reasons = new Map<Language, string>();
  before(async () => {
    for (const language of languages) {
      const reason = await whyNot(language, folder);
      if (reason !== undefined) reasons.set(language, reason);
      mkdirSync(join(folder, language.generator));
    }
    await generate(
      folder,
      languages.filter((language) => !reasons.has(language)),
    );
  });
  after(() => rm(folder, { recursive: true }));

  for (const language of languages) {
    it(`${language.generator}: sets and removes a role and lists every page`, async (t: TestContext) => {
      const reason = reasons.get(language);
      if (reason !== undefined) return t.skip(reason);
      const { http } = await startService(t);
      for (const user of ['Grace', 'Mary', 'Joan', 'Edith']) {
        await send(http, 'POST /users', { json: { name: user } });
      }
      const [roles, names] = JSON.parse(await language.start(join(folder, language.generator), http));
      assert.deepEqual(roles, ['admin', 'countess', '']);
      assert.deepEqual(names, ['Grace', 'Mary', 'Joan', 'Edith', 'Ada']);
    });
  }
});
