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

// The guarantees of the service, tested from the view of its clients. Each test uses several copies of the
// service if the store allows them.

const stores: readonly [what: string, start: (t: TestContext) => Promise<RunningService[]>][] = [
  ['memory', async (t) => [await startService(t, { grpcPort: 0 })]],
  ['two copies over one SQLite file', (t) => startEach(t, 2)],
];

async function startEach(t: TestContext, count: number): Promise<RunningService[]> {
  const folder = mkdtempSync(join(tmpdir(), 'guarantees-'));
  const database = `sqlite:${join(folder, 'users.db')}`;
  const running: RunningService[] = [];
  for (let i = 0; i < count; i += 1) running.push(await startService(t, { database, grpcPort: 0 }));
  // Hooks run in order, so the services are closed by now.
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return running;
}

const jsonType = { 'content-type': 'application/json' };

for (const [what, start] of stores) {
  test(`concurrent updates with If-Match lose no update: ${what}`, async (t) => {
    const copies = await start(t);
    const [first] = copies.map(({ http }) => http);
    await send(first ?? '', 'POST /users', { json: { name: '0' } });
    const increments = 5;
    const clients = 4;
    let conflicts = 0;
    // Each client increments a number many times. After a conflict it reads the number again.
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
    assert.ok(conflicts > 0, 'the clients had no conflict');
    for (const { http, grpc } of copies) {
      const { json, headers } = await send(http, 'GET /users/1');
      assert.deepEqual(json, { id: 1, name: String(increments * clients) });
      assert.equal(headers.etag, `"${increments * clients + 1}"`);
      const { user } = await getUser(usersClient(t, grpc), 1);
      assert.deepEqual(user, json, 'the gRPC API returns the same user');
    }
  });

  test(`exactly one of many deletions of the same user succeeds: ${what}`, async (t) => {
    const copies = await start(t);
    await send(copies[0]?.http ?? '', 'POST /users', { json: { name: 'Ann' } });
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, i) => send(copies[i % copies.length]?.http ?? '', 'DELETE /users/1')),
    );
    assert.deepEqual(answers.map(({ status }) => status).sort(), [204, ...Array(9).fill(404)]);
  });

  test(`repeated POSTs with one Idempotency-Key create one user: ${what}`, async (t) => {
    const copies = await start(t);
    const bases = copies.map(({ http }) => http);
    for (let round = 0; round < 5; round += 1) {
      const key = randomUUID();
      // A retry while the first request is still running gets 409, and is sent again.
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
      assert.equal(new Set(answers.map(({ text }) => text)).size, 1, 'all responses are equal');
      const firsts = answers.filter(({ headers }) => headers['idempotency-replayed'] === undefined);
      assert.equal(firsts.length, 1, 'only one response is not a replay');
    }
    for (const base of bases) {
      const { json } = await send(base, 'GET /users?limit=100');
      assert.equal(Array.isArray(json) && json.length, 5);
    }
  });

  test(`a POST whose response was lost can be retried: ${what}`, async (t) => {
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
      // The first rounds lose the request, later rounds its response.
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

  for (const sort of ['id', 'role,-name']) {
    test(`following the next links sorted by ${sort} skips no user while others write: ${what}`, async (t) => {
      const copies = await start(t);
      const base = copies[0]?.http ?? '';
      const other = copies.at(-1)?.http ?? '';
      const stay: number[] = [];
      for (let i = 0; i < 60; i += 1) {
        const json = { name: `n${(i * 37) % 20}`, ...(i % 3 > 0 && { role: `r${i % 3}` }) };
        const created = await send(base, 'POST /users', { json });
        // Every third user will be deleted or renamed while the pages are read.
        if (i % 3 !== 1) stay.push((created.json as { id: number }).id);
      }
      const seen: number[] = [];
      let target: string | undefined = `/users?limit=7&sort=${sort}`;
      let page = 0;
      while (target !== undefined) {
        const { json, headers }: Answer = await send([base, other][page % 2] ?? '', `GET ${target}`);
        assert.ok(Array.isArray(json) && json.length <= 7);
        seen.push(...json.map(({ id }) => id));
        // Change users before, after and at the position of the reader.
        for (const id of [page * 6 + 2, 60 - page * 6 - 1]) {
          if (stay.includes(id)) continue;
          if (page % 2 === 0) await send(other, `DELETE /users/${id}`);
          else await send(other, `PATCH /users/${id}`, { json: { name: `n${page}`, role: 'r9' } });
        }
        await send(other, 'POST /users', { json: { name: `n${page}`, role: 'r1' } });
        target = /<([^>]*)>; rel="next"/.exec(String(headers['link']))?.[1];
        page += 1;
        assert.ok(page < 40, 'the next links do not end');
      }
      for (const id of stay)
        assert.equal(seen.filter((row) => row === id).length, 1, `user ${id} must appear once`);
    });
  }
}
