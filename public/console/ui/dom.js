// @ts-check

/**
 * The element with this id, which must have this type.
 * @template {Element} T
 * @param {string} id
 * @param {new () => T} type
 * @returns {T}
 */
export function byId(id, type) {
  const found = document.getElementById(id);
  if (!(found instanceof type)) throw new Error(`#${id} is not a ${type.name}`);
  return found;
}

/**
 * The part of a cloned template with this name.
 * @template {Element} T
 * @param {ParentNode} root
 * @param {string} name
 * @param {new () => T} type
 * @returns {T}
 */
export function part(root, name, type) {
  const found = root.querySelector(`[data-part="${name}"]`);
  if (!(found instanceof type)) throw new Error(`the part ${name} is not a ${type.name}`);
  return found;
}

/**
 * A copy of the content of the template with this id.
 * @param {string} id
 * @returns {HTMLElement}
 */
export function clone(id) {
  const first = byId(id, HTMLTemplateElement).content.firstElementChild?.cloneNode(true);
  if (!(first instanceof HTMLElement)) throw new Error(`the template ${id} is empty`);
  return first;
}

/**
 * A new element. Strings among the children become text nodes, never markup, so text of users needs no
 * escaping.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Readonly<Record<string, string | undefined>>} attributes `undefined` leaves one out
 * @param {(Node | string)[]} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/**
 * Moves the focus after a request, unless the person now types into a field outside the form of the element.
 * @param {HTMLElement} element
 */
export function moveFocus(element) {
  const active = document.activeElement;
  const isTyping = active?.matches('input, select, textarea') && active.checkVisibility();
  if (!isTyping || element.closest('form')?.contains(active)) element.focus();
}

/**
 * Focuses a field with the key `/` if it can be seen, except while text is typed. A field behind a dialog cannot be
 * focused.
 * @param {HTMLInputElement} input
 * @param {() => void} [show] makes the field visible
 */
export function focusWithSlash(input, show) {
  addEventListener('keydown', (event) => {
    if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey) return;
    const isTyping = event.target instanceof Element && event.target.matches('input, select, textarea');
    if (isTyping) return;
    show?.();
    if (!input.checkVisibility()) return;
    event.preventDefault();
    input.focus();
  });
}

/**
 * Setting the same text again would make screen readers read it again, and end its selection.
 * @param {HTMLElement} element
 * @param {string} text
 */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Shows or hides an element. If it has the focus and disappears, the focus moves to another element.
 * @param {HTMLElement} element
 * @param {boolean} hidden
 * @param {HTMLElement} next
 */
export function setHidden(element, hidden, next) {
  if (hidden && element.contains(document.activeElement)) next.focus();
  element.hidden = hidden;
}

/**
 * Disables a button but keeps it focusable. If a focused button disappeared, keyboard users would lose their
 * place on the page.
 * @param {HTMLButtonElement} button
 * @param {boolean} enabled
 */
export function setEnabled(button, enabled) {
  button.setAttribute('aria-disabled', String(!enabled));
}

/** @param {HTMLButtonElement} button */
export function isEnabled(button) {
  return button.getAttribute('aria-disabled') !== 'true';
}

/** @type {WeakMap<HTMLDialogElement, Promise<void>>} */
const closings = new WeakMap();

/**
 * Shows a dialog until it is closed with Escape or a button. The browser then restores the focus.
 * @param {HTMLDialogElement} dialog
 * @returns {Promise<void>}
 */
export async function showDialog(dialog) {
  // The `close` event comes after the dialog has closed. If a fast user opens the dialog again before the event, the
  // late event must not count as the next closing.
  if (!dialog.open) await closings.get(dialog);
  const { promise, resolve } = Promise.withResolvers();
  dialog.addEventListener('close', () => resolve(undefined), { once: true });
  closings.set(dialog, promise);
  dialog.showModal();
  await promise;
}

/** Makes each `data-close` button of the page close its dialog. */
export function wireCloseButtons() {
  for (const button of document.querySelectorAll('dialog [data-close]')) {
    button.addEventListener('click', () => button.closest('dialog')?.close());
  }
}
