// @ts-check
import { el } from '../console/ui/dom.js';
import { codeBlock, fold } from './code-block.js';

// A list of all posts may be endless: the page shows its beginning.
const maxShownBytes = 64 * 1024;

/**
 * A response as the reader sees it: status, time, headers, body.
 * @param {Response} response
 * @param {number} elapsedMs
 */
export async function resultView(response, elapsedMs) {
  const { text, whole } = await beginningOf(response);
  const code = el('span', { class: 'status', 'data-class': String(response.status).charAt(0) });
  code.append(`${response.status} ${response.statusText}`.trim());
  const facts = el('span', { class: 'muted small' }, ` ${Math.round(elapsedMs)} ms`);
  const headers = [...response.headers].map(([name, value]) => `${name}: ${value}`).join('\n');
  const body = text === '' ? [] : [codeBlock(pretty(text))];
  if (!whole) body.push(el('p', { class: 'muted small' }, 'Only the first 64 KiB are shown.'));
  return [el('p', {}, code, facts), fold('Response headers', '', codeBlock(headers)), ...body];
}

/** @param {unknown} error */
export function requestFailed(error) {
  const timedOut = error instanceof DOMException && error.name === 'TimeoutError';
  const words = timedOut ? 'The service did not respond within 15 seconds.' : String(error);
  return el('div', { class: 'form-error' }, words);
}

/** @param {Response} response */
async function beginningOf(response) {
  const decoder = new TextDecoder();
  const reader = response.body?.getReader();
  let text = '';
  for (let size = 0; reader !== undefined && size < maxShownBytes; ) {
    const { done, value } = await reader.read();
    if (done) return { text: text + decoder.decode(), whole: true };
    size += value.length;
    text += decoder.decode(value, { stream: true });
  }
  await reader?.cancel();
  return { text, whole: reader === undefined };
}

/** @param {string} text */
function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), undefined, 2);
  } catch {
    return text;
  }
}
