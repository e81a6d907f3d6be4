// @ts-check
import { curlLine } from '../console/requests/curl.js';
import { el } from '../console/ui/dom.js';
import { local } from '../console/ui/memory.js';
import { object } from './document.js';
import { codeBlock, copyButton, withWholeOptions } from './elements.js';
import { contentOf, exampleOf, exampleText, requestExample } from './examples.js';

/** @import { ApiKey } from '../console/ui/api-key.js' */
/** @import { ApiDocument, Operation } from './document.js' */
/** @import { ExampleRequest } from './examples.js' */

/**
 * How to send the operation in each language, and an example of its response.
 * @param {ApiDocument} document
 * @param {Operation} operation
 * @param {{ choice: LanguageChoice, apiKey: ApiKey }} context
 * @returns {HTMLElement[]}
 */
export function samplesView(document, operation, { choice, apiKey }) {
  const code = el('code');
  const buttons = languages.map(({ name }) => {
    const button = el('button', { class: 'button button-small button-quiet', type: 'button' }, name);
    button.addEventListener('click', () => {
      choice.value = name;
    });
    return button;
  });
  const render = () => {
    const request = requestExample(document, operation, apiKey.value !== undefined);
    const language = languages.find(({ name }) => name === choice.value) ?? languages[0];
    code.replaceChildren(...withWholeOptions(language?.write(request) ?? ''));
    for (const button of buttons)
      button.setAttribute('aria-pressed', String(button.textContent === language?.name));
  };
  choice.addEventListener('change', render);
  apiKey.addEventListener('change', render);
  render();
  const group = el('div', { class: 'languages', role: 'group', 'aria-label': 'Language' }, ...buttons);
  const copy = copyButton(`the request of ${operation.title}`, () => code.textContent);
  const head = el('div', { class: 'sample-head' }, group, copy);
  return [head, el('pre', { tabindex: '0' }, code), ...responseSample(document, operation)];
}

/**
 * @param {ApiDocument} document
 * @param {Operation} operation
 */
function responseSample(document, { details }) {
  for (const [status, written] of Object.entries(object(details, 'responses'))) {
    const [, media] = contentOf(document.resolve(written))[0] ?? [];
    const example = media === undefined ? undefined : exampleOf(document, media);
    if (!status.startsWith('2') || example === undefined) continue;
    const code = el('span', { class: 'status', 'data-class': '2' }, status);
    return [
      el('div', { class: 'sample-head' }, el('h4', {}, 'Response ', code)),
      codeBlock(exampleText(example)),
    ];
  }
  return [];
}

const setting = 'language';

/** The language of all examples on the page, remembered by the browser. Event: `change`. */
export class LanguageChoice extends EventTarget {
  get value() {
    return local.read(setting) ?? languages[0]?.name;
  }

  set value(value) {
    local.write(setting, value);
    this.dispatchEvent(new Event('change'));
  }
}

/** @type {readonly { name: string, write: (request: ExampleRequest) => string }[]} */
const languages = [
  { name: 'curl', write: curlLine },
  { name: 'fetch', write: fetchCode },
  { name: 'Python', write: pythonCode },
];

/** @param {ExampleRequest} request */
function fetchCode({ method, url, headers, body, keyed, result, paged }) {
  const fields = Object.entries(headers).map(([name, value]) => `${quote(name)}: ${quote(value)}`);
  if (keyed) fields.push('"x-api-key": apiKey');
  const options = [
    ...(method === 'GET' ? [] : [`  method: ${quote(method)},`]),
    ...(fields.length === 0 ? [] : [`  headers: { ${fields.join(', ')} },`]),
    ...(body === undefined ? [] : [`  body: JSON.stringify(${oneLine(JSON.parse(body))}),`]),
  ];
  const given = options.length === 0 ? '' : `, {\n${options.join('\n')}\n}`;
  const value = { json: 'await response.json()', text: 'await response.text()', none: 'response.status' };
  const send = [
    `const response = await fetch(${paged ? 'url' : quote(url)}${given});`,
    'if (!response.ok) throw new Error(await response.text());',
    `console.log(${value[result]});`,
  ].join('\n');
  const setKey = keyed ? ['const apiKey = "your API key";'] : [];
  if (!paged) return [...setKey, send].join('\n');
  return [
    ...setKey,
    `let url = ${quote(url)};`,
    'while (url) {',
    indent(send, '  '),
    '  const [, next] = /<([^>]+)>; rel="next"/.exec(response.headers.get("link")) ?? [];',
    '  url = next && new URL(next, url);',
    '}',
  ].join('\n');
}

/** @param {ExampleRequest} request */
function pythonCode({ method, url, headers, body, keyed, result, paged }) {
  // The package adds the header for JSON.
  const fields = Object.entries(headers)
    .filter(([name, value]) => name !== 'content-type' || value !== 'application/json')
    .map(([name, value]) => `${quote(name)}: ${quote(value)}`);
  if (keyed) fields.push('"x-api-key": os.environ["API_KEY"]');
  const options = [
    ...(fields.length === 0 ? [] : [`    headers={${fields.join(', ')}},`]),
    ...(body === undefined ? [] : [`    json=${pythonLiteral(JSON.parse(body))},`]),
  ];
  const target = paged ? 'url' : quote(url);
  const given = options.length === 0 ? target : `\n    ${target},\n${options.join('\n')}\n`;
  const value = { json: 'response.json()', text: 'response.text', none: 'response.status_code' };
  const send = [
    `response = requests.${method.toLowerCase()}(${given})`,
    'response.raise_for_status()',
    `print(${value[result]})`,
  ].join('\n');
  const imports = [...(keyed ? ['import os'] : []), 'import requests'];
  if (!paged) return [...imports, '', send].join('\n');
  return [
    ...[...imports, 'from urllib.parse import urljoin', ''],
    `url = ${quote(url)}`,
    'while url:',
    indent(send, '    '),
    '    next = response.links.get("next")',
    '    url = next and urljoin(url, next["url"])',
  ].join('\n');
}

/**
 * @param {string} lines
 * @param {string} by
 */
function indent(lines, by) {
  return lines.replaceAll(/^/gm, by);
}

/** @param {string} text */
function quote(text) {
  return JSON.stringify(text);
}

/**
 * JSON with spaces. A line break inside a string is escaped, so each real one is layout.
 * @param {unknown} value
 */
function oneLine(value) {
  return JSON.stringify(value, undefined, 1).replaceAll(/\n */g, ' ');
}

/**
 * @param {unknown} value
 * @returns {string}
 */
function pythonLiteral(value) {
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (Array.isArray(value)) return `[${value.map(pythonLiteral).join(', ')}]`;
  if (typeof value !== 'object') return JSON.stringify(value);
  const fields = Object.entries(value).map(([name, inner]) => `${quote(name)}: ${pythonLiteral(inner)}`);
  return `{${fields.join(', ')}}`;
}
