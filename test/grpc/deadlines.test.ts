import assert from 'node:assert/strict';
import { once } from 'node:events';
import { constants } from 'node:http2';
import { type TestContext, test } from 'node:test';
import { status } from '@grpc/grpc-js';
import { aborted, DomainError } from '../../src/domain/errors.ts';
import { GetUserRequest } from '../../src/grpc/users.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import type { RequestEvent, ServiceEvent } from '../../src/telemetry/events.ts';
import { getUser, usersClient } from '../kit/grpc.ts';
import { until } from '../kit/until.ts';
import { fetch } from '../support/fetch.ts';
import { callWire, connectWire, framed } from '../support/grpc-wire.ts';
import { startService } from '../support/service.ts';

const ann = { id: 1, name: 'Ann', version: 1 };

/** A service whose store exposes the signal of a call and settles it when the test settles `answer`. */
async function startHeld(t: TestContext) {
  const repository = createMemoryStore();
  const asked = Promise.withResolvers<AbortSignal>();
  const answer = Promise.withResolvers<typeof ann>();
  repository.users.get = (_id, { signal } = {}) => {
    if (signal !== undefined) asked.resolve(signal);
    return answer.promise;
  };
  const ended = Promise.withResolvers<RequestEvent>();
  const service = await startService(t, {
    repository,
    grpcPort: 0,
    observe: (event) => event.type === 'request' && event.face === 'grpc' && ended.resolve(event),
  });
  return { ...service, asked: asked.promise, answer, ended: ended.promise };
}

function kindOf({ reason }: AbortSignal): string {
  return reason instanceof DomainError ? reason.kind : String(reason);
}

async function abortOf(signal: AbortSignal): Promise<AbortSignal> {
  if (!signal.aborted) await once(signal, 'abort');
  return signal;
}

test('a passed deadline of a client aborts the store, and ends the call with DEADLINE_EXCEEDED', async (t) => {
  const { grpc, asked, answer, ended } = await startHeld(t);
  const client = usersClient(t, grpc);
  let call = getUser(client, 1, { deadline: Date.now() + 1_000 });
  // On a slow machine a call may end before it reaches the store.
  for (let ms = 2_000; (await Promise.race([asked, call.then(() => 'late')])) === 'late'; ms *= 2) {
    call = getUser(client, 1, { deadline: Date.now() + ms });
  }
  const signal = await abortOf(await asked);
  answer.reject(aborted(signal));
  assert.equal((await call).code, status.DEADLINE_EXCEEDED);
  // The client cancels its call at the deadline. A slow server may learn of that first.
  const isCancelled = kindOf(signal) === 'cancelled';
  assert.equal(kindOf(signal), isCancelled ? 'cancelled' : 'deadline-exceeded');
  assert.equal((await ended).status, isCancelled ? status.CANCELLED : status.DEADLINE_EXCEEDED);
});

test('the server ends a call at its deadline when the client does not', async (t) => {
  const { grpc, asked, answer, ended } = await startHeld(t);
  const session = await connectWire(t, grpc);
  const call = callWire(session, '/Users/GetUser', framed(Uint8Array.of(8, 1)), { 'grpc-timeout': '3000m' });
  const outcome = await call;
  assert.deepEqual([outcome.code, outcome.details], [status.DEADLINE_EXCEEDED, 'Deadline exceeded']);
  const signal = await abortOf(await asked);
  assert.equal(kindOf(signal), 'deadline-exceeded');
  answer.resolve(ann);
  assert.equal((await ended).status, status.DEADLINE_EXCEEDED, 'a late result changes nothing');
});

/** Each starts a call and returns a function that ends it. */
const cancellations: readonly [what: string, begin: (t: TestContext, grpc: string) => Promise<() => void>][] =
  [
    [
      'cancels its call',
      async (t, grpc) => {
        const request = new GetUserRequest();
        request.setId(1);
        const call = usersClient(t, grpc).getUser(request, () => undefined);
        return () => call.cancel();
      },
    ],
    [
      'resets its stream',
      async (t, grpc) => {
        const session = await connectWire(t, grpc);
        const stream = session.request({
          ':method': 'POST',
          ':path': '/Users/GetUser',
          'content-type': 'application/grpc',
        });
        stream.on('error', () => undefined).end(framed(Uint8Array.of(8, 1)));
        return () => stream.close(constants.NGHTTP2_CANCEL);
      },
    ],
    [
      'closes its connection',
      async (t, grpc) => {
        const session = await connectWire(t, grpc);
        void callWire(session, '/Users/GetUser', framed(Uint8Array.of(8, 1)));
        return () => session.destroy();
      },
    ],
  ];
for (const [what, begin] of cancellations) {
  test(`a client that ${what} aborts the work of the store, and the call is reported as CANCELLED`, async (t) => {
    const { grpc, asked, answer, ended } = await startHeld(t);
    const cancel = await begin(t, grpc);
    const signal = await asked;
    assert.equal(signal.aborted, false);
    cancel();
    assert.equal(kindOf(await abortOf(signal)), 'cancelled');
    answer.reject(aborted(signal));
    assert.equal((await ended).status, status.CANCELLED);
    const { code } = await getUser(usersClient(t, grpc), 0);
    assert.equal(code, status.INVALID_ARGUMENT, 'other clients are served');
  });
}

