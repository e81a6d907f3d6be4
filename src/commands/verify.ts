import type { Writable } from 'node:stream';
import { runTests } from '../conformance/run-tests.ts';
import { type OpenOptions, testRepository, testTransfer } from '../conformance/test-repository.ts';
import type { Repository, Store } from '../domain/repository.ts';
import { openStore, schemeOf, urlForms } from '../storage/open.ts';
import { adopt, type Command, cleanUps, printResult, wrap } from './command-line.ts';
import { describeError } from './errors.ts';
import { databaseUrl } from './settings.ts';

const help = `usage: users-service verify [--database URL]

Tests whether a database does what the service needs. The tests use new, empty
stores: schemas in a PostgreSQL database, or files beside a SQLite file. They
are removed at the end, and the store at the URL is neither read nor changed.
Prints a line for each subject and for each test that failed. Exit codes: 0 all
tests passed, 1 a test failed, 2 wrong usage.

  --database URL  ${wrap(urlForms, ' '.repeat(18))}
                  [sqlite:./data/users.db] (DATABASE_URL in the environment)
`;

// A slow database can still be correct, and may allow few connections.
const patience = { waitTimeoutMs: 60_000, lockTimeoutMs: 60_000, statementTimeoutMs: 60_000, poolSize: 4 };
// The tests mostly wait for the disk.
const concurrency = 2;

export const verify: Command = {
  help,
  flags: ['database'],
  async run(context, { flags }) {
    const url = databaseUrl(flags, context.env);
    await using cleanup = cleanUps(context);
    const opening = schemeOf(url)?.persistent?.scratch(url);
    const scratch = opening && (await adopt(cleanup, opening, (made) => made.remove()));
    // A test passes only the store that it has closed, or whose keys must age.
    const urls = new WeakMap<Repository, string>();
    const urlOf = (store: Repository) => urls.get(store) ?? url;
    const openAt = async (at: string, options: OpenOptions = {}): Promise<Store> => {
      // The tests go on until the process ends. A store that opens now could leave a file or a schema.
      if (cleanup.disposed) throw new Error('stopped by a signal');
      // A test that failed may have left its store open.
      const store = await adopt(cleanup, openStore(at, { ...patience, ...options }), (opened) =>
        opened.close().catch(() => undefined),
      );
      urls.set(store, at);
      return store;
    };
    const open = async (options?: OpenOptions) => openAt((await scratch?.next()) ?? url, options);
    // Only an open store shows whether it has a feed.
    const first = await open();
    const feed = first.changes !== undefined;
    await first.close();

    const passTime = scratch?.passTime;
    const tests = runTests(() => {
      testRepository('the store', open, {
        feed,
        ...(scratch && { reopen: (closed) => openAt(urlOf(closed)) }),
        ...(passTime && { passTime: (store, ms) => passTime(urlOf(store), ms) }),
      });
      testTransfer('the store', open);
    }, concurrency);
    return await printResults(tests, context.stdout, cleanup);
  },
};

/** Prints a line for each test that failed and for each subject, until a signal. Resolves to the exit code. */
async function printResults(
  results: ReturnType<typeof runTests>,
  stdout: Writable,
  cleanup: AsyncDisposableStack,
): Promise<number> {
  let [current, passed, failed, code] = ['', 0, 0, 0];
  const errors: unknown[] = [];
  // A runner whose results are not read to the end keeps the process alive.
  const print = async (level: 'ok' | 'fail', text: string) => {
    // A test fails because of the signal, not because of the database.
    if (!cleanup.disposed) await printResult(stdout, level, text).catch((error) => errors.push(error));
  };
  const summarize = async () => {
    if (failed > 0) await print('fail', `${current}: ${failed} of ${passed + failed} tests failed`);
    else if (passed > 0) await print('ok', `${current}: ${passed} tests`);
  };
  for await (const { subject, name, error } of results) {
    if (subject !== current) {
      await summarize();
      [current, passed, failed] = [subject, 0, 0];
    }
    if (error === undefined) passed += 1;
    else {
      failed += 1;
      code = 1;
      await print('fail', `${subject}: ${name}: ${describeError(error)}`);
    }
  }
  if (passed + failed === 0) throw new Error('no test ran');
  await summarize();
  if (errors.length > 0) throw errors[0];
  return code;
}
