import { parsePostQuery } from '../../../src/domain/post.ts';
import { openSqliteStore } from '../../../src/storage/sqlite/store.ts';
import { writeAtRandom } from '../random-writes.ts';

/** The program of the child processes of the tests: `node child.ts ROLE PATH [LOAD]`. */
export type ChildRole =
  | 'create'
  | 'create-with-key'
  | 'load'
  | 'leave-open'
  | 'leave-unwritten'
  | 'delete-many'
  | 'read-deep-page'
  | 'write-at-random';

const [role, path = '', load = ''] = process.argv.slice(2);
const store = await openSqliteStore(path, { busyTimeoutMs: 20_000 });

switch (role) {
  case 'create':
    console.log((await store.users.create({ name: `of ${process.pid}` })).value.id);
    await store.close();
    break;
  case 'create-with-key': {
    const idempotency = { key: 'k', fingerprint: 'f' };
    console.log((await store.users.create({ name: 'Ada' }, { idempotency })).replayed);
    await store.close();
    break;
  }
  case 'load':
    // Prints acknowledged writes until it is killed.
    for (let i = 0; i < 32; i += 1) void createForever(`writer ${i}`);
    break;
  case 'leave-open':
    await store.users.create({ name: 'Ada' });
    console.log('created');
    break;
  case 'leave-unwritten': {
    // The writer thread starts a while after the store was opened.
    const waiting = setInterval(() => {}, 1_000);
    process.once('worker', () => clearInterval(waiting));
    break;
  }
  case 'delete-many': {
    const { value: user } = await store.users.create({ name: 'Ada' });
    const body = 'x'.repeat(2_000);
    await Promise.all(Array.from({ length: 1_000 }, () => store.posts(user.id).create({ title: 'T', body })));
    await store.users.delete(user.id);
    await store.close();
    break;
  }
  case 'read-deep-page': {
    // Prints by how many bytes one page raises the memory of the process.
    const before = process.memoryUsage.rss();
    await store.posts(1).list(parsePostQuery(1, new URLSearchParams('sort=title,-id&limit=2&page=1500')));
    console.log(process.resourceUsage().maxRSS * 1024 - before);
    await store.close();
    break;
  }
  case 'write-at-random':
    await writeAtRandom(store, JSON.parse(load));
    await store.close();
    break;
  default:
    throw new Error(`no such role: ${role}`);
}

async function createForever(name: string): Promise<never> {
  for (;;) {
    const { value } = await store.users.create({ name });
    console.log(`${value.id} ${value.name}`);
  }
}
