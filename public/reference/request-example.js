// @ts-check
import { apiUrl } from '../console/api/base.js';
import { curlLine } from '../console/requests/curl.js';
import { contentOf, exampleOf } from './examples.js';
import { list, text } from './json.js';

/** @import { ApiDocument, Operation } from './document.js' */

/**
 * The operation as a curl line, with the examples of what it must have.
 * @param {ApiDocument} document
 * @param {Operation} operation
 * @returns {string}
 */
export function requestExample(document, operation) {
  const { method, path, parameters, details } = operation;
  const filled = path.replaceAll(/\{([^}]+)\}/g, (_, name) => {
    const parameter = parameters.find(
      (known) => text(known, 'name') === name && text(known, 'in') === 'path',
    );
    return encodeURIComponent(String(exampleOf(document, parameter ?? {}) ?? 1));
  });
  const [type, media] = contentOf(document.resolve(details['requestBody']))[0] ?? [];
  const body = media === undefined ? undefined : exampleOf(document, media);
  return curlLine({
    method,
    url: apiUrl(filled.slice(1)).href,
    headers: type === undefined ? {} : { 'content-type': type },
    body: body === undefined ? undefined : JSON.stringify(body),
    keyed: needsKey(details['security']),
  });
}

/**
 * A `{}` among the alternatives is: without a key, too.
 * @param {unknown} security
 */
function needsKey(security) {
  const alternatives = list({ security }, 'security');
  return alternatives.length > 0 && !alternatives.some((one) => JSON.stringify(one) === '{}');
}
