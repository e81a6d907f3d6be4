import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify, stripVTControlCharacters } from 'node:util';
import { send } from '../support/client.ts';
import { startService } from '../support/service.ts';
import { temporaryFolder } from '../support/temporary.ts';
import { hasTool, runTool } from '../support/tool.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const readme = await readFile(join(root, 'proto/README.md'), 'utf8');

// The tests download nothing. Go and Maven take their packages from their caches.
const java = '-XX:TieredStopAtLevel=1 -XX:+UseSerialGC';
const env = { ...process.env, GOPROXY: 'off', GOSUMDB: 'off', MAVEN_OPTS: java };

/** The examples in the section of a language that are of this kind. */
function blocks(section: string, kind: string): string[] {
  const [, text = ''] = new RegExp(`^## ${section}\\n([\\s\\S]*?)^## `, 'm').exec(readme) ?? [];
  return [...text.matchAll(new RegExp(`^\`\`\`${kind}\\n([\\s\\S]*?)^\`\`\`$`, 'gm'))].map(
    ([, code = '']) => code,
  );
}

function block(section: string, kind: string, index = 0): string {
  const code = blocks(section, kind)[index];
  assert.ok(code !== undefined, `proto/README.md has an example of ${kind} for ${section}`);
  return code;
}

const [, grpcVersion = ''] = /<grpc.version>(.*)</.exec(block('Java', 'xml')) ?? [];
const downloaded = join(homedir(), '.m2/repository/io/grpc/protoc-gen-grpc-java', grpcVersion);

interface Language {
  readonly name: string;
  /** The path and the text of each file of the client. */
  readonly files: Readonly<Record<string, string>>;
  /** The path of users.proto. */
  readonly proto?: string;
  /** Commands that generate, compile and run the client. */
  readonly commands: string;
  /** A missing tool as the reason to skip, or `false`. */
  readonly skip: string | false;
}

const languages: readonly Language[] = [
  {
    name: 'Go',
    files: { 'main.go': block('Go', 'go') },
    commands: `${block('Go', 'sh', 1)}./example`,
    skip:
      (!hasTool('go') && 'go is not installed') ||
      (!hasTool('protoc') && 'protoc is not installed') ||
      (!hasTool('protoc-gen-go') && 'protoc-gen-go is not installed') ||
      (!hasTool('protoc-gen-go-grpc') && 'protoc-gen-go-grpc is not installed'),
  },
  {
    name: 'Java',
    files: { 'pom.xml': block('Java', 'xml'), 'src/main/java/PrintUser.java': block('Java', 'java') },
    proto: 'src/main/proto/users.proto',
    commands: block('Java', 'sh').replace('mvn', 'mvn --offline --batch-mode'),
    skip:
      (!hasTool('mvn') && 'mvn is not installed') ||
      (!existsSync(downloaded) && `Maven has not downloaded what pom.xml names: no ${downloaded}`),
  },
  {
    name: 'Python',
    files: { 'user.py': block('Python', 'python') },
    commands: `python3 ${generatePython()}\npython3 user.py`,
    skip:
      (await runTool('python3', ['-c', 'import grpc_tools'])).code !== 0 &&
      'grpcio-tools is not installed for python3',
  },
  {
    name: 'Node.js',
    files: { 'user.mjs': block('Node.js', 'js') },
    commands: `"${process.execPath}" user.mjs`,
    skip: false,
  },
];

function generatePython(): string {
  const [, command = ''] = /^python (.*)$/m.exec(block('Python', 'sh')) ?? [];
  return command;
}

/** A folder as the instructions create it, for a service at this address. */
async function createProject({ files, proto }: Language, address: string): Promise<string> {
  const folder = temporaryFolder();
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
  await cp(join(root, 'proto/users.proto'), join(folder, proto ?? 'users.proto'));
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    // On a busy machine a client may take longer to start than the examples wait for a response.
    const patient = text.replace('5*time.Second', 'time.Minute').replace('(5, ', '(60, ');
    await writeFile(join(folder, name), patient.replace('localhost:50051', address));
  }
  return folder;
}

describe('the client of proto/README.md is generated, compiled, and prints the name of user 1', () => {
  for (const language of languages) {
    it(`in ${language.name}`, { skip: language.skip }, async (t) => {
      const { http, grpc } = await startService(t, { grpcPort: 0 });
      await send(http, 'POST /users', { json: { name: 'Ada' } });
      const cwd = await createProject(language, grpc);
      try {
        const { stdout } = await promisify(execFile)('sh', ['-ec', language.commands], { cwd, env });
        assert.equal(stripVTControlCharacters(stdout).trim(), 'Ada');
      } catch (error) {
        if (!String(error).includes('disabled by GOPROXY=off')) throw error;
        t.skip('Go has not downloaded all packages of the client');
      }
    });
  }
});
