import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Turns } from '../../src/http/overload.ts';

function busy(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

/** Counts the turns of the event loop until the condition holds. */
async function turnsUntil(done: () => boolean): Promise<number> {
  let count = 0;
  for (; !done(); count += 1) {
    assert.ok(count < 1_000, 'the condition never holds');
    await nextTurn();
  }
  return count;
}

test('tasks run in order, for at most 2 ms in each turn of the event loop', async () => {
  const turns = new Turns();
  const order: string[] = [];
  for (const name of ['a', 'b', 'c']) {
    turns.add(() => {
      order.push(name);
      busy(5);
      return false;
    });
  }
  const count = await turnsUntil(() => order.length === 3);
  assert.deepEqual(order, ['a', 'b', 'c']);
  assert.ok(count >= 3, `${count} turns`);
});

test('several short tasks run in one turn of the event loop', async () => {
  const turns = new Turns();
  let done = 0;
  for (let i = 0; i < 10; i += 1) {
    turns.add(() => {
      done += 1;
      return false;
    });
  }
  assert.ok((await turnsUntil(() => done === 10)) <= 2);
});

test('the promise callbacks of a task run before the next task', async () => {
  const turns = new Turns();
  const order: string[] = [];
  turns.add(() => {
    const goOn = async () => {
      for (let i = 0; i < 10; i += 1) await undefined;
      order.push('end of the first');
    };
    goOn();
    return true;
  });
  turns.add(() => {
    order.push('second');
    return false;
  });
  await turnsUntil(() => order.length === 2);
  assert.deepEqual(order, ['end of the first', 'second']);
});

test('responses that have started continue before new tasks', async () => {
  const turns = new Turns();
  const order: string[] = [];
  turns.add(() => {
    order.push('new');
    return false;
  });
  const begun = turns.wait().then(() => order.push('begun'));
  await Promise.all([begun, turnsUntil(() => order.length === 2)]);
  assert.deepEqual(order, ['begun', 'new']);
});

test('the newest connection is accepted first after no more arrive', async () => {
  const turns = new Turns();
  const order: number[] = [];
  for (let i = 0; i < 3; i += 1) turns.addConnection(() => order.push(i));
  await turnsUntil(() => order.length === 3);
  assert.deepEqual(order, [2, 1, 0]);
});

test('four bodies continue to be read in each turn, in order', async () => {
  const turns = new Turns();
  const order: number[] = [];
  for (let i = 0; i < 9; i += 1) turns.addBody(() => order.push(i));
  const counts = [];
  while (order.length < 9) {
    await nextTurn();
    counts.push(order.length);
  }
  assert.deepEqual(order, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
  assert.deepEqual(counts.filter((count) => count > 0).slice(0, 2), [4, 8]);
});

test('a constant stream of new connections delays tasks only for a limited time', async () => {
  const turns = new Turns();
  let taken = 0;
  const arrive = () =>
    turns.addConnection(() => {
      taken += 1;
    });
  for (let i = 0; i < 30; i += 1) {
    arrive();
    await nextTurn();
  }
  let isDone = false;
  turns.add(() => {
    isDone = true;
    return false;
  });
  const count = await turnsUntil(() => {
    arrive();
    return isDone;
  });
  assert.ok(count > 10 && count < 200, `${count} turns`);
  assert.ok(taken > 0);
});

test('a task may run immediately while none waits, for at most 2 ms in each turn', async () => {
  const turns = new Turns();
  assert.ok(turns.isFree(performance.now()));
  assert.ok(turns.isFree(performance.now()));
  busy(5);
  assert.equal(turns.isFree(performance.now()), false);
  await nextTurn();
  await nextTurn();
  assert.ok(turns.isFree(performance.now()));
  turns.add(() => false);
  assert.equal(turns.isFree(performance.now()), false, 'waiting tasks run first');
});
