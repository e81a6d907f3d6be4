import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  bootstrap,
  isOver,
  median,
  pairedRatio,
  seededRandom,
  shuffle,
} from '../../scripts/harness/statistics.ts';

const rounds = 30;

/** Simulated rounds of a benchmark. Each has a disturbance that affects both sides, and independent noise. */
function measured(ratio: number, noise: number, seed = 1): { ours: number[]; theirs: number[] } {
  const random = seededRandom(seed);
  const noisy = (value: number) => value * (1 + noise * (random() - 0.5));
  const disturbances = Array.from({ length: rounds }, () => 1 + 4 * random());
  return {
    ours: disturbances.map((disturbance) => noisy(50 * ratio * disturbance)),
    theirs: disturbances.map((disturbance) => noisy(50 * disturbance)),
  };
}

test('the median of an even number of values lies between the two in the middle', () => {
  assert.equal(median([4, 1, 3]), 3);
  assert.equal(median([4, 1, 3, 2]), 2.5);
});

test('a paired ratio does not depend on disturbances that affect both sides of a round', () => {
  const { ours, theirs } = measured(1.2, 0);
  const { value, low, high } = pairedRatio(ours, theirs);
  for (const one of [value, low, high]) assert.ok(Math.abs(one - 1.2) < 1e-9, String(one));
});

test('nearly all intervals of a noisy ratio contain the true ratio', () => {
  const estimates = Array.from({ length: 20 }, (_, seed) => {
    const { ours, theirs } = measured(1.2, 0.2, seed);
    return pairedRatio(ours, theirs);
  });
  const right = estimates.filter(({ low, high }) => low <= 1.2 && 1.2 <= high).length;
  assert.ok(right >= 17, `${right} of 20`);
  for (const { value, low, high } of estimates) assert.ok(low <= value && value <= high && high - low < 0.2);
});

test('the same rounds give the same interval', () => {
  const { ours, theirs } = measured(1.2, 0.2);
  assert.deepEqual(pairedRatio(ours, theirs), pairedRatio(ours, theirs));
});

test('the interval of a few very different values is wide', () => {
  const { low, high } = bootstrap([1, 2, 3, 4, 100]);
  assert.ok(low <= 1 && high >= 4, `${low} ${high}`);
});

test('different numbers of rounds for the two sides are an error', () => {
  assert.throws(() => pairedRatio([1, 2], [1]), /rounds/);
});

for (const { ratio, noise, over } of [
  { ratio: 1.1, noise: 0.05, over: true },
  { ratio: 1, noise: 0.05, over: false },
  { ratio: 1.04, noise: 0.01, over: false },
  { ratio: 1.1, noise: 1.5, over: false },
]) {
  test(`a ratio of ${ratio} with noise of ${noise} is ${over ? '' : 'not '}reported as a loss over 5 %`, () => {
    const { ours, theirs } = measured(ratio, noise);
    assert.equal(isOver(ours, theirs, 1.05), over);
  });
}

test('shuffling keeps every item and does not change the list', () => {
  const items = Array.from({ length: 20 }, (_, i) => i);
  const shuffled = shuffle(items, seededRandom(1));
  assert.notDeepEqual(shuffled, items);
  const sorted = [...shuffled].sort((a, b) => a - b);
  assert.deepEqual(sorted, items);
});
