// @ts-check
import { ApiError } from '../api/client.js';
import { el, moveFocus } from './dom.js';
import { explain, requestIdLine } from './messages.js';

/**
 * The values of the fields of a form, by name.
 * @param {HTMLFormElement} form
 * @returns {Record<string, string>}
 */
export function readFields(form) {
  /** @type {Record<string, string>} */
  const fields = {};
  for (const [name, value] of new FormData(form)) {
    if (typeof value === 'string') fields[name] = value;
  }
  return fields;
}

/**
 * @param {HTMLFormElement} form
 * @param {Readonly<Record<string, string>>} fields
 */
export function writeFields(form, fields) {
  for (const [name, value] of Object.entries(fields)) {
    const control = form.elements.namedItem(name);
    if (control instanceof HTMLInputElement || control instanceof HTMLTextAreaElement) control.value = value;
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
    if (control instanceof HTMLInputElement || control instanceof HTMLTextAreaElement)
      control.readOnly = busy;
    if (control instanceof HTMLButtonElement && control.type === 'submit') {
      control.setAttribute('aria-disabled', String(busy));
    }
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
  const control = fieldOf(form, error);
  if (control !== undefined && error instanceof ApiError) {
    return showFieldProblem(control, error.message.replace(/^\w+/, labelOf(control)));
  }
  place.replaceChildren(el('div', { class: 'form-error' }, explain(error), ...requestIdLine(error)));
}

/**
 * Shows a problem below its field until the text changes.
 * @param {Control} control
 * @param {string} text
 */
export function showFieldProblem(control, text) {
  clearFieldProblem(control);
  const problem = el('p', { class: 'field-error', id: `${control.id}-problem` }, `${text}.`);
  control.after(problem);
  control.setAttribute('aria-invalid', 'true');
  describe(control, (ids) => [problem.id, ...ids]);
  control.addEventListener('input', () => clearFieldProblem(control), { once: true });
  moveFocus(control);
}

/** @param {Control} control */
export function clearFieldProblem(control) {
  const problem = document.getElementById(`${control.id}-problem`);
  if (problem === null) return;
  problem.remove();
  control.removeAttribute('aria-invalid');
  describe(control, (ids) => ids.filter((id) => id !== problem.id));
}

/**
 * @param {Control} control
 * @param {(ids: string[]) => string[]} change
 */
function describe(control, change) {
  const ids = (control.getAttribute('aria-describedby') ?? '').split(' ').filter((id) => id !== '');
  const changed = change(ids);
  if (changed.length === 0) control.removeAttribute('aria-describedby');
  else control.setAttribute('aria-describedby', changed.join(' '));
}

/**
 * Messages of the API about an invalid field start with the name of the field.
 * @param {HTMLFormElement} form
 * @param {unknown} error
 * @returns {Control | undefined}
 */
function fieldOf(form, error) {
  if (!(error instanceof ApiError)) return undefined;
  const named = form.elements.namedItem(/^\w*/.exec(error.message)?.[0] ?? '');
  return isControl(named) ? named : undefined;
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
