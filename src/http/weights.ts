/**
 * The weights of an Accept or Accept-Encoding header by what they weigh, in lower case (RFC 9110,
 * 12.4.2): 1 without a `q`, NaN where it is no number, which compares as neither more nor less.
 */
export function parseWeights(header: string): Map<string, number> {
  const weights = new Map<string, number>();
  for (const part of header.toLowerCase().split(',')) {
    const [value = '', ...parameters] = part.split(';').map((text) => text.trim());
    const q = parameters.find((text) => text.startsWith('q='));
    weights.set(value, q === undefined ? 1 : Number(q.slice(2)));
  }
  return weights;
}
