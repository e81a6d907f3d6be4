import { runTests } from '../conformance/run-tests.ts';
import { type OpenOptions, testRepository, testTransfer } from '../conformance/test-repository.ts';
import type { Repository, Store } from '../domain/repository.ts';
import { openStore, schemeOf } from '../storage/open.ts';
import type { Scratch } from '../storage/store.ts';
import {
  type Command,
  type CommandContext,
  describeError,
  onStop,
  withoutPasswords,
} from './command-line.ts';
import { databaseUrl } from './settings.ts';

const help = `usage: users-service verify [--database URL]

Runs the tests that every store passes on empty stores beside the one at the URL: schemas in a PostgreSQL
database, files beside a SQLite file. It removes them at the end, and neither reads nor changes the store
itself. Prints a line for each subject and for each test that failed. Exit code 1 if one did.

  --database URL  memory:, sqlite:PATH or postgres://USER@HOST/NAME [sqlite:./data/users.db]
                  (DATABASE_URL in the environment)
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
    const scratch = await schemeOf(url)?.scratch?.(url);
    const stores = new Set<Store>();
    let removing: Promise<void> | undefined;
    const remove = async () => {
      // A test that failed may have left its stores open.
      await Promise.allSettled([...stores].map((store) => store.close()));
      await scratch?.remove();
    };
    const end = () => {
      removing ??= remove();
      return removing;
    };
    onStop(context, (code) => end().finally(() => context.exit(code)));
    try {
      return await verifyStores(context, url, stores, scratch);
    } finally {
      await end();
    }
  },
};

async function verifyStores(
  { stdout }: CommandContext,
  url: string,
  stores: Set<Store>,
  scratch: Scratch | undefined,
): Promise<number> {
  const urls = new WeakMap<Repository, string>();
  const openAt = async (at: string, options: OpenOptions = {}): Promise<Store> => {
    const store = await openStore(at, { ...patience, ...options });
    urls.set(store, at);
    stores.add(store);
    return store;
  };
  const open = async (options?: OpenOptions) => openAt((await scratch?.next()) ?? url, options);
  const first = await open();
  const feed = first.changes !== undefined;
  await first.close();

  const passTime = scratch?.passTime;
  const urlOf = (repository: Repository) => urls.get(repository) ?? url;
  const tests = runTests(() => {
    testRepository('the store', open, {
      feed,
      ...(scratch && { reopen: (closed) => openAt(urlOf(closed)) }),
      ...(passTime && { passTime: (store, ms) => passTime(urlOf(store), ms) }),
    });
    testTransfer('the store', open);
  }, concurrency);

  const print = (level: string, text: string) =>
    stdout.write(`${level.padEnd(5)} ${withoutPasswords(text)}\n`);
  const counts = new Map<string, { passed: number; failed: number }>();
  const summarize = (subject: string) => {
    const { passed = 0, failed = 0 } = counts.get(subject) ?? {};
    if (failed === 0) print('ok', `${subject}: ${passed} tests`);
    else print('fail', `${subject}: ${failed} of ${passed + failed} tests failed`);
  };
  let current: string | undefined;
  for await (const { subject, name, error } of tests) {
    if (current !== undefined && current !== subject) summarize(current);
    current = subject;
    const count = counts.get(subject) ?? { passed: 0, failed: 0 };
    counts.set(subject, count);
    count[error === undefined ? 'passed' : 'failed'] += 1;
    if (error !== undefined) print('fail', `${subject}: ${name}: ${describeError(error)}`);
  }
  if (current === undefined) throw new Error('no test ran');
  summarize(current);
  return [...counts.values()].some(({ failed }) => failed > 0) ? 1 : 0;
}
