/** Throws a `RangeError` that names the first setting that is no whole number in its range, ends included. */
export function checkRanges(
  settings: object,
  ranges: Readonly<Record<string, readonly [least: number, most: number]>>,
): void {
  for (const [name, [least, most]] of Object.entries(ranges)) {
    const value: unknown = Reflect.get(settings, name);
    if (typeof value !== 'number' || !Number.isInteger(value) || value < least || value > most) {
      throw new RangeError(`${name} is ${value}, but must be a whole number from ${least} to ${most}`);
    }
  }
}
