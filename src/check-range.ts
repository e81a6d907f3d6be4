/** The least and the greatest whole number that a setting may be. */
export type Range = readonly [min: number, max: number];

/** The longest time in milliseconds that Node's timers can wait; a longer one would end at once. */
export const maxTimerMs = 2 ** 31 - 1;

export function isInRange(value: unknown, [min, max]: Range): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max;
}

/** What a value outside its range must be, for an error message. */
export function rangeText([min, max]: Range): string {
  return `a whole number from ${min} to ${max}`;
}

/** Numbers that a caller may set, by name: the default, the least and the greatest of each. */
export type Numbers<Name extends string> = Readonly<Record<Name, readonly [preset: number, ...Range]>>;

/** Those that were given, and the defaults of the others. Fails as `checkRanges`. */
export function readNumbers<Name extends string>(
  given: object,
  numbers: Numbers<Name>,
): Readonly<Record<Name, number>> {
  const entries = Object.entries<Numbers<Name>[Name]>(numbers).map(([name, [preset, ...range]]) => {
    const { [name]: value = preset }: Readonly<Record<string, unknown>> = { ...given };
    checkRanges({ [name]: value }, { [name]: range });
    return [name, value] as const;
  });
  return Object.fromEntries(entries) as Record<Name, number>;
}

/** Throws a `RangeError` that names the first setting which is no whole number in its range. */
export function checkRanges(settings: object, ranges: Readonly<Record<string, Range>>): void {
  for (const [name, range] of Object.entries(ranges)) {
    const value: unknown = Reflect.get(settings, name);
    if (!isInRange(value, range)) {
      throw new RangeError(`${name} must be ${rangeText(range)}, not ${String(value)}`);
    }
  }
}
