import assert from 'node:assert/strict';
import { channel } from 'node:diagnostics_channel';
import { describe, it, type TestContext } from 'node:test';
import { inspect } from 'node:util';
import type { FailureEvent, RefusedEvent, RequestEvent, ServiceEvent } from '../../src/telemetry/events.ts';
import { createLog, type LineSink, type LogFormat } from '../../src/telemetry/log.ts';
import { fetch } from '../support/fetch.ts';
import { startService } from '../support/service.ts';

const request: RequestEvent = {
  type: 'request',
  face: 'http',
  id: 'r1',
  method: 'GET',
  route: '/users/{id}',
  traceparent: undefined,
  path: '/users/1',
  status: 200,
  durationMs: 1.234,
  longLived: false,
  key: undefined,
};
const refused: RefusedEvent = { type: 'refused', face: 'http', status: 400, reason: 'malformed' };

/** A log with a mocked clock, and its output. */
function start(t: TestContext, format: LogFormat = 'json') {
  const now = Date.UTC(2030, 0, 2, 3, 4, 5, 678);
  t.mock.timers.enable({ apis: ['setTimeout', 'setInterval', 'Date'], now });
  const writes: string[] = [];
  const sink = { writableLength: 0, write: (text: string) => writes.push(text) };
  const log = createLog(format, sink, '1.2.3');
  const lines = () => writes.join('').split('\n').slice(0, -1);
  const events = (): Record<string, unknown>[] => lines().map((line) => JSON.parse(line));
  /** One field of each event. */
  const all = (field: string) => events().map((event) => event[field]);
  return { ...log, sink, writes, lines, events, all };
}

