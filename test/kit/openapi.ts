import assert from 'node:assert/strict';
import { appendFileSync, readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';

/** A response as it was received, with header names in lower case and the body as text. */
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
  readonly schema?: object | Reference;
  readonly examples?: Readonly<Record<string, { readonly value: unknown } | Reference>>;
}

interface ParameterObject {
  readonly name: string;
  readonly in: string;
  readonly schema: object;
}

export interface Operation {
  readonly operationId: string;
  readonly parameters?: readonly (ParameterObject | Reference)[];
  readonly requestBody?: { readonly content: Readonly<Record<string, MediaTypeObject>> };
  readonly responses: Readonly<Record<string, ResponseObject | Reference>>;
}

type PathItem = Readonly<Partial<Record<string, Operation>>>;

export interface OpenApi {
  readonly paths: Readonly<Record<string, PathItem>>;
  readonly components: { readonly schemas: Readonly<Record<string, object>> };
}

const file = new URL('../../public/openapi.json', import.meta.url);

/** The document that the service serves. */
export const openApi: OpenApi = JSON.parse(readFileSync(file, 'utf8'));

const methods = ['get', 'put', 'post', 'delete', 'patch'] as const;
// Headers that OpenAPI does not describe. Content-Type is checked with the body.
const unlisted =
  /^(connection|keep-alive|date|content-length|content-type|transfer-encoding|access-control-.*|x-content-type-options|cross-origin-resource-policy|strict-transport-security)$/;

// Set this variable to log one line for each response of a whole test run.
const seenFile = process.env['OPENAPI_SEEN'];

const base = 'https://users-service/openapi.json';
// Compiling the schema of schemas takes most of the start of a test file. One test checks all schemas with it.
const ajv = new Ajv2020({ strict: false, allErrors: true, validateFormats: false, validateSchema: false });
ajv.addSchema(closed(openApi) as object, base);

const allOperations: ReadonlyMap<string, Operation> = new Map(
  Object.entries(openApi.paths).flatMap(([path, item]) =>
    methods.flatMap((method) => {
      const operation = item[method];
      return operation === undefined ? [] : [[`${method.toUpperCase()} ${path}`, operation] as const];
    }),
  ),
);

// Literal segments take precedence over parameters.
const templates = Object.keys(openApi.paths)
  .map((path) => ({ path, segments: path.split('/') }))
  .sort((a, b) => a.path.split('{').length - b.path.split('{').length);

/** Every operation of the document, as `METHOD /path/{parameter}`. */
export function operations(): ReadonlyMap<string, Operation> {
  return allOperations;
}

/** The names of the query parameters of an operation. */
export function queryParameters({ parameters = [] }: Partial<Operation> = {}): string[] {
  return parameters.map((one) => resolve(one)).flatMap((one) => (one.in === 'query' ? [one.name] : []));
}

/** A shared parameter of an operation: its schema, and where this is in the document. */
export function findParameter(
  { parameters = [] }: Partial<Operation> = {},
  name: string,
): { readonly pointer: readonly string[]; readonly schema: object } {
  const found = parameters.find((one) => '$ref' in one && resolve<ParameterObject>(one).name === name);
  assert.ok(found !== undefined && '$ref' in found, `there is no shared parameter ${name}`);
  const { schema } = resolve<ParameterObject>(found);
  return { pointer: [...found.$ref.split('/').slice(1), 'schema'], schema };
}

/** Resolves a `$ref`, and returns any other value unchanged. */
export function resolve<T extends object>(value: T | Reference): T {
  if (!('$ref' in value)) return value;
  let found: unknown = openApi;
  for (const name of value.$ref.slice('#/'.length).split('/'))
    found = (found as Record<string, unknown>)[name];
  return found as T;
}

/** The examples of a body: its own or, without any, those of its schema. */
export function examplesOf({ schema = {}, examples }: MediaTypeObject): readonly unknown[] {
  if (examples !== undefined) return Object.values(examples).map((example) => resolve(example).value);
  return resolve<{ readonly examples?: readonly unknown[] }>(schema).examples ?? [];
}

/**
 * Checks the status, headers and body of a response against the document, and fails with a list of all
 * problems. Returns the operation, or `undefined` for responses that belong to no operation, such as 405 and
 * those to OPTIONS. The path of the request may include its query.
 */
export function validateExchange(method: string, path: string, answer: Answer): string | undefined {
  const name = findOperation(method, path);
  const problems =
    name === undefined ? checkUnrouted(method, path, answer) : checkRouted(method, name, answer);
  assert.deepEqual(problems, [], `the response to ${method} ${path} is not as documented`);
  if (seenFile !== undefined) appendFileSync(seenFile, `${name ?? `${method} (none)`} ${answer.status}\n`);
  return name;
}

/** Checks an error against the document when the request is unknown or was malformed. */
export function validateError(answer: Answer): void {
  assert.deepEqual(checkError(answer), [], `the response ${answer.status} is not as documented`);
}

/** Checks a response to `fetch`, and returns it with its body, which can be read only once. */
export async function validateResponse(method: string, url: string, response: Response): Promise<Answer> {
  const { status, headers } = response;
  const answer = { status, headers: Object.fromEntries(headers), body: await response.text() };
  validateExchange(method, new URL(url).pathname, answer);
  return answer;
}

/** The problems of a value according to the schema at a place in the document. */
export function checkValue(pointer: readonly string[], value: unknown): string[] {
  const fragment = pointer.map((part) =>
    encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1')),
  );
  const validate = ajv.getSchema(`${base}#/${fragment.join('/')}`);
  assert.ok(validate, `there is no schema at ${pointer.join(' ')}`);
  if (validate(value) === true) return [];
  return (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath || 'body'} ${message}`);
}

function findOperation(method: string, path: string): string | undefined {
  const known = method === 'HEAD' ? 'get' : method.toLowerCase();
  const [target = ''] = path.replace(/^https?:\/\/[^/?]*/, '').split('?');
  const segments = target.split('/').map(decode);
  const found = templates.find((template) => matches(template.segments, segments))?.path;
  // Files may be in folders at any depth, which a template cannot express.
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

/** Responses that the document describes in text: OPTIONS, 405, 404, and errors before the routing. */
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

/** Rejects undocumented fields. The document allows them for later releases, but now one would be a leak. */
function closed(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(closed);
  const entries = Object.entries(value).map(([key, inner]) => [key, closed(inner)]);
  const open = 'properties' in value && 'type' in value && value.type === 'object';
  return { ...(open && { additionalProperties: false }), ...Object.fromEntries(entries) };
}
