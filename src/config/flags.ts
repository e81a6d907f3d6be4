/** What a flag may be; see `Option`. */
interface FlagKind {
  /** What it stands for without a value; without this a value has to follow. */
  readonly bare?: string;
}

export interface Flags {
  readonly values: ReadonlyMap<string, string>;
  /** Each names the flag, none repeats a value: it may be a secret that went astray. */
  readonly problems: readonly string[];
}

/**
 * Reads `--name VALUE` and `--name=VALUE`. A value that begins with two dashes needs the second form,
 * so that a forgotten value does not swallow the next flag (which `util.parseArgs` lets happen).
 */
export function readFlags(argv: readonly string[], kinds: Readonly<Record<string, FlagKind>>): Flags {
  const values = new Map<string, string>();
  const problems: string[] = [];
  for (let at = 0; at < argv.length; at += 1) {
    const [, name, inline] = /^--([^=]+)(?:=(.*))?$/s.exec(argv[at] ?? '') ?? [];
    if (name === undefined) {
      problems.push(`argument ${at + 1} is not an option; --help lists them all`);
      continue;
    }
    const next = argv[at + 1];
    const follows = inline === undefined && next !== undefined && !next.startsWith('--');
    // The value of an unknown flag is taken with it, so that one mistake is one problem.
    if (follows) at += 1;
    const kind = Object.hasOwn(kinds, name) ? kinds[name] : undefined;
    const value = inline ?? (follows ? next : kind?.bare);
    if (kind === undefined) problems.push(`--${name} is not an option${hint(name, Object.keys(kinds))}`);
    else if (values.has(name)) problems.push(`--${name} must be given once`);
    else if (value === undefined || (value === '' && inline === undefined)) {
      problems.push(`--${name} must have a value`);
    } else values.set(name, value);
  }
  return { values, problems };
}

function hint(name: string, known: readonly string[]): string {
  const written = name.toLowerCase().replaceAll('_', '-');
  const [best] = known
    .map((candidate) => ({ candidate, distance: distance(written, candidate) }))
    .filter(({ candidate, distance }) => distance <= Math.max(2, candidate.length / 4))
    .sort((a, b) => a.distance - b.distance);
  return best === undefined ? '; --help lists them all' : `; did you mean --${best.candidate}?`;
}

/** How many letters have to be put in, left out or changed to make one word the other (Levenshtein). */
function distance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (const [index, letter] of [...from].entries()) {
    const next = [index + 1];
    for (const [column, other] of [...to].entries()) {
      const changed = (row[column] ?? 0) + (letter === other ? 0 : 1);
      next.push(Math.min(changed, (row[column + 1] ?? 0) + 1, (next[column] ?? 0) + 1));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}
