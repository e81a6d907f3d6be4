import { readFileSync } from 'node:fs';
import { type ParseArgsOptionsConfig, parseArgs } from 'node:util';

type Value = number | boolean | string | readonly number[];
type Widened<T> = T extends number
  ? number
  : T extends boolean
    ? boolean
    : T extends string
      ? string
      : readonly number[];

/**
 * Parses the arguments of this script. Each option has the type of its default: a number, a text, a switch, or a list
 * of numbers with commas. `--help` prints `help`, by default the comment at the start of the script. An unknown or
 * invalid argument prints one line and exits with 2.
 */
export function readArguments<T extends Readonly<Record<string, Value>>>(
  defaults: T,
  { help = commentOf, allowPositionals = false }: { help?: () => string; allowPositionals?: boolean } = {},
): { readonly [K in keyof T]: Widened<T[K]> } & { readonly positionals: readonly string[] } {
  const options: ParseArgsOptionsConfig = { help: { type: 'boolean' } };
  for (const [name, value] of Object.entries(defaults)) {
    options[name] = { type: typeof value === 'boolean' ? 'boolean' : 'string' };
  }
  try {
    const { values, positionals } = parseArgs({ options, allowPositionals });
    if (values['help'] === true) {
      console.log(help());
      process.exit(0);
    }
    const given = Object.entries(values).map(([name, text]) => [name, convert(name, text, defaults[name])]);
    return { ...defaults, ...Object.fromEntries(given), positionals };
  } catch (caught) {
    return endWith(caught instanceof Error ? caught.message : String(caught));
  }
}

/** Prints one line, and exits with 2, as for any mistake in the arguments. */
export function endWith(message: string): never {
  console.error(`${message} (--help explains the arguments)`);
  process.exit(2);
}

function convert(name: string, given: unknown, value: Value | undefined): unknown {
  const toNumber = (text: string): number => {
    const number = text.trim() === '' ? Number.NaN : Number(text);
    if (!(number >= 0)) throw new Error(`--${name} must be a number of at least 0, not "${text}"`);
    return number;
  };
  if (typeof given !== 'string' || typeof value === 'string') return given;
  return typeof value === 'number' ? toNumber(given) : given.split(',').map(toNumber);
}

function commentOf(): string {
  const lines = readFileSync(process.argv[1] ?? '', 'utf8').split('\n');
  const end = lines.findIndex((line) => !/^(\/\*\*| \*|\/\/)/.test(line));
  return lines
    .slice(0, end)
    .map((line) => line.replace(/^(\/\*\*| \*\/| \*|\/\/) ?/, ''))
    .join('\n')
    .trim();
}
