import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import cluster from 'node:cluster';
import { once } from 'node:events';
import { existsSync, statSync } from 'node:fs';
import fs, { mkdir, readdir, writeFile } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Writable } from 'node:stream';
import { describe, it } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type CommandContext, cleanUps, onStop } from '../../src/commands/command-line.ts';
import { run } from '../../src/commands/commands.ts';
import { openStore } from '../../src/storage/open.ts';
import { environment } from '../kit/process.ts';
import { until } from '../kit/until.ts';
import { quietProcess } from '../support/command.ts';
import { temporaryFolder } from '../support/temporary.ts';
import { runTool } from '../support/tool.ts';

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

/**
 * Runs a command on a terminal, and interrupts it when it shows its progress, or earlier by a call of the function that
 * `prepare` receives. `exited` resolves to the exit code of the signal.
 */
async function interrupt(args: readonly string[], prepare: (stop: () => unknown) => void = () => undefined) {
  let signal = (): unknown => assert.fail('the command handles no signal');
  prepare(() => signal());
  const exited = Promise.withResolvers<number>();
  const errors: string[] = [];
  const output: string[] = [];
  const stdout = new Writable({ write: (chunk, _encoding, done) => done(void output.push(String(chunk))) });
  const terminal = new Writable({
    write(chunk, _encoding, done) {
      errors.push(String(chunk));
      signal();
      done();
    },
  });
  const code = await run({
    ...quietProcess(),
    args,
    stdout,
    stderr: Object.assign(terminal, { isTTY: true }),
    onSignal(name, handle) {
      if (name === 'SIGINT') signal = handle;
    },
    exit: exited.resolve,
  });
  return { code, exited: exited.promise, errors: errors.join(''), output: output.join('') };
}

for (const [what, args, expected] of [
  ['ends after a signal', [], 0],
  ['with an invalid option ends with its exit code', ['--auth', 'x'], 2],
] as const) {
  it(`a service that a process manager has started by node:cluster ${what}`, async (t) => {
    const ports = ['--port', '0', '--grpc-port', '0', '--database', 'memory:'];
    cluster.setupPrimary({ exec: main, args: [...ports, ...args], silent: true });
    const worker = cluster.fork();
    t.after(() => worker.process.kill('SIGKILL'));
    worker.process.stdout?.on('data', (chunk) => {
      if (String(chunk).includes('"event":"listening"')) worker.process.kill('SIGINT');
    });
    assert.deepEqual(await once(worker, 'exit'), [expected, null]);
  });
}

