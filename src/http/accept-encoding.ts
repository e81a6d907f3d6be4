import { parseWeights } from './weights.ts';

/**
 * The coding on offer that an Accept-Encoding header likes best (RFC 9110, 12.5.3), the server's order
 * deciding between equals; `undefined` for the identity, which is always an answer.
 */
export function chooseEncoding<Coding extends string>(
  header: string | undefined,
  offered: readonly Coding[],
): Coding | undefined {
  if (header === undefined || offered.length === 0) return undefined;
  const weights = parseWeights(header);
  // The identity is what is left, unless the client has weighed it by name.
  const identity = weights.get('identity') ?? 0;
  const weigh = (coding: Coding) => weights.get(coding) ?? weights.get('*') ?? 0;
  const taken = offered.filter((coding) => weigh(coding) > 0 && weigh(coding) >= identity);
  // The sort is stable: equals stay in the server's order.
  return taken.sort((a, b) => weigh(b) - weigh(a))[0];
}
