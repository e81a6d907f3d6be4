import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { openTestPostgres } from '../kit/postgres.ts';
import { openSession } from '../kit/postgres-session.ts';
import { environment, runMain } from '../kit/process.ts';
import { runCommand } from '../support/command.ts';
import { temporaryFolder } from '../support/temporary.ts';

const commands = new URL('../../src/commands/commands.ts', import.meta.url);
const runner = new URL('../../src/conformance/run-tests.ts', import.meta.url);

/** Runs a module in a process of its own, and resolves to the lines that it prints. */
async function runScript(source: string): Promise<string[]> {
  const script = join(temporaryFolder(), 'run.mjs');
  await writeFile(script, source);
  const { stdout } = await promisify(execFile)(process.execPath, [script], {
    env: environment(),
    timeout: 60_000,
  });
  return stdout.trimEnd().split('\n');
}

describe('users-service verify', async () => {
  const postgres = await openTestPostgres();
  after(() => postgres.close());

  it('prints one line for each group of tests that passed', async () => {
    const { code, stdout, stderr } = await runMain(['verify', '--database', 'memory:']);
    assert.deepEqual({ code, stderr }, { code: 0, stderr: '' });
    const lines = stdout.trimEnd().split('\n');
    assert.ok(lines.length > 5, stdout);
    for (const line of lines) assert.match(line, /^ok {4}[a-z][a-z, ]+: \d+ tests$/);
  });

  it('prints each test that failed, exits with 1, and removes its data', async (t) => {
    const url = await postgres.createDatabase();
    const session = await openSession(t, url);
    // A database that loses every role, and soon creates no more tables, then no more schemas, so that most tests fail
    // fast.
    await session.query(`
      CREATE SCHEMA broken;
      CREATE SEQUENCE broken.stores;
      CREATE FUNCTION broken.break() RETURNS event_trigger LANGUAGE plpgsql AS $$
        DECLARE made record;
        BEGIN
          FOR made IN SELECT schema_name FROM pg_event_trigger_ddl_commands()
            WHERE command_tag = 'CREATE TABLE' AND object_identity LIKE '%.users' LOOP
            IF nextval('broken.stores') > 3 THEN RAISE 'no more tables'; END IF;
            EXECUTE format('CREATE TRIGGER forget BEFORE INSERT ON %I.users FOR EACH ROW
              EXECUTE FUNCTION broken.forget_role()', made.schema_name);
          END LOOP;
        END $$;
      CREATE FUNCTION broken.forget_role() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN NEW.role = ''; RETURN NEW; END $$;
      CREATE FUNCTION broken.refuse() RETURNS event_trigger LANGUAGE plpgsql AS $$
        BEGIN
          IF (SELECT last_value FROM broken.stores) > 6 THEN RAISE 'no more schemas'; END IF;
        END $$;
      CREATE EVENT TRIGGER break ON ddl_command_end EXECUTE FUNCTION broken.break();
      CREATE EVENT TRIGGER refuse ON ddl_command_start WHEN TAG IN ('CREATE SCHEMA')
        EXECUTE FUNCTION broken.refuse()`);
    const { code, stdout } = await runMain(['verify', '--database', url]);
    assert.equal(code, 1, stdout);
    assert.match(stdout, /^fail {2}users: creates a user with all fields and version 1, not replayed: /m);
    assert.match(stdout, /^fail {2}users: \d+ of \d+ tests failed$/m);
    assert.match(stdout, /^fail {2}\w+: .+: PostgreSQL at .+ cannot be used: no more tables$/m);
    assert.match(stdout, /^fail {2}posts: .+: no more schemas$/m);
    const left = await session.query(`
      SELECT nspname FROM pg_namespace WHERE nspname LIKE 'users%'
      UNION ALL SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace`);
    assert.deepEqual(left, []);
  });

  it('ages the keys of PostgreSQL, which reads its own clock', async () => {
    const url = await postgres.createDatabase();
    // The runner of Node.js runs only the test with this word in its name.
    const env = { NODE_OPTIONS: '--test-name-pattern=expires' };
    const { code, stdout } = await runMain(['verify', '--database', url], { env });
    assert.deepEqual({ code, stdout }, { code: 0, stdout: 'ok    idempotency: 1 tests\n' });
  });

  it('ends if its output cannot be written', {
    skip: !existsSync('/dev/full') && 'no /dev/full',
  }, async () => {
    const script = 'exec "$0" src/main.ts verify --database memory: > /dev/full';
    const options = { env: environment(), timeout: 60_000 };
    const running = promisify(execFile)('sh', ['-c', script, process.execPath], options);
    await assert.rejects(running, { code: 1, stderr: /^users-service: ENOSPC: / });
  });

  for (const turns of [0, 1, 2, 16]) {
    it(`removes its files and blames no test after SIGINT in turn ${turns} of the event loop`, async () => {
      const folder = temporaryFolder();
      // In a process of its own, because a process can run the tests only once.
      const lines = await runScript(`
        import { readdirSync } from 'node:fs';
        import { run } from '${commands}';
        const interrupt = async (handle) => {
          for (let i = 0; i < ${turns}; i += 1) await new Promise((resolve) => setImmediate(resolve));
          await undefined;
          handle();
          // npm passes on a signal that the terminal has already sent.
          handle();
        };
        await run({
          args: ['verify', '--database', 'sqlite:${join(folder, 'users.db')}'],
          env: {},
          nodeVersion: process.version,
          stdout: process.stdout,
          stderr: process.stdout,
          onSignal: (signal, handle) => signal === 'SIGINT' && interrupt(handle),
          exit(code) {
            console.log('exit code', code, 'files', readdirSync('${folder}').length);
            process.exit();
          },
        });`);
      const blames = lines.filter((line) => !/^ok |^users-service: stopped by a signal$/.test(line));
      assert.deepEqual(blames, ['exit code 130 files 0']);
    });
  }

  it('fails for a test that never ends, and for a shared store that cannot be closed', async () => {
    const lines = await runScript(`
      import { after, describe, it } from 'node:test';
      import { runTests } from '${runner}';
      const busy = setInterval(() => {}, 1_000);
      const results = runTests(() => {
        describe('lists', () => {
          after(() => Promise.reject(new Error('not closed')));
          it('passes', () => {});
        });
        describe('changes', () => it('never ends', () => new Promise(() => {})));
      }, 2, 500);
      for await (const { subject, name, error } of results) console.log(subject, name, String(error));
      clearInterval(busy);`);
    assert.deepEqual(lines, [
      'lists passes undefined',
      'lists declaration and clean-up Error: not closed',
      'changes never ends test did not finish before its parent and was cancelled',
      'all declaration and clean-up test timed out after 500ms',
    ]);
  });

  it('reports a database that takes no writes before it runs a test', async () => {
    const url = new URL(await postgres.createDatabase());
    url.searchParams.set('options', '-cdefault_transaction_read_only=on');
    const { code, stdout, stderr } = await runCommand(['verify', '--database', url.href]);
    assert.deepEqual([code, stdout], [1, '']);
    assert.match(stderr, /: the database takes no writes at present: cannot execute CREATE SCHEMA in a /);
  });

  it('reports a database that cannot be reached, without its password', async () => {
    const { code, stderr } = await runCommand(['verify', '--database', 'postgres://u:secret@127.0.0.1:1/db']);
    assert.equal(code, 1);
    assert.match(stderr, /^users-service: the database cannot be reached: /);
    assert.doesNotMatch(stderr, /secret/);
  });
});
