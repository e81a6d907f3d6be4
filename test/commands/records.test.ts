import assert from 'node:assert/strict';
import { readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { batchCharacters, countOf, readFile, readStore } from '../../src/commands/records.ts';
import { openPersistent } from '../../src/commands/transfer.ts';
import { nestedKinds } from '../../src/conformance/kinds.ts';
import { byKind, recordKinds } from '../../src/domain/record.ts';
import type { Store } from '../../src/domain/repository.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import { storeSchemes } from '../../src/storage/open.ts';
import { temporaryFolder } from '../support/temporary.ts';

/** A store of `count` posts that records the limit of each read of posts. */
async function postsOf(count: number, body: string) {
  const store = createMemoryStore();
  await store.importRows('users', [{ id: 1, name: 'Ada', version: 1 }]);
  await store.importRows(
    'posts',
    Array.from({ length: count }, (_, i) => ({ id: i + 1, userId: 1, title: 't', body, version: 1 })),
  );
  const limits: number[] = [];
  const exportRows: Store['exportRows'] = (kind, afterId, limit) => {
    if (kind === 'posts') limits.push(limit);
    return store.exportRows(kind, afterId, limit);
  };
  return { limits, store: { ...store, exportRows } };
}

// The most posts that are read at a time.
const maxPosts = 2_500;

describe('a missing source', () => {
  const forms = storeSchemes.filter(({ persistent }) => persistent).map(({ form }) => form);
  for (const form of forms.filter((one) => one.includes('PATH'))) {
    it(`is not created: ${form}`, async () => {
      const folder = temporaryFolder();
      const path = join(folder, 'folder', 'missing');
      const url = form.replace('PATH', path);
      const isExpected = ({ message }: Error) => message.endsWith(` ${path}: there is no such file`);
      await assert.rejects(openPersistent(url, process.stderr, { mustExist: true }), isExpected);
      assert.deepEqual(readdirSync(folder), []);
    });

    it(`is not made of an empty file: ${form}`, async () => {
      const folder = temporaryFolder();
      const path = join(folder, 'empty');
      const url = form.replace('PATH', path);
      writeFileSync(path, '');
      const message = / it has no tables of this service$/;
      await assert.rejects(openPersistent(url, process.stderr, { mustExist: true }), {
        kind: 'unavailable',
        message,
      });
      assert.deepEqual(readdirSync(folder), ['empty']);
      assert.equal(statSync(path).size, 0);
    });
  }
});

describe('the number of records of a store', () => {
  it('includes every kind of record', async () => {
    const store = createMemoryStore();
    assert.equal(countOf(await store.summary()), 0);
    await store.users.create({ name: 'Ada' });
    assert.equal(countOf(await store.summary()), 1);
    for (const { records, draft } of nestedKinds) await records(store, 1).create(draft);
    assert.equal(countOf(await store.summary()), recordKinds.length);
  });
});

describe('batches of a file', () => {
  for (const [what, count, body, sizes] of [
    ['short', 20_001, '', [10_000, 10_000, 1]],
    // With about 10,050 characters each.
    ['long', 900, 'x'.repeat(10_000), [398, 398, 104]],
  ] as const) {
    it(`of ${what} posts have at most 10,000 lines, and end after 4,000,000 characters`, async () => {
      const path = join(temporaryFolder(), 'all.ndjson');
      const post = { type: 'post', userId: 1, title: 't', body };
      const lines = Array.from({ length: count }, (_, i) => `${JSON.stringify({ ...post, id: i + 1 })}\n`);
      writeFileSync(path, lines.join(''));
      const found: number[] = [];
      for await (const batch of readFile(path)) found.push(batch.lines.length);
      assert.deepEqual(found, sizes);
    });
  }
});

describe('a line that is too long', () => {
  it('is not read to its end', { skip: process.platform === 'win32' && 'no /dev/zero' }, async () => {
    const message = 'line 1 is longer than 262144 bytes';
    await assert.rejects(readFile('/dev/zero').next(), { message });
  });
});

describe('batches of a store', () => {
  for (const [what, count, body] of [
    ['short', 25_000, ''],
    ['long', 2_500, 'x'.repeat(10_000)],
  ] as const) {
    it(`of ${what} posts contain each post once, in order, and never exceed the size of a batch`, async () => {
      const { store, limits } = await postsOf(count, body);
      const ids: number[] = [];
      for await (const { rows, lines } of readStore(store)) {
        const characters = lines.reduce((sum, line) => sum + line.length, 0);
        assert.ok(rows.posts.length <= maxPosts && characters < 1.01 * batchCharacters);
        ids.push(...rows.posts.map(({ id }) => id));
      }
      assert.deepEqual(
        ids,
        Array.from({ length: count }, (_, i) => i + 1),
      );
      const most = Math.min(maxPosts, batchCharacters / (body.length + 1));
      assert.ok(Math.max(...limits) > 0.98 * most, `${Math.max(...limits)} of ${most} posts`);
    });
  }

  it('up to the last ids contain no record that is created meanwhile, and no post without its user', async () => {
    const store = createMemoryStore();
    const post = { title: 't', body: '' };
    await store.users.create({ name: 'Ada' });
    await store.posts(1).create(post);
    const exportRows: Store['exportRows'] = async (kind, ...range) => {
      if (kind === 'posts' && (await store.users.count({})) === 1) {
        await store.users.create({ name: 'Bob' });
        for (const userId of [2, 1]) await store.posts(userId).create(post);
      }
      return store.exportRows(kind, ...range);
    };
    const ids: string[] = [];
    // The last id of posts is newer than that of users.
    for await (const { rows } of readStore(
      { ...store, exportRows },
      { ...byKind(() => 0), users: 1, posts: 2 },
    )) {
      for (const kind of recordKinds) ids.push(...rows[kind].map(({ id }) => `${kind} ${id}`));
    }
    assert.deepEqual(ids, ['users 1', 'posts 1']);
  });
});
