import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { getUser, usersClient } from '../kit/grpc.ts';
import { type Answer, send } from '../support/client.ts';
import { type RunningService, startService } from '../support/service.ts';

// What the service promises, as its clients would see it broken. Each runs through several copies of
// the service where the store allows them.

const stores: readonly [what: string, start: (t: TestContext) => Promise<RunningService[]>][] = [
  ['memory', async (t) => [await startService(t, { grpcPort: 0 })]],
  ['two copies over one SQLite file', (t) => startEach(t, 2)],
];

async function startEach(t: TestContext, count: number): Promise<RunningService[]> {
  const folder = mkdtempSync(join(tmpdir(), 'guarantees-'));
  const database = `sqlite:${join(folder, 'users.db')}`;
  const running: RunningService[] = [];
  for (let i = 0; i < count; i += 1) running.push(await startService(t, { database, grpcPort: 0 }));
  // Hooks run in order: the services are closed by then.
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return running;
}

const jsonType = { 'content-type': 'application/json' };

for (const [what, start] of stores) {
  test(`no lost update: ${what}`, async (t) => {
    const copies = await start(t);
    const [first] = copies.map(({ http }) => http);
    await send(first ?? '', 'POST /users', { json: { name: '0' } });
    const increments = 10;
    const clients = 8;
    let conflicts = 0;
    // Each adds one so many times; whoever reads a number that changes meanwhile has to read again.
    const count = async (base: string): Promise<void> => {
      for (let done = 0; done < increments; ) {
        const { json, headers } = await send(base, 'GET /users/1');
        const { name } = json as { name: string };
        const change = await send(base, 'PATCH /users/1', {
          json: { name: String(Number(name) + 1) },
          headers: { ...jsonType, 'if-match': String(headers.etag) },
        });
        if (change.status === 200) done += 1;
        else {
          assert.equal(change.status, 412);
          conflicts += 1;
        }
      }
    };
    await Promise.all(
      Array.from({ length: clients }, (_, i) => count(copies[i % copies.length]?.http ?? '')),
    );
    assert.ok(conflicts > 0, 'they did meet');
    for (const { http, grpc } of copies) {
      const { json, headers } = await send(http, 'GET /users/1');
      assert.deepEqual(json, { id: 1, name: String(increments * clients) });
      assert.equal(headers.etag, `"${increments * clients + 1}"`);
      const { user } = await getUser(usersClient(t, grpc), 1);
      assert.deepEqual(user, json, 'the other face agrees');
    }
  });

  test(`of many deletions of one user exactly one succeeds: ${what}`, async (t) => {
    const copies = await start(t);
    await send(copies[0]?.http ?? '', 'POST /users', { json: { name: 'Ann' } });
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, i) => send(copies[i % copies.length]?.http ?? '', 'DELETE /users/1')),
    );
    assert.deepEqual(answers.map(({ status }) => status).sort(), [204, ...Array(9).fill(404)]);
  });

  test(`no doubled POST: ${what}`, async (t) => {
    const copies = await start(t);
    const bases = copies.map(({ http }) => http);
    for (let round = 0; round < 5; round += 1) {
      const key = randomUUID();
      // A client that tries again while the first is still running is told so, and tries again.
      const insist = async (base: string): Promise<Answer> => {
        for (;;) {
          const headers = { ...jsonType, 'idempotency-key': key };
          const answer = await send(base, 'POST /users', { json: { name: `round ${round}` }, headers });
          if (answer.status !== 409 && answer.status !== 503) return answer;
        }
      };
      const answers = await Promise.all(
        Array.from({ length: 12 }, (_, i) => insist(bases[i % bases.length] ?? '')),
      );
      assert.deepEqual([...new Set(answers.map(({ status }) => status))], [201]);
      assert.equal(new Set(answers.map(({ text }) => text)).size, 1, 'one answer for all');
      const firsts = answers.filter(({ headers }) => headers['idempotency-replayed'] === undefined);
      assert.equal(firsts.length, 1, 'and only one of them the first');
    }
    for (const base of bases) {
      const { json } = await send(base, 'GET /users?limit=100');
      assert.equal(Array.isArray(json) && json.length, 5);
    }
  });

  test(`a POST whose answer never arrived can be sent again: ${what}`, async (t) => {
    const copies = await start(t);
    const body = JSON.stringify({ name: 'Ann' });
    for (let i = 0; i < 10; i += 1) {
      const key = `key-${i}`;
      const socket = connect(copies[0]?.port ?? 0, '127.0.0.1');
      await once(socket, 'connect');
      socket.write(
        `POST /users HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nidempotency-key: ${key}\r\n` +
          `content-length: ${body.length}\r\n\r\n${body}`,
      );
      // Early on the request itself is lost, later on its answer.
      for (let wait = 0; wait < i; wait += 1) await new Promise(setImmediate);
      socket.resetAndDestroy();
      const headers = { ...jsonType, 'idempotency-key': key };
      let answer: Answer;
      do answer = await send(copies.at(-1)?.http ?? '', 'POST /users', { json: { name: 'Ann' }, headers });
      while (answer.status === 409);
      assert.equal(answer.status, 201);
    }
    const { json } = await send(copies[0]?.http ?? '', 'GET /users?limit=100');
    assert.equal(Array.isArray(json) && json.length, 10);
  });

  for (const sort of ['id', '-id', 'name', '-name,id', 'role,-name']) {
    test(`no skipped row: a walk along next in ${sort} while others write: ${what}`, async (t) => {
      const copies = await start(t);
      const base = copies[0]?.http ?? '';
      const other = copies.at(-1)?.http ?? '';
      const stay: number[] = [];
      for (let i = 0; i < 60; i += 1) {
        const json = { name: `n${(i * 37) % 20}`, ...(i % 3 > 0 && { role: `r${i % 3}` }) };
        const created = await send(base, 'POST /users', { json });
        // Every third will be deleted or renamed under way.
        if (i % 3 !== 1) stay.push((created.json as { id: number }).id);
      }
      const seen: number[] = [];
      let target: string | undefined = `/users?limit=7&sort=${sort}`;
      let page = 0;
      while (target !== undefined) {
        const { json, headers }: Answer = await send([base, other][page % 2] ?? '', `GET ${target}`);
        assert.ok(Array.isArray(json) && json.length <= 7);
        seen.push(...json.map(({ id }) => id));
        // What moves is behind the reader, ahead of it, and right where it stands.
        for (const id of [page * 6 + 2, 60 - page * 6 - 1]) {
          if (stay.includes(id)) continue;
          if (page % 2 === 0) await send(other, `DELETE /users/${id}`);
          else await send(other, `PATCH /users/${id}`, { json: { name: `n${page}`, role: 'r9' } });
        }
        await send(other, 'POST /users', { json: { name: `n${page}`, role: 'r1' } });
        target = /<([^>]*)>; rel="next"/.exec(String(headers['link']))?.[1];
        page += 1;
        assert.ok(page < 40, 'the walk ends');
      }
      for (const id of stay) assert.equal(seen.filter((row) => row === id).length, 1, `user ${id}, once`);
    });
  }
}