describe('a log line', () => {
  const time = '2030-01-02T03:04:05.678Z';
  const got = { face: 'http', id: 'r1', method: 'GET', status: 200, durationMs: 1.234 };
  const rows: [event: ServiceEvent, json: object, pretty: RegExp][] = [
    [
      { type: 'listening', http: 'http://h:1', grpc: 'h:2' },
      { time, event: 'listening', http: 'http://h:1', grpc: 'h:2', version: '1.2.3' },
      /^03:04:05.678 listening on http:\/\/h:1 and gRPC on h:2, version 1.2.3$/,
    ],
    [
      { type: 'listening', http: 'http://h:1' },
      { time, event: 'listening', http: 'http://h:1', version: '1.2.3' },
      /^03:04:05.678 listening on http:\/\/h:1, version 1.2.3$/,
    ],
    [
      { type: 'listening', http: 'http://h:1', files: 3 },
      { time, event: 'listening', http: 'http://h:1', files: 3, version: '1.2.3' },
      /^03:04:05.678 listening on http:\/\/h:1, 3 static files, version 1.2.3$/,
    ],
    [
      request,
      { time, event: 'request', ...got, route: '/users/{id}', path: '/users/1' },
      /^03:04:05.678 200 GET \/users\/1 1.2 ms r1$/,
    ],
    [
      { ...request, path: '/a"\n', traceparent: '"\\', route: undefined, key: 'ci' },
      { time, event: 'request', ...got, path: '/a"\n', traceparent: '"\\', key: 'ci' },
      /^03:04:05.678 200 GET \/a"\n 1.2 ms r1$/,
    ],
    [
      refused,
      { time, event: 'refused', face: 'http', status: 400, reason: 'malformed' },
      /^03:04:05.678 400 refused: malformed$/,
    ],
    [{ type: 'draining' }, { time, event: 'draining' }, /^03:04:05.678 draining$/],
    [{ type: 'reloaded' }, { time, event: 'reloaded' }, /^03:04:05.678 reloaded$/],
    [
      { type: 'created', path: '/srv/users.db' },
      { time, event: 'created', path: '/srv/users.db' },
      /^03:04:05.678 created \/srv\/users.db, which has no records yet$/,
    ],
    [
      { type: 'warning', message: 'fsync is off' },
      { time, event: 'warning', message: 'fsync is off' },
      /^03:04:05.678 warning: fsync is off$/,
    ],
    [
      { type: 'failure', where: 'http', requestId: 'r1', cause: 'lost' },
      { time, event: 'failure', where: 'http', requestId: 'r1', cause: 'lost' },
      /^03:04:05.678 failure in http \(r1\): lost$/,
    ],
    [
      { type: 'failure', where: 'store', cause: 'lost' },
      { time, event: 'failure', where: 'store', cause: 'lost' },
      /^03:04:05.678 failure in store: lost$/,
    ],
    [{ type: 'closed' }, { time, event: 'closed' }, /^03:04:05.678 closed$/],
  ];

  it('in the pretty format has no control character of a path, which a terminal could obey', (t) => {
    const log = start(t, 'pretty');
    log.observe({ ...request, path: '/Users/\u009b31m\u001b[2J' });
    log.flush();
    assert.match(log.lines().join('\n'), / \/Users\/\\u009b31m\\u001b\[2J /);
  });

  for (const text of ['\u009b31m', 'a\u0085b', '\u0080\u009f', '\u001b[2J', 'é']) {
    it(`in JSON has no control character of ${inspect(text)}, which a client sent`, (t) => {
      const log = start(t);
      log.observe({ ...request, path: `/${text}` });
      log.observe({ ...request, traceparent: text });
      log.observe({ type: 'failure', where: 'store', cause: text });
      log.flush();
      assert.doesNotMatch(log.lines().join(''), /\p{Cc}/u);
      const [first, second, third] = log.events();
      assert.equal(first?.['path'], `/${text}`);
      assert.deepEqual([second?.['traceparent'], third?.['cause']], [text, text]);
    });
  }

  for (const [event, json, pretty] of rows) {
    it(`a log line for a ${event.type} event is one JSON object`, (t) => {
      const log = start(t);
      log.observe(event);
      log.flush();
      assert.deepEqual(log.events(), [json]);
    });
    it(`a log line for a ${event.type} event has a readable form`, (t) => {
      const log = start(t, 'pretty');
      log.observe(event);
      log.flush();
      assert.match(log.lines().join('\n'), pretty);
    });
  }

  it('a log line is not printed for any event when the log is off', (t) => {
    const log = start(t, 'off');
    for (const [event] of rows) log.observe(event);
    log.flush();
    assert.deepEqual(log.writes, []);
  });

  it('a log line for a failure contains all causes', (t) => {
    const log = start(t);
    const cause = new Error('outer', { cause: { hosts: [new Error('inner', { cause: 'reset' })] } });
    log.observe({ type: 'failure', where: 'store', requestId: 'r1', cause });
    log.flush();
    const [line] = log.events();
    assert.equal(line?.['requestId'], 'r1');
    assert.match(String(line?.['cause']), /^Error: outer[\s\S]*inner[\s\S]*reset/);
  });

  for (const cause of [undefined, null, 'text', 7n, Symbol('x'), Object.create(null), () => undefined]) {
    it(`a log line for a failure whose cause is a value of type ${typeof cause} is valid`, (t) => {
      const log = start(t);
      log.observe({ type: 'failure', where: 'http', cause });
      log.flush();
      assert.equal(log.events()[0]?.['event'], 'failure');
    });
  }

  it('a log line never contains a line break from its values', (t) => {
    const log = start(t);
    log.observe({ ...request, path: '/\n\u2028"\\', traceparent: 'a\r\nb' });
    log.flush();
    assert.equal(log.lines().length, 1);
    assert.equal(log.events()[0]?.['path'], '/\n\u2028"\\');
  });

  for (const format of ['json', 'pretty'] as const) {
    it(`a log line in the format ${format} fits into one atomic write of a pipe, whatever the client sends`, (t) => {
      const log = start(t, format);
      const [id, key] = ['i'.repeat(64), 'k'.repeat(64)];
      for (const character of ['x', '"', '\u0080', '\u00fc', '\u20ac', '\u{1f600}', '\u0001', '\ud800']) {
        for (const long of [character.repeat(1_000), character.repeat(16_000)]) {
          log.observe({ ...request, method: 'UNSUBSCRIBE', path: long, traceparent: long, id, key });
          log.observe({ type: 'failure', where: 'http', requestId: id, key, cause: long });
        }
      }
      log.flush();
      assert.equal(log.lines().length, 32);
      for (const line of log.lines()) {
        assert.ok(Buffer.byteLength(line) < 4_096, `${line.slice(0, 200)}…`);
        assert.doesNotMatch(line, /\p{Cc}/u);
      }
      assert.ok(log.writes.length < 25, `${log.writes.length} writes, although short lines share one`);
    });
  }

  it('a log line does not end a cause within a character', (t) => {
    const log = start(t);
    for (const start of ['', 'a']) {
      log.observe({ type: 'failure', where: 'store', cause: start + '😀'.repeat(3_000) });
      log.flush();
    }
    for (const line of log.lines()) assert.ok(JSON.parse(line).cause.isWellFormed(), line.slice(-50));
  });

  it('a log line contains the first 2,048 characters of a path', (t) => {
    const log = start(t);
    log.observe({ ...request, path: '/'.padEnd(3_000, 'x') });
    log.flush();
    assert.equal(log.events()[0]?.['path'], `${'/'.padEnd(2_048, 'x')}…`);
  });
});

/** A sink whose writes fail until `isFull` is false. */
function fullDisk(writableLength: number) {
  const disk = { file: '', isFull: true };
  const sink: LineSink = {
    writableLength,
    write(text, done) {
      if (!disk.isFull) disk.file += text;
      done(disk.isFull ? new Error('ENOSPC: no space left on device, write') : undefined);
    },
  };
  return Object.assign(disk, { sink });
}

describe('writing log lines', () => {
  it('collects the lines of 20 ms into one write', (t) => {
    const log = start(t);
    log.observe(request);
    log.observe(request);
    assert.deepEqual(log.writes, []);
    t.mock.timers.tick(20);
    assert.equal(log.writes.length, 1);
    assert.equal(log.lines().length, 2);
  });

  it('happens immediately for events other than requests', (t) => {
    const log = start(t);
    log.observe(request);
    log.observe({ type: 'draining' });
    assert.deepEqual(log.all('event'), ['request', 'draining']);
  });

  it('passes on complete lines, at most 4 KiB at a time', (t) => {
    const log = start(t);
    for (let n = 0; n < 200; n += 1) log.observe({ ...request, id: 'ü'.repeat(20) });
    log.flush();
    assert.ok(log.writes.length > 5);
    for (const text of log.writes) {
      assert.ok(Buffer.byteLength(text) <= 4_096);
      assert.ok(text.endsWith('\n'));
    }
    assert.equal(log.lines().length, 200);
  });

  it('passes on at most 4 KiB together with a line about lost lines, and nothing more at the end', async () => {
    for (let length = 1_800; length < 2_000; length += 10) {
      const writes: string[] = [];
      const write: LineSink['write'] = (text, done) =>
        done(writes.push(text) === 1 ? new Error('ENOSPC') : undefined);
      const log = createLog('json', { writableLength: 0, write }, '1.0.0');
      log.observe({ type: 'draining' });
      // As it is, or shortened.
      log.observe({ ...request, path: 'ü'.repeat(length) });
      log.flush();
      await log.end();
      assert.equal(writes.length, 2);
      const [, text = ''] = writes;
      assert.match(text, /"dropped".*\n.*"request"/);
      assert.ok(Buffer.byteLength(text) <= 4_096, `${Buffer.byteLength(text)} bytes`);
    }
  });

  it('waits until the previous text has been written, and continues in order', (t) => {
    const log = start(t);
    log.sink.writableLength = 1;
    for (let n = 0; n < 100; n += 1) log.observe({ ...request, id: `${n}` });
    t.mock.timers.tick(20);
    assert.deepEqual(log.writes, []);
    log.sink.writableLength = 0;
    log.observe(request);
    t.mock.timers.tick(20);
    assert.deepEqual(log.all('id'), [...Array.from({ length: 100 }, (_, n) => `${n}`), 'r1']);
    for (const text of log.writes) assert.ok(Buffer.byteLength(text) <= 4_096);
  });

  it('continues with the next text as soon as one has been written', (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const writes: string[] = [];
    let finish: (() => void) | undefined;
    const sink = {
      writableLength: 0,
      write(text: string, done: () => void) {
        writes.push(text);
        sink.writableLength = text.length;
        finish = () => {
          sink.writableLength = 0;
          done();
        };
      },
    };
    const log = createLog('json', sink, '1.2.3');
    for (let n = 0; n < 100; n += 1) log.observe(request);
    t.mock.timers.tick(20);
    assert.equal(writes.length, 1);
    for (let end = finish; end !== undefined; end = finish) {
      finish = undefined;
      end();
    }
    assert.equal(writes.join('').split('\n').length, 101);
  });

  it('drops lines beyond 4 MiB while the reader is blocked, and then reports their number', (t) => {
    const log = start(t);
    log.sink.writableLength = 1;
    for (let n = 0; n < 40_000; n += 1) log.observe(request);
    t.mock.timers.tick(20);
    log.sink.writableLength = 0;
    log.observe(request);
    log.flush();
    log.observe(request);
    log.flush();
    assert.ok(log.writes.join('').length < 5_000_000);
    const missing = log
      .events()
      .reduce((sum, { event, count }) => sum + (event === 'dropped' ? Number(count) : 0), 0);
    assert.equal(log.events().filter(({ event }) => event === 'request').length + missing, 40_002);
    assert.ok(missing > 1_000, `${missing}`);
  });

  it('reports the number of lines that could not be written, for example on a full disk', (t) => {
    t.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] });
    let [file, isFull] = ['', true];
    const sink: LineSink = {
      writableLength: 0,
      write(text, done) {
        // A full disk may accept the beginning of a text.
        file += isFull ? text.slice(0, 10) : text;
        done(isFull ? new Error('ENOSPC: no space left on device, write') : undefined);
      },
    };
    const log = createLog('json', sink, '1.2.3');
    const observe = (id: string) => {
      log.observe({ ...request, id });
      t.mock.timers.tick(20);
    };
    observe('lost');
    observe('lost too');
    isFull = false;
    observe('first');
    observe('second');
    const events = file.split('\n').flatMap((line) => (line.length > 10 ? [JSON.parse(line)] : []));
    const shown = events.map(({ id, event, count }) => id ?? `${event} ${count}`);
    assert.deepEqual(shown, ['dropped 2', 'first', 'second']);
  });

  it('counts the lines of a lost report about dropped lines', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] });
    const disk = fullDisk(1);
    const log = createLog('json', disk.sink, '1.2.3');
    for (let n = 0; n < 40_000; n += 1) log.observe(request);
    log.flush();
    log.observe(request);
    log.flush();
    disk.isFull = false;
    for (let n = 0; n < 2; n += 1) {
      log.observe(request);
      log.flush();
    }
    const events = disk.file.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line)]));
    const shown = events.map(({ event, count }) => count ?? event);
    assert.deepEqual(shown, [40_001, 'request', 'request']);
    assert.equal(log.lost(), 40_001);
  });

  it('counts the lines of a lost report that shares a write with earlier lines', (t) => {
    t.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] });
    let [file, isFull] = ['', true];
    const sink = {
      writableLength: 1,
      write(text: string, done: (error?: Error) => void) {
        // From now on, the reader is blocked again.
        sink.writableLength = 1;
        if (!isFull) file += text;
        done(isFull ? new Error('ENOSPC: no space left on device, write') : undefined);
      },
    };
    const log = createLog('json', sink, '1.2.3');
    for (let n = 0; n < 40_000; n += 1) log.observe(request);
    // Makes room for the report.
    sink.writableLength = 0;
    t.mock.timers.tick(20);
    log.observe(request);
    log.flush();
    isFull = false;
    for (let n = 0; n < 2; n += 1) {
      log.observe(request);
      log.flush();
    }
    const counts = file.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line).count]));
    assert.deepEqual(counts, [40_001, undefined, undefined]);
  });

  it('reports at its end the lines that could not be written before', async () => {
    const disk = fullDisk(0);
    const log = createLog('json', disk.sink, '1.2.3');
    log.observe({ type: 'draining' });
    disk.isFull = false;
    await log.end();
    assert.partialDeepStrictEqual(JSON.parse(disk.file), { event: 'dropped', count: 1 });
  });

  it('sends the remaining lines to a slow reader in order when the service ends', async (t) => {
    const log = start(t);
    t.mock.timers.reset();
    log.sink.writableLength = 1;
    for (let n = 0; n < 100; n += 1) log.observe({ ...request, id: `${n}` });
    const ended = log.end();
    assert.deepEqual(log.writes, []);
    log.sink.writableLength = 0;
    await ended;
    assert.deepEqual(
      log.all('id'),
      Array.from({ length: 100 }, (_, n) => `${n}`),
    );
  });

  it('waits at most 2 s for a reader when the service ends, and reports the number of dropped lines', async (t) => {
    const log = start(t);
    t.mock.timers.reset();
    log.sink.writableLength = 1;
    for (let n = 0; n < 100; n += 1) log.observe(request);
    await log.end();
    assert.deepEqual([log.all('event'), log.all('count')], [['dropped'], [100]]);
    log.sink.writableLength = 0;
    log.observe({ type: 'closed' });
    assert.deepEqual(
      log.all('event'),
      ['dropped', 'closed'],
      'a line that counts as lost is not written later',
    );
  });

  it('ends only after a slow reader has accepted the number of lines that were lost', async () => {
    const disk = fullDisk(0);
    const log = createLog('json', disk.sink, '1.2.3');
    log.observe({ type: 'draining' });
    let writes = 0;
    const { promise: written, resolve: onWrite } = Promise.withResolvers<void>();
    disk.sink.write = () => {
      writes += 1;
      Object.assign(disk.sink, { writableLength: 1 });
      onWrite();
    };
    let isEnded = false;
    const ended = log.end().then(() => {
      isEnded = true;
    });
    await written;
    await new Promise(setImmediate);
    assert.deepEqual([writes, isEnded], [1, false]);
    Object.assign(disk.sink, { writableLength: 0 });
    await ended;
  });

  it('does not keep a process running after the end, even with the number of a flood', async () => {
    const timers = () => process.getActiveResourcesInfo().filter((type) => type === 'Timeout').length;
    const before = timers();
    const log = createLog('json', fullDisk(0).sink, '1.2.3');
    for (let n = 0; n < 2; n += 1) log.observe(refused);
    await log.end();
    assert.equal(timers(), before);
  });

  it('includes all waiting lines before a crash, even with a slow reader', (t) => {
    const log = start(t);
    log.sink.writableLength = 1;
    log.observe(request);
    log.flush();
    assert.equal(log.lines().length, 1);
  });
});

