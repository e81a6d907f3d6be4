import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { type TestContext, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Scheduler } from '../../src/http/scheduler.ts';

function busy(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

/** Counts the turns of the event loop until the condition holds. */
async function turnsUntil(done: () => boolean): Promise<number> {
  let count = 0;
  for (; !done(); count += 1) {
    assert.ok(count < 10_000, 'the condition never holds');
    await nextTurn();
  }
  return count;
}

for (const [what, add] of [
  ['tasks run', 'addTask'],
  ['replies are sent', 'addReply'],
] as const) {
  test(`${what} in order, for at most 2 ms in each turn of the event loop`, async () => {
    const scheduler = new Scheduler();
    const order: string[] = [];
    for (const name of ['a', 'b', 'c']) {
      scheduler[add](() => {
        order.push(name);
        busy(5);
        return false;
      });
    }
    const count = await turnsUntil(() => order.length === 3);
    assert.deepEqual(order, ['a', 'b', 'c']);
    assert.ok(count >= 3, `${count} turns`);
  });
}

test('several short tasks run in one turn of the event loop', async () => {
  const scheduler = new Scheduler();
  let done = 0;
  for (let i = 0; i < 10; i += 1) {
    scheduler.addTask(() => {
      done += 1;
      return false;
    });
  }
  assert.ok((await turnsUntil(() => done === 10)) <= 2);
});

for (const [title, isRunning, expected] of [
  ['the promise callbacks of a task run before the next task', true, ['callback', 'second']],
  ['a task that has ended does not wait for promise callbacks', false, ['second', 'callback']],
] as const)
  test(title, async () => {
    const scheduler = new Scheduler();
    const order: string[] = [];
    scheduler.addTask(() => {
      const goOn = async () => {
        for (let i = 0; i < 10; i += 1) await undefined;
        order.push('callback');
      };
      goOn();
      return isRunning;
    });
    scheduler.addTask(() => {
      order.push('second');
      return false;
    });
    await turnsUntil(() => order.length === 2);
    assert.deepEqual(order, expected);
  });

test('responses that have started continue before streams and new tasks', async () => {
  const scheduler = new Scheduler();
  const order: string[] = [];
  scheduler.addTask(() => {
    order.push('new');
    return false;
  });
  void scheduler.pause().then(() => order.push('stream'));
  void scheduler.wait().then(() => order.push('begun'));
  await turnsUntil(() => order.length === 3);
  assert.equal(order[0], 'begun');
});

test('replies are sent in order at the end of a turn, before waiting tasks, and leave the turn free', async () => {
  const scheduler = new Scheduler();
  const order: string[] = [];
  const does = (what: string) => () => {
    order.push(what);
    return false;
  };
  for (const name of ['a', 'b']) {
    assert.ok(scheduler.admit(1_000));
    order.push(`run ${name}`);
    scheduler.addReply(does(`send ${name}`));
  }
  scheduler.addTask(does('task'));
  await turnsUntil(() => order.length === 5);
  assert.deepEqual(order, ['run a', 'run b', 'send a', 'send b', 'task']);
});

for (const what of ['addTask', 'addReply'] as const) {
  test(`${what} calls its function with the AsyncLocalStorage of its caller`, async () => {
    const scheduler = new Scheduler();
    const storage = new AsyncLocalStorage<string>();
    const found: unknown[] = [];
    for (const name of ['a', 'b']) {
      storage.run(name, () =>
        scheduler[what](() => {
          found.push(storage.getStore());
          return false;
        }),
      );
    }
    await turnsUntil(() => found.length === 2);
    assert.deepEqual(found, ['a', 'b']);
  });
}

for (const [chunkCount, taskCount, expected] of [
  [8, 8, ['cccctttt', 'ttttcccc']],
  [2, 10, ['cctttttt', 'tttt']],
  [10, 2, ['ccccttcc', 'cccc']],
] as const) {
  test(`${chunkCount} chunks and ${taskCount} new requests share each turn in halves, and none is idle`, async (t) => {
    // Each of them takes 0.25 ms of a turn of 2 ms.
    let now = 0;
    t.mock.method(performance, 'now', () => now);
    const scheduler = new Scheduler();
    let turn = '';
    const run = (what: string) => {
      now += 0.25;
      turn += what;
      return false;
    };
    for (let i = 0; i < chunkCount; i += 1) void scheduler.pause().then(() => run('c'));
    for (let i = 0; i < taskCount; i += 1) scheduler.addTask(() => run('t'));
    const turns: string[] = [];
    for (let left = 10; turns.join('').length < chunkCount + taskCount; left -= 1) {
      assert.ok(left > 0, `only ${turns} in ten turns`);
      turn = '';
      await nextTurn();
      turns.push(turn);
    }
    assert.deepEqual(turns, expected);
  });
}

test('long chunks of streams count as time of a turn, because Node writes them after it', async () => {
  const scheduler = new Scheduler();
  let resumed = 0;
  for (let i = 0; i < 20; i += 1) {
    scheduler.pause(64 * 1024).then(() => {
      resumed += 1;
    });
  }
  const counts = [0];
  while (resumed < 20) {
    await nextTurn();
    counts.push(resumed);
  }
  const most = Math.max(...counts.map((count, turn) => count - (counts[turn - 1] ?? 0)));
  assert.ok(most <= 5, `${most} chunks in a turn`);
});

/** Starts streams that always have another chunk until the test ends. Returns how many chunks they have sent. */
function startStreams(t: TestContext, scheduler: Scheduler, sendChunk = () => {}): () => number {
  let chunks = 0;
  const stream = async () => {
    for (;;) {
      await scheduler.pause(64 * 1024);
      if (t.signal.aborted) return;
      sendChunk();
      chunks += 1;
    }
  };
  for (let i = 0; i < 20; i += 1) void stream();
  return () => chunks;
}

test('a new request starts within three turns while streams always have another chunk', async (t) => {
  const scheduler = new Scheduler();
  startStreams(t, scheduler);
  for (let i = 0; i < 10; i += 1) {
    await nextTurn();
    let hasRun = false;
    scheduler.addTask(() => {
      hasRun = true;
      return false;
    });
    const count = await turnsUntil(() => hasRun);
    assert.ok(count <= 3, `${count} turns`);
  }
});

for (const taskMs of [0, 0.3, 3]) {
  test(`streams continue while new requests of ${taskMs} ms always wait`, async (t) => {
    const scheduler = new Scheduler();
    const chunks = startStreams(t, scheduler);
    const task = () => {
      // The clock of the next test may stand still.
      if (t.signal.aborted) return false;
      busy(taskMs);
      scheduler.addTask(task);
      return false;
    };
    for (let i = 0; i < 20; i += 1) scheduler.addTask(task);
    const count = await turnsUntil(() => chunks() >= 20);
    assert.ok(count <= 42, `${count} turns for 20 chunks`);
  });
}

test('many short requests start for each chunk that takes a whole turn', async (t) => {
  const scheduler = new Scheduler();
  const chunks = startStreams(t, scheduler, () => busy(2));
  let started = 0;
  for (let i = 0; i < 200; i += 1) {
    scheduler.addTask(() => {
      busy(0.05);
      started += 1;
      return false;
    });
  }
  await turnsUntil(() => started === 200);
  assert.ok(chunks() < 100, `${chunks()} chunks before 200 requests had started`);
});

test('the oldest and the newest connection are accepted in turns after no more arrive', async () => {
  const scheduler = new Scheduler();
  const order: number[] = [];
  for (let i = 0; i < 6; i += 1) scheduler.addConnection(() => order.push(i));
  await turnsUntil(() => order.length === 6);
  assert.deepEqual(order, [0, 5, 1, 4, 2, 3]);
});

test('all connections that were accepted in a burst are read before a waiting task runs', async () => {
  const scheduler = new Scheduler();
  let taken = 0;
  let takenBefore = 0;
  for (let i = 0; i < 40; i += 1) {
    scheduler.addConnection(() => {
      taken += 1;
    });
  }
  scheduler.addTask(() => {
    takenBefore = taken;
    return false;
  });
  await turnsUntil(() => takenBefore > 0);
  assert.equal(takenBefore, 40);
});

test('a burst of connections is accepted before tasks run, and a constant stream delays them only for a while', async () => {
  const scheduler = new Scheduler();
  let arrived = 0;
  let taken = 0;
  const arrive = () => {
    arrived += 1;
    scheduler.addConnection(() => {
      taken += 1;
    });
  };
  const turnsUntilTaskRuns = (inEachTurn: () => void) => {
    let hasRun = false;
    scheduler.addTask(() => {
      hasRun = true;
      return false;
    });
    return turnsUntil(() => {
      inEachTurn();
      return hasRun;
    });
  };
  // However many turns have run tasks before, the burst delays them only for a while.
  for (let i = 0; i < 100; i += 1) await turnsUntilTaskRuns(() => undefined);
  for (let i = 0; i < 30; i += 1) {
    arrive();
    await nextTurn();
  }
  const burst = await turnsUntilTaskRuns(arrive);
  assert.ok(burst > 1_000 && burst < 5_000, `${burst} turns`);
  for (let i = 0; i < 3; i += 1) {
    const delay = await turnsUntilTaskRuns(arrive);
    assert.ok(delay > 10 && delay < 200, `${delay} turns`);
  }
  await turnsUntil(() => taken === arrived);
  const after = await turnsUntilTaskRuns(() => undefined);
  assert.ok(after <= 2, `${after} turns`);
});

test('a task may run immediately while none waits, for at most 2 ms in each turn', async () => {
  const scheduler = new Scheduler();
  assert.ok(scheduler.admit(1_000));
  assert.ok(scheduler.admit(1_001));
  assert.equal(scheduler.admit(1_002), false);
  await nextTurn();
  await nextTurn();
  assert.ok(scheduler.admit(1_002));
  scheduler.addTask(() => false);
  assert.equal(scheduler.admit(1_002), false, 'waiting tasks run first');
});
