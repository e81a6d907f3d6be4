import { invalid } from './errors.ts';

export interface TextRule {
  /** Maximum length in Unicode code points. */
  readonly maxLength: number;
  /** Whether an empty text, or only white space, is rejected. */
  readonly notBlank: boolean;
  /** Whether tab and newline may appear. */
  readonly multiline: boolean;
}

// PostgreSQL rejects U+0000. Others could forge lines of a log, or send escape sequences to a terminal.
const controls = /\p{Cc}/u;
const controlsInMultiline = /[\p{Cc}--[\t\n]]/v;

/** Checks a text against its rule; the error names `field`. */
export function parseText(field: string, value: unknown, rule: TextRule): string {
  if (typeof value !== 'string') throw invalid(field, 'must be a string');
  if (!value.isWellFormed()) throw invalid(field, 'must be well-formed Unicode (it has a lone surrogate)');
  const control = (rule.multiline ? controlsInMultiline : controls).exec(value);
  if (control !== null) {
    const code = value.charCodeAt(control.index).toString(16).toUpperCase().padStart(4, '0');
    throw invalid(field, `must not contain control characters (it has U+${code})`);
  }
  if (rule.notBlank && value.trim() === '') throw invalid(field, 'must not be blank');
  // A code point has at least one UTF-16 unit, so only the code points of a long text must be counted.
  if (value.length > rule.maxLength && [...value].length > rule.maxLength) {
    throw invalid(field, `must be at most ${rule.maxLength.toLocaleString('en')} characters`);
  }
  return value;
}

/** Accepts all texts of every database, because other programs and hosts may store what the API rejects. */
export function parseStoredText(value: unknown): string {
  if (typeof value === 'string' && value.isWellFormed()) return value;
  throw invalid('the text', 'must be well-formed Unicode');
}

/** Parses a prefix to search for. It follows the rule of the text, but may consist of spaces. */
export function parsePrefix(field: string, value: unknown, rule: TextRule): string {
  if (value === '') throw invalid(field, 'must not be empty');
  return parseText(field, value, { ...rule, notBlank: false });
}

/** Orders by code point, as UTF-8 and `COLLATE "C"` do. By UTF-16 units, as `<` does, U+1F600 is before U+FF21. */
export function compareText(a: string, b: string): number {
  let i = 0;
  while (i < a.length && a[i] === b[i]) i += 1;
  // Two surrogate pairs with the same first half are in the order of their second halves.
  return (a.codePointAt(i) ?? -1) - (b.codePointAt(i) ?? -1);
}

/** The smallest text after all texts with a prefix; `undefined` if there is none. */
export function afterPrefix(prefix: string): string | undefined {
  const points = Array.from(prefix, (character) => character.codePointAt(0) ?? 0);
  for (let last = points.pop(); last !== undefined; last = points.pop()) {
    // U+10FFFF is the last code point. U+E000 follows U+D7FF, since well-formed text contains no surrogates.
    if (last < 0x10ffff) return String.fromCodePoint(...points, last === 0xd7ff ? 0xe000 : last + 1);
  }
  return undefined;
}
