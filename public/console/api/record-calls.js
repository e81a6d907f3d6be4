// @ts-check
import { apiUrl } from './connection.js';

/** @import { Answer, Send } from './client.js' */

/**
 * A record with the entity tag of its version.
 * @template T
 * @typedef {{ record: T, etag: string }} Tagged
 */

/**
 * A page of a collection, with the links to other pages.
 * @template T
 * @typedef {{ items: T[], links: Partial<Record<string, string>> }} Page
 */

/**
 * The requests about a kind of record. A key has the parts of the address of one record.
 * @template Key
 * @template T
 * @typedef {object} RecordCalls
 * @property {(url: URL, signal: AbortSignal) => Promise<Page<T>>} list
 * @property {(path: string, draft: object, key: string, signal?: AbortSignal) => Promise<T>} create
 * @property {(key: Key, signal?: AbortSignal) => Promise<Tagged<T>>} get
 * @property {(key: Key, etag: string, patch: object, signal: AbortSignal) => Promise<Tagged<T>>} update
 * @property {(key: Key, etag: string, signal: AbortSignal) => Promise<void>} remove
 * @property {(key: Key, version: number) => boolean} hasSaved whether `update` has returned this version or a
 *   later one
 * @property {(key: Key, version: number) => boolean} noteSaved notes a save that was found later, because its response
 *   was lost; returns whether it was new
 * @property {() => void} forgetSaved must be called when the service may have other data with lower versions
 */

/**
 * @template Key
 * @template T
 * @param {Send} send
 * @param {(key: Key) => string} pathOf
 * @returns {RecordCalls<Key, T>}
 */
export function createRecordCalls(send, pathOf) {
  /**
   * The versions of the updated records, by their paths.
   * @type {Map<string, number>}
   */
  const saved = new Map();

  return {
    async list(url, signal) {
      const { data, headers } = await send({ method: 'GET', url, signal });
      return { items: /** @type {T[]} */ (data), links: parseLinks(headers.get('link')) };
    },

    async create(path, draft, key, signal) {
      const headers = { 'content-type': 'application/json', 'idempotency-key': key };
      const body = JSON.stringify(draft);
      const { data } = await send({ method: 'POST', url: apiUrl(path), headers, body, signal });
      return /** @type {T} */ (data);
    },

    async get(key, signal) {
      return tagged(await send({ method: 'GET', url: apiUrl(pathOf(key)), signal }));
    },

    async update(key, etag, patch, signal) {
      const headers = { 'content-type': 'application/merge-patch+json', 'if-match': etag };
      const body = JSON.stringify(patch);
      const answer = tagged(await send({ method: 'PATCH', url: apiUrl(pathOf(key)), headers, body, signal }));
      saved.set(pathOf(key), versionOf(answer));
      return answer;
    },

    async remove(key, etag, signal) {
      await send({ method: 'DELETE', url: apiUrl(pathOf(key)), headers: { 'if-match': etag }, signal });
    },

    hasSaved: (key, version) => version <= (saved.get(pathOf(key)) ?? 0),

    noteSaved(key, version) {
      const isNew = !this.hasSaved(key, version);
      if (isNew) saved.set(pathOf(key), version);
      return isNew;
    },

    forgetSaved: () => saved.clear(),
  };
}

/**
 * @template T
 * @param {Answer} answer
 * @returns {Tagged<T>}
 */
function tagged({ data, headers }) {
  // If-Match matches only the tag of the service. A proxy that compresses weakens it, or adds the name of the coding.
  return {
    record: /** @type {T} */ (data),
    etag: headers.get('etag')?.replace(/^W\/|-\w+(?=")/g, '') ?? '*',
  };
}

/** @param {Pick<Tagged<unknown>, 'etag'>} tagged */
export function versionOf({ etag }) {
  return Number(etag.replaceAll('"', ''));
}

/**
 * The references of a Link header (RFC 8288) by their relation. A reference cannot contain `<` and `>`, but
 * commas and semicolons.
 * @param {string | null} header
 * @returns {Partial<Record<string, string>>}
 */
export function parseLinks(header) {
  /** @type {Partial<Record<string, string>>} */
  const links = {};
  for (const [, reference, parameters] of (header ?? '').matchAll(/<([^<>]*)>([^<]*)/g)) {
    const rel = /;\s*rel\s*=\s*(?:"([^"]*)"|([^\s;,"]+))/i.exec(parameters ?? '');
    for (const name of (rel?.[1] ?? rel?.[2] ?? '').split(/\s+/)) {
      if (name !== '' && reference !== undefined) links[name.toLowerCase()] ??= reference;
    }
  }
  return links;
}
