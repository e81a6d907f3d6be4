import { validateResponse } from '../kit/openapi.ts';

/** The global `fetch`, whose answer has to be as the OpenAPI document says; read whole before it is given. */
export async function fetch(url: string, init: RequestInit = {}, basePath = ''): Promise<Response> {
  const response = await globalThis.fetch(url, init);
  await validateResponse(init.method ?? 'GET', url.replace(basePath, ''), response.clone());
  return response;
}
