import { createHash } from 'node:crypto';

const prose = new Set(['description', 'summary', 'example', 'examples']);

/** A digest of the parts of an OpenAPI document that define types, without its descriptions and examples. */
export function shapeDigest(document: unknown): string {
  return createHash('sha256')
    .update(JSON.stringify(shape(document)))
    .digest('hex');
}

function shape(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(shape);
  const kept = Object.entries(value).filter(([key, inner]) => !isProse(key, inner));
  return Object.fromEntries(kept.map(([key, inner]) => [key, shape(inner)]));
}

// A field with the name `description` is a schema, not a text.
function isProse(key: string, value: unknown): boolean {
  return prose.has(key) && (key === 'examples' || typeof value === 'string');
}
