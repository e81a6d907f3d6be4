import assert from 'node:assert/strict';
import { appendFileSync, readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';

/** An answer as it came over the wire; header names in lower case, the body as text. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

interface Reference {
  readonly $ref: string;
}

interface HeaderObject {
  readonly required?: boolean;
  readonly schema: { readonly type: string; readonly examples?: readonly unknown[] };
}

export interface ResponseObject {
  readonly headers?: Readonly<Record<string, HeaderObject | Reference>>;
  readonly content?: Readonly<Record<string, MediaTypeObject>>;
}

export interface MediaTypeObject {
  readonly schema?: object;
  readonly examples?: Readonly<Record<string, { readonly value: unknown } | Reference>>;
}

export interface Operation {
  readonly operationId: string;
  readonly requestBody?: { readonly content: Readonly<Record<string, MediaTypeObject>> };
  readonly responses: Readonly<Record<string, ResponseObject | Reference>>;
}

type PathItem = Readonly<Partial<Record<string, Operation>>>;

export interface OpenApi {
  readonly paths: Readonly<Record<string, PathItem>>;
  readonly components: { readonly schemas: Readonly<Record<string, object>> };
}

const file = new URL('../../public/openapi.json', import.meta.url);

/** The document as it is served. */
export const openApi: OpenApi = JSON.parse(readFileSync(file, 'utf8'));

const methods = ['get', 'put', 'post', 'delete', 'patch'] as const;
// HTTP's own business, which OpenAPI leaves out; Content-Type is checked with the body.
const unlisted =
  /^(connection|keep-alive|date|content-length|content-type|transfer-encoding|access-control-.*|x-content-type-options|cross-origin-resource-policy|strict-transport-security)$/;

// For whoever wants to know what a whole run of the tests has seen: a line an answer.
const seenFile = process.env['OPENAPI_SEEN'];

const base = 'https://users-service/openapi.json';
const ajv = new Ajv2020({ strict: false, allErrors: true, validateFormats: false });
ajv.addSchema(closed(openApi) as object, base);

const allOperations: ReadonlyMap<string, Operation> = new Map(
  Object.entries(openApi.paths).flatMap(([path, item]) =>
    methods.flatMap((method) => {
      const operation = item[method];
      return operation === undefined ? [] : [[`${method.toUpperCase()} ${path}`, operation] as const];
    }),
  ),
);

// Literal segments go before parameters.
const templates = Object.keys(openApi.paths)
  .map((path) => ({ path, segments: path.split('/') }))
  .sort((a, b) => a.path.split('{').length - b.path.split('{').length);

/** Every operation of the document, as `METHOD /path/{parameter}`. */
export function operations(): ReadonlyMap<string, Operation> {
  return allOperations;
}

/** What a `$ref` stands for, or the thing itself. */
export function resolve<T extends object>(value: T | Reference): T {
  if (!('$ref' in value)) return value;
  let found: unknown = openApi;
  for (const name of value.$ref.slice('#/'.length).split('/'))
    found = (found as Record<string, unknown>)[name];
  return found as T;
}

/**
 * Holds an answer against the document: its status, its headers and its body. Fails with everything
 * that is wrong with it; gives the operation that answered, or `undefined` for answers that belong to
 * none, such as 405 and those to OPTIONS. `path` is the request's, its query included or not.
 */
export function validateExchange(method: string, path: string, answer: Answer): string | undefined {
  const name = findOperation(method, path);
  const problems =
    name === undefined ? checkUnrouted(method, path, answer) : checkRouted(method, name, answer);
  assert.deepEqual(problems, [], `${method} ${path} was answered as the document says`);
  if (seenFile !== undefined) appendFileSync(seenFile, `${name ?? `${method} (none)`} ${answer.status}\n`);
  return name;
}

/** Holds an error against the document where the request is not known, or was not one at all. */
export function validateError(answer: Answer): void {
  assert.deepEqual(checkError(answer), [], `${answer.status} was answered as the document says`);
}

/** The same for an answer to `fetch`; gives the answer, whose body can be read only once. */
export async function validateResponse(method: string, url: string, response: Response): Promise<Answer> {
  const answer = {
    status: response.status,
    headers: Object.fromEntries(response.headers),
    body: await response.text(),
  };
  validateExchange(method, new URL(url).pathname, answer);
  return answer;
}

/** What is wrong with a value, by the schema at a place in the document. */
export function checkValue(pointer: readonly string[], value: unknown): string[] {
  const fragment = pointer.map((part) =>
    encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1')),
  );
  const validate = ajv.getSchema(`${base}#/${fragment.join('/')}`);
  assert.ok(validate, `there is a schema at ${pointer.join(' ')}`);
  if (validate(value) === true) return [];
  return (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath || 'body'} ${message}`);
}

function findOperation(method: string, path: string): string | undefined {
  const known = method === 'HEAD' ? 'get' : method.toLowerCase();
  const [target = ''] = path.replace(/^https?:\/\/[^/?]*/, '').split('?');
  const segments = target.split('/').map(decode);
  const found = templates.find((template) => matches(template.segments, segments))?.path;
  // Files may lie deeper than a template can say.
  const template = found ?? (known === 'get' ? '/{file}' : undefined);
  const operation = template === undefined ? undefined : openApi.paths[template]?.[known];
  return operation === undefined ? undefined : `${known.toUpperCase()} ${template}`;
}

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

function matches(template: readonly string[], segments: readonly string[]): boolean {
  return (
    template.length === segments.length &&
    template.every((part, i) => (part.startsWith('{') ? segments[i] !== '' : part === segments[i]))
  );
}

function checkRouted(method: string, name: string, answer: Answer): string[] {
  const [verb = '', path = ''] = name.split(' ');
  const documented = operations().get(name)?.responses[String(answer.status)];
  if (documented === undefined) return [`status ${answer.status} is not documented: ${answer.body}`];
  const at =
    '$ref' in documented
      ? documented.$ref.split('/').slice(1)
      : ['paths', path, verb.toLowerCase(), 'responses', String(answer.status)];
  const response = resolve(documented);
  return [...checkHeaders(response, answer), ...checkBody(method, response, at, answer)];
}

function checkHeaders({ headers = {} }: ResponseObject, answer: Answer): string[] {
  const problems: string[] = [];
  const documented = new Map(Object.entries(headers).map(([name, header]) => [name.toLowerCase(), header]));
  for (const [name, header] of documented) {
    const value = answer.headers[name];
    const { required, schema } = resolve(header);
    if (value === undefined) {
      if (required === true) problems.push(`header ${name} is missing`);
    } else if (!ajv.validate(schema, schema.type === 'integer' ? Number(value) : value)) {
      problems.push(`header ${name}: ${value} ${ajv.errorsText()}`);
    }
  }
  for (const [name, value] of Object.entries(answer.headers)) {
    const byCors = name === 'vary' && value === 'origin';
    if (!documented.has(name) && !unlisted.test(name) && !byCors)
      problems.push(`header ${name} is not documented`);
  }
  return problems;
}

function checkBody(
  method: string,
  { content }: ResponseObject,
  at: readonly string[],
  answer: Answer,
): string[] {
  const type = answer.headers['content-type']?.split(';')[0];
  if (content === undefined) {
    return type === undefined && answer.body === ''
      ? []
      : [`a body is not documented: ${type} ${answer.body}`];
  }
  const key = type !== undefined && Object.hasOwn(content, type) ? type : '*/*';
  const media = content[key];
  if (media === undefined) return [`media type ${type} is not documented`];
  if (media.schema === undefined || method === 'HEAD') return [];
  return checkValue([...at, 'content', key, 'schema'], parse(type, answer.body));
}

/** What the document says in words: OPTIONS, 405, 404, and what is refused before there is a route. */
function checkUnrouted(method: string, path: string, { status, headers, body }: Answer): string[] {
  if (method === 'OPTIONS' && status === 204)
    return 'allow' in headers && body === '' ? [] : ['Allow is missing'];
  const problems: string[] = [];
  if (status < 400) problems.push(`status ${status} of ${path} is not documented`);
  if (status === 405 && !('allow' in headers)) problems.push('Allow is missing');
  return method === 'HEAD' ? problems : [...problems, ...checkError({ status, headers, body })];
}

function checkError({ headers, body }: Answer): string[] {
  const type = headers['content-type']?.split(';')[0];
  const schema = type === 'application/problem+json' ? 'Problem' : 'Error';
  return checkValue(['components', 'schemas', schema], parse(type, body));
}

function parse(type: string | undefined, body: string): unknown {
  if (type?.endsWith('json') !== true) return body;
  try {
    return JSON.parse(body);
  } catch {
    return body;
  }
}

/** The document leaves clients room for fields to come; here, one it does not name is a leak. */
function closed(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(closed);
  const entries = Object.entries(value).map(([key, inner]) => [key, closed(inner)]);
  const open = 'properties' in value && 'type' in value && value.type === 'object';
  return { ...(open && { additionalProperties: false }), ...Object.fromEntries(entries) };
}
