import { parseWeights } from './weights.ts';

/**
 * The first of the codings on offer, in the server's order of preference, that an Accept-Encoding
 * header takes (RFC 9110, 12.5.3); `undefined` for the identity.
 */
export function chooseEncoding<Coding extends string>(
  header: string | undefined,
  offered: readonly Coding[],
): Coding | undefined {
  if (header === undefined || offered.length === 0) return undefined;
  const weights = parseWeights(header);
  return offered.find((coding) => (weights.get(coding) ?? weights.get('*') ?? 0) > 0);
}