test('a store that first reads the signal after the client has cancelled finds it aborted', async (t) => {
  const repository = createMemoryStore();
  const asked = Promise.withResolvers<void>();
  const seen = Promise.withResolvers<string>();
  repository.users.get = async (_id, options = {}) => {
    asked.resolve();
    while (!options.isAborted) await new Promise((resolve) => setImmediate(resolve));
    const { signal } = options;
    seen.resolve(signal?.aborted ? kindOf(signal) : 'not aborted');
    return undefined;
  };
  const { grpc } = await startService(t, { repository, grpcPort: 0 });
  const request = new GetUserRequest();
  request.setId(1);
  const call = usersClient(t, grpc).getUser(request, () => undefined);
  await asked.promise;
  call.cancel();
  assert.equal(await seen.promise, 'cancelled');
});

test('a call counts as in flight until its store has ended, even when the store ignores the signal', async (t) => {
  const { http, grpc, asked, answer, ended } = await startHeld(t);
  const inFlight = async () =>
    /in_flight\{face="grpc"\} (\d+)/.exec(await (await fetch(`${http}/metrics`)).text())?.[1];
  const call = getUser(usersClient(t, grpc), 1, { deadline: Date.now() + 5_000 });
  assert.equal((await call).code, status.DEADLINE_EXCEEDED);
  await abortOf(await asked);
  assert.equal(await inFlight(), '1');
  answer.resolve(ann);
  assert.notEqual((await ended).status, status.OK);
  assert.equal(await inFlight(), '0');
});

test('the signal of a successful call is not aborted when its deadline passes later', async (t) => {
  const { grpc, asked, answer, ended } = await startHeld(t);
  answer.resolve(ann);
  const deadline = Date.now() + 5_000;
  const client = usersClient(t, grpc);
  const { code } = await getUser(client, 1, { deadline });
  assert.equal(code, status.OK);
  assert.equal((await ended).status, status.OK);
  await until(() => Date.now() > deadline, 'the deadline has passed');
  await getUser(client, 0);
  assert.equal((await asked).aborted, false);
});

test('a failure of the store is reported even after the client has disconnected', async (t) => {
  const repository = createMemoryStore();
  const asked = Promise.withResolvers<AbortSignal>();
  const answer = Promise.withResolvers<never>();
  repository.users.get = (_id, { signal } = {}) => {
    if (signal !== undefined) asked.resolve(signal);
    return answer.promise;
  };
  const ended = Promise.withResolvers<RequestEvent>();
  const failed = Promise.withResolvers<void>();
  const observe = (event: ServiceEvent): void => {
    if (event.type === 'request') ended.resolve(event);
    if (event.type === 'failure') failed.resolve();
  };
  const options = { repository, grpcPort: 0, expectFailures: true, observe };
  const { grpc, failures } = await startService(t, options);
  const session = await connectWire(t, grpc);
  void callWire(session, '/Users/GetUser', framed(Uint8Array.of(8, 1)));
  const signal = await asked.promise;
  session.destroy();
  await abortOf(signal);
  answer.reject(new Error('the disk is gone'));
  assert.equal((await ended.promise).status, status.CANCELLED);
  await failed.promise;
  const causes = failures().map(({ cause }) => String(cause));
  assert.deepEqual(causes, ['Error: the disk is gone']);
});

for (const timeout of ['597H', '00000597H', '35792M', '2147484S']) {
  test(`a call with the long grpc-timeout ${timeout} does not end before its store responds`, async (t) => {
    const { grpc, asked, answer } = await startHeld(t);
    const session = await connectWire(t, grpc);
    const body = framed(Uint8Array.of(8, 1));
    const call = callWire(session, '/Users/GetUser', body, { 'grpc-timeout': timeout });
    const signal = await asked;
    const client = usersClient(t, grpc);
    const until = performance.now() + 20;
    while (performance.now() < until) await getUser(client, 0);
    assert.equal(signal.aborted, false);
    answer.resolve(ann);
    assert.equal((await call).code, status.OK);
  });
}

for (const timeout of ['000H', '00000M', '0000001S']) {
  test(`a call with leading zeros in its grpc-timeout ${timeout} ends at its deadline`, async (t) => {
    const { grpc } = await startHeld(t);
    const session = await connectWire(t, grpc);
    const body = framed(Uint8Array.of(8, 1));
    const { code } = await callWire(session, '/Users/GetUser', body, { 'grpc-timeout': timeout });
    assert.equal(code, status.DEADLINE_EXCEEDED);
  });
}

for (const timeout of ['', '1', '1x', 'S']) {
  test(`a call with the invalid grpc-timeout ${JSON.stringify(timeout)} returns INTERNAL and does not reach the store`, async (t) => {
    const repository = createMemoryStore();
    const asked: number[] = [];
    repository.users.get = async (id) => void asked.push(id) as undefined;
    const { grpc } = await startService(t, { repository, grpcPort: 0 });
    const session = await connectWire(t, grpc);
    const body = framed(Uint8Array.of(8, 1));
    const { code } = await callWire(session, '/Users/GetUser', body, { 'grpc-timeout': timeout });
    assert.equal(code, status.INTERNAL);
    assert.deepEqual(asked, []);
  });
}
