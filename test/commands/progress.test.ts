import assert from 'node:assert/strict';
import { it } from 'node:test';
import { createProgress } from '../../src/commands/progress.ts';

function sink(isTTY: boolean, columns = 100) {
  const written: string[] = [];
  return { written, isTTY, columns, write: (text: string) => written.push(text) };
}

it('redraws one bar on a terminal, with rate and remaining time', () => {
  const terminal = sink(true);
  const progress = createProgress(terminal, 'copy', 1_000);
  progress.update(500);
  progress.finish();
  const [drawn = ''] = terminal.written;
  assert.match(drawn, /^\rcopy \[#{15}\.{15}\] 50 % \(500 of 1,000, [\d,]+\/s, \d+ s left\)/);
  assert.ok(drawn.endsWith('\u001b[K'), 'the rest of a longer line is cleared');
  assert.match(terminal.written.at(-1) ?? '', /\n$/);
});

for (const [done, left] of [
  [20, '49 s'],
  [30, '33 s'],
  [10, '1 min 39 s'],
  [1, '16 min 39 s'],
] as const) {
  it(`shows that ${left} are left after ${done} of 1,000 in a second`, (t) => {
    let now = 0;
    t.mock.method(performance, 'now', () => now);
    const terminal = sink(true);
    const progress = createProgress(terminal, 'copy', 1_000);
    now = 1_000;
    progress.update(done);
    assert.ok(terminal.written.join().includes(`, ${left} left)`), terminal.written.join());
  });
}

it('shows no remaining time while nothing is done', () => {
  const terminal = sink(true);
  createProgress(terminal, 'copy', 1_000).update(0);
  assert.deepEqual(terminal.written, [`\rcopy [${'.'.repeat(30)}] 0 % (0 of 1,000, 0/s)\u001b[K`]);
});

it('is never wider than the terminal, so that its line does not wrap', () => {
  const terminal = sink(true, 20);
  createProgress(terminal, 'copy', 1_000).update(500);
  assert.equal(terminal.written.join('').replace('\r', '').replace('\u001b[K', '').length, 19);
});

it('has 119 characters at most on a terminal of unknown width', () => {
  const { columns: _, ...terminal } = sink(true);
  for (const one of [terminal, { ...terminal, columns: 0 }]) {
    createProgress(one, 'x'.repeat(200)).update(1);
    assert.deepEqual(terminal.written.splice(0), [`\r${'x'.repeat(119)}\u001b[K`]);
  }
});

for (const [isTTY, everyMs] of [
  [true, 100],
  [false, 5_000],
] as const) {
  it(`is shown once in ${everyMs} ms ${isTTY ? 'on a terminal' : 'in a file'}`, (t) => {
    let now = 0;
    t.mock.method(performance, 'now', () => now);
    const { written, ...output } = sink(isTTY);
    const progress = createProgress({ ...output, isTTY }, 'copy');
    const shown = [1, everyMs, 2 * everyMs - 1, 2 * everyMs].map((ms) => {
      now = ms;
      progress.update(1);
      return written.length;
    });
    assert.deepEqual(shown, isTTY ? [1, 1, 2, 2] : [0, 1, 1, 2]);
  });
}

it('writes a few complete lines when the output is not a terminal', () => {
  const file = sink(false);
  const progress = createProgress(file, 'copy', 1_000);
  for (let done = 0; done <= 1_000; done += 1) progress.update(done);
  progress.finish();
  assert.equal(file.written.length, 1);
  assert.match(file.written[0] ?? '', /^copy 100 % \(1,000 of 1,000, [\d,]+\/s\)\n$/);
});

it('shows the count and the rate without a total', () => {
  const file = sink(false);
  const progress = createProgress(file, 'import');
  progress.update(42);
  progress.finish();
  assert.match(file.written[0] ?? '', /^import 42 \([\d,]+\/s\)\n$/);
});

it('is complete at once for 0 items', (t) => {
  t.mock.method(performance, 'now', () => 0);
  const file = sink(false);
  createProgress(file, 'copy', 0).finish();
  assert.deepEqual(file.written, ['copy 100 % (0 of 0, 0/s)\n']);
});
