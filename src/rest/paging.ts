import type { ListQuery } from '../domain/list-query.ts';
import type { Headers } from '../http/reply.ts';
import type { HttpRequest } from '../http/request.ts';

/**
 * The Link header (RFC 8288) of a page: `first`, `prev` where pages are numbered, `next` where there
 * is more. The references are paths, never built from Host, which a client can set to anything.
 */
export function pageHeaders(
  request: HttpRequest,
  query: ListQuery<string>,
  next: string | undefined,
): Headers {
  const { basePath, target } = request;
  const kept = new URLSearchParams(
    request.parameters().filter(([name]) => name !== 'page' && name !== 'cursor'),
  );
  const link = (rel: string, name?: string, value?: string): string => {
    const parameters = new URLSearchParams(kept);
    if (name !== undefined && value !== undefined) parameters.set(name, value);
    const search = parameters.size === 0 ? '' : `?${parameters}`;
    return `<${basePath}${target.path}${search}>; rel="${rel}"`;
  };
  const links = [link('first')];
  const page = 'offset' in query.start ? query.start.offset / query.limit + 1 : 1;
  if (page > 1) links.push(link('prev', 'page', String(page - 1)));
  if (next !== undefined) links.push(link('next', 'cursor', next));
  return { link: links.join(', ') };
}

/** Whether the client asks for the number of all rows: `Prefer: count=exact` (RFC 7240). */
export function wantsCount(request: HttpRequest): boolean {
  const preferences = request.header('prefer')?.toLowerCase().split(',') ?? [];
  return preferences.some((preference) => /^\s*count\s*=\s*"?exact"?\s*(;|$)/.test(preference));
}

export function countHeaders(total: number | undefined): Headers {
  if (total === undefined) return {};
  return { 'x-total-count': String(total), 'preference-applied': 'count=exact' };
}
