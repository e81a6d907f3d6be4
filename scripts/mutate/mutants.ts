import { stripTypeScriptTypes } from 'node:module';

/** A small change of a source file. */
export interface Mutant {
  readonly file: string;
  readonly line: number;
  readonly text: string;
  readonly start: number;
  readonly from: string;
  readonly to: string;
  /** The text of the file without the change. */
  readonly source: string;
  /** Finds the mutant again after edits elsewhere in the file. */
  readonly key: string;
}

const pairs =
  '=== !== < <= > >= && || + - += -= * / true false ++ -- some every min max startsWith endsWith'.split(' ');
const swaps = new Map([
  ...pairs.map((from, i) => [from, pairs[i ^ 1] ?? ''] as const),
  ['??', '&&'],
  ['%', '*'],
]);
const skipped = new RegExp(
  [
    /\/\/[^\n]*|\/\*[\s\S]*?\*\/|\b(?:import|export) [^;'=(]*from '[^']*';/, // comments and imports
    /(?<string>'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`)/,
    /(?<regex>\/(?![*/ ])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[])+\/[a-z]*)/,
  ]
    .map(({ source }) => source)
    .join('|'),
  'g',
);
// A number changes so much that a test of a limit notices: 1,000 ms and 1,001 ms behave alike.
const enlarge = (number: number) => (number < 3 || number % 1 > 0 ? number + 1 : number * 2);
const mutators: readonly (readonly [RegExp, (found: string) => string | undefined])[] = [
  [
    /(?<= )(?:===|!==|<=?|>=?|&&|\|\||\?\?|[-+]=?|[*/%])(?= )|\+\+|--|\b(?:true|false)\b/g,
    (op) => swaps.get(op),
  ],
  [/(?<=\.)(?:some|every|min|max|startsWith|endsWith)(?=\()/g, (method) => swaps.get(method)],
  [/!(?=[\w(])/g, () => ''],
  [/\?\.(?=[\w#])/g, () => '.'],
  [
    /(?<![\w.#$])(?:0x[\da-f]+|\d[\d_]*(?:\.\d+)?)(?![\w.])/g,
    (n) => String(enlarge(Number(n.replaceAll('_', '')))),
  ],
  [/(?<=\n\s*)(?:await |void )?[\w.#?]+\([^;{}]*\);(?=\n)/g, () => ';'],
];

function closing(text: string, open: number): number {
  for (let [i, depth] = [open, 0]; i < text.length; i += 1) {
    depth += Number('([{'.includes(text.charAt(i))) - Number(')]}'.includes(text.charAt(i)));
    if (depth === 0) return i;
  }
  return text.length;
}

/** The ways in which one file can be changed. */
export function mutantsOf(file: string, source: string): Mutant[] {
  const code = stripTypeScriptTypes(source); // Types become spaces, and everything else stays where it is.
  const changes: [start: number, end: number, to: string][] = [];
  const bare = code.replace(skipped, (found, string, regex, start: number) => {
    const end = start + found.length;
    if (string !== undefined) changes.push([start, end, found.length > 2 ? "''" : "'x'"]);
    if (regex?.startsWith('/^')) changes.push([start, start + 2, '/']);
    if (regex?.includes('$/'))
      changes.push([start + found.lastIndexOf('$/'), end, found.slice(found.lastIndexOf('/'))]);
    return found.replace(/[^\n]/g, ' ');
  });
  for (const [pattern, change] of mutators) {
    for (const { 0: found, index } of bare.matchAll(pattern)) {
      changes.push([index, index + found.length, change(found) ?? found]);
    }
  }
  const conditions = [...bare.matchAll(/(?<=\bif )\(/g)].map(
    ({ index }) => [index, closing(bare, index)] as const,
  );
  for (const [open, end] of conditions) changes.push([open + 1, end, 'true'], [open + 1, end, 'false']);
  for (const { index } of bare.matchAll(/(?<=\) *|=> |\b(?:else|finally|try|catch) )\{/g)) {
    const isCondition = conditions.some(([, end]) => bare.slice(end + 1, index).trim() === '' && end < index);
    if (!isCondition) changes.push([index + 1, closing(bare, index), '']);
  }
  const seen = new Map<string, number>();
  return changes.map(([start, end, to]) => {
    const from = code.slice(start, end);
    const lineStart = source.lastIndexOf('\n', start - 1) + 1;
    const text = source.slice(lineStart).split('\n', 1).join().trim();
    const id = JSON.stringify([file, text, code.slice(lineStart, start).trimStart().length, from.length, to]);
    seen.set(id, (seen.get(id) ?? 0) + 1);
    const line = source.slice(0, start).split('\n').length;
    return { file, line, text, start, from, to, source, key: `${id}${seen.get(id)}` };
  });
}

/** The text of the file with the change, or `undefined` if it is no longer a program. */
export function changed({ source, start, from, to }: Mutant): string | undefined {
  const text = source.slice(0, start) + to + source.slice(start + from.length);
  try {
    stripTypeScriptTypes(text);
    return text;
  } catch {
    return undefined;
  }
}
