// @ts-check

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
const hundredths = new Intl.NumberFormat('en', { maximumFractionDigits: 2 });

/**
 * A number with only the meaningful digits.
 * @param {number} value
 */
export function formatNumber(value) {
  if (value >= 100 || Number.isInteger(value)) return whole.format(value);
  return (value >= 10 ? tenths : hundredths).format(value);
}

/** @param {number} ms */
export function formatMs(ms) {
  return ms >= 1_000 ? `${hundredths.format(ms / 1_000)} s` : `${formatNumber(ms)} ms`;
}
