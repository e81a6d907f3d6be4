import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Turns } from '../../src/http/turns.ts';

function busy(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

/** Counts the turns of the event loop until the condition holds. */
async function turnsUntil(done: () => boolean): Promise<number> {
  let count = 0;
  for (; !done(); count += 1) {
    assert.ok(count < 1_000, 'it comes to pass');
    await nextTurn();
  }
  return count;
}

test('work is done in its order, for 2 ms in each turn of the event loop', async () => {
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

test('short work shares a turn', async () => {
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

test('the promises of a piece of work come before the next piece', async () => {
  const turns = new Turns();
  const order: string[] = [];
  turns.add(() => {
    const goOn = async () => {
      for (let i = 0; i < 10; i += 1) await undefined;
      order.push('the rest of the first');
    };
    goOn();
    return true;
  });
  turns.add(() => {
    order.push('the second');
    return false;
  });
  await turnsUntil(() => order.length === 2);
  assert.deepEqual(order, ['the rest of the first', 'the second']);
});

test('replies that have begun go on before other work', async () => {
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

test('the newest connection is taken first, when no more arrive', async () => {
  const turns = new Turns();
  const order: number[] = [];
  for (let i = 0; i < 3; i += 1) turns.addConnection(() => order.push(i));
  await turnsUntil(() => order.length === 3);
  assert.deepEqual(order, [2, 1, 0]);
});

test('while a connection arrives in each turn, work waits for a while, not for ever', async () => {
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

test('work may be done at once while nothing waits, for 2 ms in each turn', async () => {
  const turns = new Turns();
  assert.ok(turns.isFree(performance.now()));
  assert.ok(turns.isFree(performance.now()));
  busy(5);
  assert.equal(turns.isFree(performance.now()), false);
  await nextTurn();
  await nextTurn();
  assert.ok(turns.isFree(performance.now()));
  turns.add(() => false);
  assert.equal(turns.isFree(performance.now()), false, 'what waits goes first');
});
