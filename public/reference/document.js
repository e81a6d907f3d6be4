// @ts-check

/**
 * One operation. Its parameters include those of its path, and their references are resolved. Its details include
 * the `security` of the document, unless it has its own.
 * @typedef {object} Operation
 * @property {string} id
 * @property {string} title the task, such as `List users`
 * @property {string} method in capitals
 * @property {string} path
 * @property {Json} details
 * @property {readonly Json[]} parameters
 */

const methods = ['get', 'head', 'post', 'put', 'patch', 'delete', 'options', 'trace'];
// A circular reference must not hang the page.
const maxSteps = 8;

/** An OpenAPI 3.1 description. It resolves references to parts that are defined elsewhere. */
export class ApiDocument {
  /** @param {Json} root */
  constructor(root) {
    this.root = root;
  }

  /** @returns {readonly { name: string, description: string, operations: Operation[] }[]} */
  get groups() {
    const operations = this.#operations();
    const described = list(this.root, 'tags').filter(isObject);
    const names = new Set([...described.map((tag) => text(tag, 'name')), ...operations.map(tagOf)]);
    return [...names]
      .map((name) => ({
        name,
        description: text(described.find((tag) => text(tag, 'name') === name) ?? {}, 'description'),
        operations: operations.filter((operation) => tagOf(operation) === name),
      }))
      .filter((group) => group.operations.length > 0);
  }

  /**
   * Resolves a local `$ref`. Fields beside the reference override those of its target.
   * @param {unknown} value
   * @returns {Json}
   */
  resolve(value) {
    let found = isObject(value) ? value : {};
    for (let step = 0; typeof found['$ref'] === 'string' && step < maxSteps; step += 1) {
      const { $ref, ...beside } = found;
      const target = this.#at(String($ref));
      found = isObject(target) ? { ...target, ...beside } : beside;
    }
    return found;
  }

  /** @param {string} reference */
  #at(reference) {
    /** @type {unknown} */
    let found = reference.startsWith('#/') ? this.root : undefined;
    for (const segment of reference.slice(2).split('/')) {
      const name = decodeURIComponent(segment).replaceAll('~1', '/').replaceAll('~0', '~');
      found = isObject(found) ? found[name] : undefined;
    }
    return found;
  }

  /** @returns {Operation[]} */
  #operations() {
    return Object.entries(object(this.root, 'paths')).flatMap(([path, written]) => {
      const item = this.resolve(written);
      return methods
        .filter((method) => isObject(item[method]))
        .map((method) => {
          const details = { security: this.root['security'], ...object(item, method) };
          const parameters = [...list(details, 'parameters'), ...list(item, 'parameters')];
          const id = text(details, 'operationId') || `${method}-${path.replaceAll(/\W+/g, '-')}`;
          const verb = method.toUpperCase();
          const title = text(details, 'summary') || `${verb} ${path}`;
          return {
            ...{ id, title, method: verb, path, details },
            parameters: parameters.map((parameter) => this.resolve(parameter)),
          };
        });
    });
  }
}

/** @param {Operation} operation */
function tagOf({ details }) {
  return String(list(details, 'tags')[0] ?? 'other');
}

// The description may have any content. Each of these functions expects one type; a value of another
// type is treated as absent, so that a mistake in the document costs a detail and not the page.

/** @typedef {Readonly<Record<string, unknown>>} Json */

/**
 * @param {unknown} value
 * @returns {value is Json}
 */
export function isObject(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * @param {Json} from
 * @param {string} name
 * @returns {Json}
 */
export function object(from, name) {
  const value = from[name];
  return isObject(value) ? value : {};
}

/**
 * @param {Json} from
 * @param {string} name
 * @returns {readonly unknown[]}
 */
export function list(from, name) {
  const value = from[name];
  return Array.isArray(value) ? value : [];
}

/**
 * @param {Json} from
 * @param {string} name
 */
export function text(from, name) {
  const value = from[name];
  return typeof value === 'string' ? value : '';
}

const maxDepth = 4;
// A longer pattern does not help a reader; the description beside it does.
const maxPatternLength = 40;

/**
 * The values that a schema allows, in a few words: `integer, 1 to 100, default 20`.
 * @param {ApiDocument} document
 * @param {unknown} schema
 * @returns {string}
 */
export function schemaText(document, schema, depth = 0) {
  const found = document.resolve(schema);
  return [typeText(document, found, depth), ...limits(found)].filter((words) => words !== '').join(', ');
}

/**
 * @param {ApiDocument} document
 * @param {Json} schema
 * @param {number} depth
 * @returns {string}
 */
function typeText(document, schema, depth) {
  if ('const' in schema) return JSON.stringify(schema['const']);
  if ('enum' in schema)
    return list(schema, 'enum')
      .map((value) => JSON.stringify(value))
      .join(' or ');
  const choices = [...list(schema, 'oneOf'), ...list(schema, 'anyOf')];
  if (choices.length > 0 && depth < maxDepth) {
    return choices.map((choice) => schemaText(document, choice, depth + 1)).join(' or ');
  }
  const types = Array.isArray(schema['type']) ? list(schema, 'type') : [text(schema, 'type')];
  const words = types.join(' or ');
  if (words !== 'array' || !('items' in schema) || depth >= maxDepth) return words;
  const of = document.resolve(schema['items']);
  return `array of ${text(of, 'title') || schemaText(document, of, depth + 1)}`;
}

/** @param {Json} schema */
function limits(schema) {
  const { minimum, maximum, minLength, maxLength, pattern, format } = schema;
  return [
    typeof format === 'string' ? format : '',
    range(minimum, maximum),
    lengthText(minLength, maxLength),
    typeof pattern === 'string' && pattern.length <= maxPatternLength ? `matches ${pattern}` : '',
    'default' in schema ? `default ${JSON.stringify(schema['default'])}` : '',
  ];
}

/**
 * @param {unknown} from
 * @param {unknown} to
 */
function lengthText(from, to) {
  if (to === undefined && from === 1) return 'not empty';
  return from === undefined && to === undefined ? '' : `${range(from, to)} characters`;
}

/**
 * @param {unknown} from
 * @param {unknown} to
 */
function range(from, to) {
  if (from === undefined && to === undefined) return '';
  if (from === undefined) return `at most ${to}`;
  return to === undefined ? `at least ${from}` : `${from} to ${to}`;
}

/**
 * The fields of an object, or of the objects in an array.
 * @param {ApiDocument} document
 * @param {unknown} schema
 * @returns {{ name: string, required: boolean, schema: Json }[]}
 */
export function fieldsOf(document, schema) {
  const found = document.resolve(schema);
  const holder = isObject(found['items']) ? document.resolve(found['items']) : found;
  const required = list(holder, 'required');
  return Object.entries(object(holder, 'properties')).map(([name, value]) => ({
    name,
    required: required.includes(name),
    schema: document.resolve(value),
  }));
}
