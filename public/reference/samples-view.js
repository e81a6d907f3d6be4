// @ts-check
import { el } from '../console/ui/dom.js';
import { codeBlock, copyButton, withWholeOptions } from './code-block.js';
import { contentOf, exampleOf, exampleText } from './examples.js';
import { object } from './json.js';
import { languages } from './languages.js';
import { requestExample } from './request-example.js';

/** @import { ApiKey } from '../console/api/api-key.js' */
/** @import { ApiDocument, Operation } from './document.js' */
/** @import { LanguageChoice } from './language-choice.js' */

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
