/** The minimum and the maximum of a whole number. */
export type Range = readonly [min: number, max: number];

/** The longest time that Node's timers support, in milliseconds; a longer one would end at once. */
export const maxTimerMs = 2 ** 31 - 1;

export function isInRange(value: unknown, [min, max]: Range): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max;
}

/** The requirement for a value outside its range, for an error message. */
export function rangeText([min, max]: Range): string {
  return `a whole number from ${min} to ${max}`;
}

/** Throws a `RangeError` unless a setting is a whole number in its range. */
export function checkRange(name: string, value: unknown, range: Range): asserts value is number {
  if (!isInRange(value, range))
    throw new RangeError(`${name} must be ${rangeText(range)}, not ${shown(value)}`);
}

/** A wrong value in an error message. Quotes distinguish the text "80" from the number 80. */
export function shown(value: unknown): string {
  return typeof value === 'string' ? JSON.stringify(value) : String(value);
}