describe('a command that a signal stops', () => {
  it('export removes its unfinished file', async () => {
    const folder = temporaryFolder();
    const database = `sqlite:${join(folder, 'users.db')}`;
    const store = await openStore(database);
    await store.users.create({ name: 'Ada' });
    await store.close();
    const { exited } = await interrupt(['export', join(folder, 'all.ndjson'), '--database', database]);
    assert.equal(await exited, 130);
    const files = (await readdir(folder)).filter((name) => name.endsWith('.ndjson'));
    assert.deepEqual(files, []);
  });

  it('export leaves no empty file if the signal arrives before its file is open', async (t) => {
    const folder = temporaryFolder();
    const database = `sqlite:${join(folder, 'users.db')}`;
    await (await openStore(database)).close();
    const file = join(folder, 'all.ndjson');
    const { open } = fs;
    const { exited } = await interrupt(['export', file, '--database', database], (stop) => {
      const mock = t.mock.method(fs, 'open', async (...given: Parameters<typeof open>) => {
        mock.mock.restore();
        syncBuiltinESMExports();
        await Promise.resolve();
        stop();
        return open(...given);
      });
      syncBuiltinESMExports();
    });
    assert.equal(await exited, 130);
    assert.equal(existsSync(file), false);
  });

  it('export reports no success if the signal arrives while its file is synced', async (t) => {
    const folder = temporaryFolder();
    const database = `sqlite:${join(folder, 'users.db')}`;
    await (await openStore(database)).close();
    const file = join(folder, 'all.ndjson');
    const { open } = fs;
    const { exited, output } = await interrupt(['export', file, '--database', database], (stop) => {
      const mock = t.mock.method(fs, 'open', async (...given: Parameters<typeof open>) => {
        mock.mock.restore();
        syncBuiltinESMExports();
        const sync = async () => {
          stop();
          await until(() => !existsSync(file), 'the removal of the file');
        };
        return Object.assign(await open(...given), { sync });
      });
      syncBuiltinESMExports();
    });
    assert.equal(await exited, 130);
    assert.equal(output, '');
  });

  it('export does not remove a file that it did not create', async () => {
    const folder = temporaryFolder();
    const database = `sqlite:${join(folder, 'users.db')}`;
    await (await openStore(database)).close();
    const file = join(folder, 'all.ndjson');
    await writeFile(file, 'precious');
    const { code, errors } = await interrupt(['export', file, '--database', database]);
    assert.equal(code, 1);
    assert.match(errors, /all\.ndjson: file already exists$/m);
    assert.ok((await readdir(folder)).includes('all.ndjson'));
  });

  it('backup removes its unfinished file', async () => {
    const folder = temporaryFolder();
    const source = join(folder, 'users.db');
    await (await openStore(`sqlite:${source}`)).close();
    using db = new DatabaseSync(source);
    // The copy takes several steps, and the signal arrives after the first one.
    db.exec('CREATE TABLE ballast AS SELECT zeroblob(12000000)');
    const target = join(folder, 'copy');
    await mkdir(target);
    const to = join(target, 'users.db');
    const { exited, output } = await interrupt(['backup', to, '--database', `sqlite:${source}`]);
    assert.equal(await exited, 130);
    assert.equal(output, '');
    assert.deepEqual(await readdir(target), []);
  });

  for (const [signal, code] of [
    ['SIGINT', 130],
    // As when a terminal or a remote shell is closed.
    ['SIGHUP', 129],
  ] as const) {
    it(`import removes its copy of the standard input at ${signal}`, async (t) => {
      const folder = temporaryFolder();
      const child = spawn(
        process.execPath,
        [main, 'import', '--database', `sqlite:${join(folder, 'users.db')}`],
        {
          env: { ...environment(), TMPDIR: folder },
          stdio: ['pipe', 'ignore', 'inherit'],
        },
      );
      t.after(() => child.kill('SIGKILL'));
      child.stdin.write('{"type":"user","id":1,"name":"Ada"}\n');
      const isCopying = async () => {
        const files = await readdir(folder, { recursive: true });
        return files.some((file) => file.endsWith('.ndjson') && statSync(join(folder, file)).size > 0);
      };
      await until(isCopying, 'a copy of the input');
      const exited = once(child, 'exit');
      child.kill(signal);
      assert.deepEqual(await exited, [code, null]);
      assert.deepEqual(await readdir(folder), []);
    });
  }

  it('import ends while it waits for the first data of a named pipe', async (t) => {
    const folder = temporaryFolder();
    const pipe = join(folder, 'pipe');
    if ((await runTool('mkfifo', [pipe])).code !== 0) return t.skip('this system has no named pipes');
    const child = spawn(process.execPath, [main, 'import', pipe, '--database', 'sqlite:never-created.db'], {
      cwd: folder,
      env: { ...environment(), TMPDIR: folder },
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    t.after(() => child.kill('SIGKILL'));
    const exited = once(child, 'exit');
    const isCopying = async () =>
      (await readdir(folder, { recursive: true })).some((file) => file.endsWith('.ndjson'));
    await until(isCopying, 'a copy of the input');
    child.kill('SIGTERM');
    assert.deepEqual(await exited, [143, null]);
    assert.deepEqual(await readdir(folder), ['pipe']);
  });
});

/** The context of a command, with the handlers of its signals, and the codes with which it has ended its process. */
function fakeContext() {
  const handlers = new Map<string, () => unknown>();
  const exits: number[] = [];
  const context = {
    onSignal: (signal: string, handle: () => unknown) => handlers.set(signal, handle),
    exit: (code: number) => exits.push(code),
  };
  return { context: context as unknown as CommandContext, handlers, exits };
}

describe('a signal to stop', () => {
  it('ends the process only after the clean-ups that are already running', async () => {
    const { context, handlers, exits } = fakeContext();
    const stack = cleanUps(context);
    const removing = Promise.withResolvers<void>();
    stack.defer(() => removing.promise);
    const removed = stack.disposeAsync();
    handlers.get('SIGINT')?.();
    await nextTurn();
    assert.deepEqual(exits, []);
    removing.resolve();
    await removed;
    await nextTurn();
    assert.deepEqual(exits, [130]);
  });

  it('ends the process after 20 s if a clean-up hangs', (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const { context, handlers, exits } = fakeContext();
    const stack = cleanUps(context);
    stack.defer(() => new Promise(() => {}));
    handlers.get('SIGTERM')?.();
    t.mock.timers.tick(19_999);
    assert.deepEqual(exits, []);
    t.mock.timers.tick(1);
    assert.deepEqual(exits, [143]);
  });

  const codes = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 };
  type Signal = keyof typeof codes;
  const rows: readonly [first: Signal, second: Signal, afterMs: number, exits: boolean][] = [
    ['SIGINT', 'SIGINT', 0, false],
    ['SIGINT', 'SIGINT', 1_000, false],
    ['SIGINT', 'SIGINT', 1_001, true],
    ['SIGTERM', 'SIGTERM', 1_001, true],
    ['SIGTERM', 'SIGINT', 1_001, true],
    ['SIGINT', 'SIGTERM', 1_000, false],
    ['SIGHUP', 'SIGINT', 1_001, true],
  ];
  for (const [first, second, afterMs, exits] of rows) {
    const outcome = exits ? `ends the process with ${codes[second]}` : 'counts as the same signal';
    it(`${second}, ${afterMs} ms after ${first}, ${outcome}`, (t) => {
      let now = 5_000;
      t.mock.method(performance, 'now', () => now);
      const { context, handlers, exits: exited } = fakeContext();
      const stops: number[] = [];
      onStop(context, (code) => stops.push(code));
      handlers.get(first)?.();
      now += afterMs;
      handlers.get(second)?.();
      assert.deepEqual([stops, exited], [[codes[first]], exits ? [codes[second]] : []]);
    });
  }
});
