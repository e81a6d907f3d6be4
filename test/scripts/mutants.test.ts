import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changed, mutantsOf } from '../../scripts/mutate/mutants.ts';

const cases: readonly (readonly [source: string, ...changed: string[]])[] = [
  ['const a: number = b < c;', 'const a: number = b <= c;'],
  ['const a = b ?? c;', 'const a = b && c;'],
  ['const a = !b;', 'const a = b;'],
  ['const a = b?.c;', 'const a = b.c;'],
  ['const a = b?.(c);'],
  ['const a = b.every(c);', 'const a = b.some(c);'],
  ['const every = true;', 'const every = false;'],
  ["const a = 'b' as 'b' | '';", "const a = '' as 'b' | '';"],
  ["const a = '';", "const a = 'x';"],
  ['const a = `b + c`;', "const a = '';"],
  ['const a = /^b$/i;', 'const a = /b$/i;', 'const a = /^b/i;'],
  ['const a = [0, 2];', 'const a = [1, 2];', 'const a = [0, 3];'],
  ['const a = 1_000;', 'const a = 2000;'],
  ['a();\nb();\nc();', 'a();\n;\nc();'],
  ['if (a) b();', 'if (true) b();', 'if (false) b();'],
  ['if (a) {\n  b++;\n}', 'if (a) {\n  b--;\n}', 'if (true) {\n  b++;\n}', 'if (false) {\n  b++;\n}'],
  ['const a = () => {\n  b--;\n};', 'const a = () => {\n  b++;\n};', 'const a = () => {};'],
  ["import { a } from './1.ts';\n/** 1 + 1 */\nlet b = c; // 'd'"],
  ['interface A {\n  readonly b: 1;\n}'],
];

for (const [source, ...expected] of cases) {
  test(`the mutants of ${JSON.stringify(source)}`, () => {
    const texts = mutantsOf('src/a.ts', source).map(changed);
    assert.deepEqual(texts.filter((text) => text !== undefined).sort(), [...expected].sort());
  });
}
