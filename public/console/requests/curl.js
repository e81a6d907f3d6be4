// @ts-check

/**
 * @typedef {object} SentRequest
 * @property {string} method
 * @property {string} url
 * @property {Readonly<Record<string, string>>} headers without the key's
 * @property {string | undefined} body
 * @property {boolean} keyed whether an API key went along
 */

/**
 * The request as a line for a POSIX shell. The key itself never is in it: such lines end up in
 * histories and chats.
 * @param {SentRequest} request
 * @returns {string}
 */
export function curlLine({ method, url, headers, body, keyed }) {
  const words = ['curl', ...methodWords(method, body)];
  for (const [name, value] of Object.entries(headers)) words.push('-H', shellQuote(`${name}: ${value}`));
  if (keyed) words.push('-H', '"x-api-key: $API_KEY"');
  if (body !== undefined) words.push('-d', shellQuote(body));
  return [...words, shellQuote(url)].join(' ');
}

/**
 * @param {string} method
 * @param {string | undefined} body
 */
function methodWords(method, body) {
  if (method === 'HEAD') return ['-I'];
  const implied = body === undefined ? 'GET' : 'POST';
  // With -i the answer's headers show, ETag and Link among them.
  return method === implied ? ['-i'] : ['-i', '-X', method];
}

/**
 * The same user, asked for over gRPC; `undefined` for any other request.
 * @param {SentRequest} request
 * @param {number} port
 * @returns {string | undefined}
 */
export function grpcurlLine({ method, url, keyed }, port) {
  const { hostname, pathname, protocol } = new URL(url);
  const id = /\/users\/([1-9][0-9]*)$/.exec(pathname)?.[1];
  if (method !== 'GET' || id === undefined) return undefined;
  const words = ['grpcurl'];
  if (protocol === 'http:') words.push('-plaintext');
  if (keyed) words.push('-H', '"x-api-key: $API_KEY"');
  words.push('-d', shellQuote(`{"id":${id}}`), shellQuote(`${hostname}:${port}`), 'Users/GetUser');
  return words.join(' ');
}

/**
 * One word for a POSIX shell that stands for exactly this text.
 * @param {string} text
 * @returns {string}
 */
export function shellQuote(text) {
  return /^[\w@%+:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
