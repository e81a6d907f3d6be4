// @ts-check
import { ApiError } from '../api/client.js';
import { el, moveFocus, setEnabled } from './dom.js';
import { explain, requestIdLine } from './messages.js';

/**
 * The values of the fields of a form, by name.
 * @param {HTMLFormElement} form
 * @returns {Record<string, string>}
 */
export function readFields(form) {
  // No form of the page has a field for a file.
  return /** @type {Record<string, string>} */ (Object.fromEntries(new FormData(form)));
}

/**
 * @param {HTMLFormElement} form
 * @param {Readonly<Record<string, string>>} fields
 */
export function writeFields(form, fields) {
  for (const [name, value] of Object.entries(fields)) {
    const control = form.elements.namedItem(name);
    if (isControl(control)) control.value = value;
  }
}

/**
 * Shows that the request of a form is running. Its text stays readable but cannot be changed.
 * @param {HTMLFormElement} form
 * @param {boolean} busy
 */
export function setBusy(form, busy) {
  form.ariaBusy = String(busy);
  for (const control of form.elements) {
    if (isControl(control)) control.readOnly = busy;
    if (control instanceof HTMLButtonElement && control.type === 'submit') setEnabled(control, !busy);
  }
}

/** @param {HTMLFormElement} form */
export function isBusy(form) {
  return form.ariaBusy === 'true';
}

/** @typedef {HTMLInputElement | HTMLTextAreaElement} Control */

/**
 * Shows why the request of a form failed, beside the field in the message or else below the fields.
 * `undefined` clears both.
 * @param {HTMLFormElement} form
 * @param {HTMLElement} place below the fields
 * @param {unknown} error
 */
export function showProblem(form, place, error) {
  place.replaceChildren();
  for (const control of form.elements) if (isControl(control)) clearFieldProblem(control);
  if (error === undefined) return;
  if (error instanceof ApiError) {
    // Messages of the API about an invalid field start with the name of the field.
    const control = form.elements.namedItem(/^\w*/.exec(error.message)?.[0] ?? '');
    if (isControl(control)) return showFieldProblem(control, error.message.replace(/^\w+/, labelOf(control)));
  }
  place.replaceChildren(el('div', { class: 'form-error' }, explain(error), ...requestIdLine(error)));
}

/**
 * Shows a problem below its field until the text changes. The field must name it in `aria-describedby`.
 * @param {Control} control
 * @param {string} text
 */
export function showFieldProblem(control, text) {
  clearFieldProblem(control);
  const problem = el('p', { class: 'field-error', id: `${control.id}-problem` }, `${text}.`);
  control.after(problem);
  control.setAttribute('aria-invalid', 'true');
  control.addEventListener('input', () => clearFieldProblem(control), { once: true });
  moveFocus(control);
}

/** @param {Control} control */
export function clearFieldProblem(control) {
  document.getElementById(`${control.id}-problem`)?.remove();
  control.removeAttribute('aria-invalid');
}

/** @param {Control} control */
function labelOf(control) {
  return control.labels?.[0]?.firstChild?.textContent?.trim() ?? control.name;
}

/**
 * @param {Element | RadioNodeList | null} control
 * @returns {control is Control}
 */
function isControl(control) {
  return control instanceof HTMLInputElement || control instanceof HTMLTextAreaElement;
}