describe('a flood of log events', () => {
  it('of rejected connections becomes about one line per second with their number', (t) => {
    const log = start(t);
    for (let ms = 0; ms < 2_500; ms += 10) {
      log.observe(refused);
      t.mock.timers.tick(10);
    }
    log.flush();
    assert.ok(log.lines().length <= 4, `${log.lines().length} lines`);
    const total = log.events().reduce((sum, { count }) => sum + Number(count ?? 1), 0);
    assert.equal(total, 250);
  });

  it('of failures keeps the first ones and the last one of a second', (t) => {
    const log = start(t);
    for (let n = 0; n < 500; n += 1) log.observe({ type: 'failure', where: 'store', cause: `no ${n}` });
    t.mock.timers.tick(1_100);
    log.flush();
    const events = log.events();
    assert.equal(events.length, 21);
    assert.equal(events[0]?.['cause'], 'no 0');
    assert.deepEqual([events[20]?.['cause'], events[20]?.['count']], ['no 499', 480]);
  });

  it('becomes lines with their number of events in the pretty format, unless that is 1', (t) => {
    const log = start(t, 'pretty');
    for (const number of [21, 21]) {
      for (let n = 0; n < number; n += 1) log.observe({ type: 'failure', where: 'store', cause: 'lost' });
      t.mock.timers.tick(1_000);
    }
    log.flush();
    const numbers = log.lines().map((line) => /lost(.*)/.exec(line)?.[1]);
    const shown = numbers.filter((text) => text !== '');
    assert.deepEqual(shown, [' (2 times)']);
  });

  it('of failures of the store does not hide a failure elsewhere', (t) => {
    const log = start(t);
    const fail = (where: FailureEvent['where']) => log.observe({ type: 'failure', where, cause: where });
    for (let n = 0; n < 25; n += 1) fail('store');
    fail('process');
    for (let n = 0; n < 25; n += 1) fail('store');
    log.flush();
    const [process] = log.events().filter(({ where }) => where === 'process');
    assert.deepEqual([process?.['cause'], process?.['count']], ['process', undefined]);
    assert.equal(log.events().at(-1)?.['count'], 30);
  });

  it('of rejected connections has a count for each API and status', (t) => {
    const log = start(t);
    log.observe(refused);
    for (let n = 0; n < 500; n += 1) log.observe({ ...refused, status: 503 });
    log.observe({ ...refused, face: 'grpc', status: 14 });
    log.observe(refused);
    log.flush();
    const shown = log.events().map(({ face, status, count }) => `${face} ${status} ${count ?? ''}`.trim());
    assert.deepEqual(shown, ['http 400', 'http 503', 'grpc 14', 'http 400', 'http 503 499']);
  });

  it('does not change the next line after it has ended', (t) => {
    const log = start(t);
    log.observe(refused);
    t.mock.timers.tick(3_000);
    log.observe(refused);
    log.flush();
    assert.deepEqual(log.all('count'), [undefined, undefined]);
  });

  it('is counted for a second from its first event, and the next event after a quiet second is printed at once', (t) => {
    const log = start(t);
    const countsAfter = (ms: number) => {
      for (let left = ms; left > 0; left -= 20) t.mock.timers.tick(20);
      return log.all('count');
    };
    for (let n = 0; n < 3; n += 1) log.observe(refused);
    assert.deepEqual(countsAfter(900), [undefined]);
    assert.deepEqual(countsAfter(200), [undefined, 2]);
    assert.deepEqual(countsAfter(1_400), [undefined, 2]);
    for (let n = 0; n < 3; n += 1) log.observe(refused);
    assert.deepEqual(countsAfter(900), [undefined, 2, undefined]);
    assert.deepEqual(countsAfter(200), [undefined, 2, undefined, 2]);
  });

  it('is reported with its number when the service ends', async (t) => {
    const log = start(t);
    for (let n = 0; n < 3; n += 1) log.observe(refused);
    await log.end();
    assert.deepEqual(log.all('count'), [undefined, 2]);
  });

  it('of requests keeps one line for each', (t) => {
    const log = start(t);
    for (let n = 0; n < 100; n += 1) log.observe(request);
    log.flush();
    assert.equal(log.lines().length, 100);
  });
});

describe('the diagnostics channels', () => {
  it('publish every event of a running service', async (t) => {
    const received: unknown[] = [];
    const names = ['listening', 'request', 'refused', 'failure', 'draining', 'closed'];
    const take = (event: unknown) => received.push(event);
    for (const name of names) channel(`users-service:${name}`).subscribe(take);
    const { http, service, events } = await startService(t);
    await (await fetch(`${http}/health`)).text();
    await service.close();
    assert.deepEqual(received, events);
    for (const name of names) assert.ok(channel(`users-service:${name}`).unsubscribe(take));
  });
});
