// @ts-check

/**
 * @typedef {object} SentRequest
 * @property {string} method
 * @property {string} url
 * @property {Readonly<Record<string, string>>} headers without the one of the key
 * @property {string | undefined} body
 * @property {boolean} keyed whether an API key was sent
 */

/**
 * The request as a line for a POSIX shell. It never contains the key, because such lines are stored in shell
 * histories and shared in chats.
 * @param {SentRequest} request
 * @returns {string}
 */
export function curlLine({ method, url, headers, body, keyed }) {
  const words = ['curl', ...methodWords(method, body)];
  for (const [name, value] of Object.entries(headers)) words.push('-H', shellQuote(`${name}: ${value}`));
  if (keyed) words.push('-H', '"x-api-key: $API_KEY"');
  // With -d, a body that begins with @ would name a file.
  if (body !== undefined) words.push(body.startsWith('@') ? '--data-raw' : '-d', shellQuote(body));
  return [...words, shellQuote(url)].join(' ');
}

/**
 * @param {string} method
 * @param {string | undefined} body
 */
function methodWords(method, body) {
  if (method === 'HEAD') return ['-I'];
  const implied = body === undefined ? 'GET' : 'POST';
  // With -i, curl prints the headers of the response, including ETag and Link.
  return method === implied ? ['-i'] : ['-i', '-X', method];
}

/**
 * The gRPC call for the same user, or `undefined` for any other request.
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
 * Quotes a text as one word for a POSIX shell.
 * @param {string} text
 * @returns {string}
 */
export function shellQuote(text) {
  return /^[\w@%+:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
