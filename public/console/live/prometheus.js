// @ts-check

/**
 * @typedef {object} Sample
 * @property {string} name
 * @property {Readonly<Record<string, string>>} labels
 * @property {number} value
 */

const line = /^([a-zA-Z_:][\w:]*)\s*(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*$/;
const label = /\s*([a-zA-Z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)/gy;

/**
 * Parses the Prometheus text format 0.0.4. Unknown lines are ignored.
 * @param {string} text
 * @returns {Sample[]}
 */
export function parseMetrics(text) {
  /** @type {Sample[]} */
  const samples = [];
  for (const written of text.split('\n')) {
    if (written === '' || written.startsWith('#')) continue;
    const [, name, labels, number] = line.exec(written) ?? [];
    if (name === undefined || number === undefined) continue;
    samples.push({ name, labels: parseLabels(labels ?? ''), value: parseNumber(number) });
  }
  return samples;
}

/** @param {string} text */
function parseLabels(text) {
  /** @type {Record<string, string>} */
  const labels = {};
  for (const [, name, value] of text.matchAll(label)) {
    if (name !== undefined && value !== undefined) labels[name] = unescapeLabel(value);
  }
  return labels;
}

/** @param {string} value */
function unescapeLabel(value) {
  return value.replace(/\\(.)/g, (_, character) => (character === 'n' ? '\n' : character));
}

/** @param {string} text */
function parseNumber(text) {
  if (/^[+]?Inf$/i.test(text)) return Number.POSITIVE_INFINITY;
  return /^-Inf$/i.test(text) ? Number.NEGATIVE_INFINITY : Number(text);
}
