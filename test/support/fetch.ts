import { validateResponse } from '../kit/openapi.ts';

/** Calls the global `fetch`, reads the complete response, and checks it against the OpenAPI document. */
export async function fetch(url: string, init: RequestInit = {}, basePath = ''): Promise<Response> {
  const response = await globalThis.fetch(url, init);
  await validateResponse(init.method ?? 'GET', url.replace(basePath, ''), response.clone());
  return response;
}
