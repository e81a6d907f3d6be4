import { readFileSync } from 'node:fs';
import type { Headers } from './reply.ts';

const metaPattern = /<meta http-equiv="Content-Security-Policy" content="([^"]+)">/i;

/**
 * The policy that a page states in its head as a header: only there may it say who may frame the page, which
 * is nobody. None for a page that states none.
 */
export function pagePolicy(path: string): Headers {
  const [, policy] = metaPattern.exec(readFileSync(path, 'utf8')) ?? [];
  return policy === undefined ? {} : { 'content-security-policy': `${policy}; frame-ancestors 'none'` };
}
