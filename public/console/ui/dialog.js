// @ts-check

/** @type {WeakMap<HTMLDialogElement, Promise<void>>} */
const closings = new WeakMap();

/**
 * Shows a dialog until it is closed with Escape or a button. The browser then restores the focus.
 * @param {HTMLDialogElement} dialog
 * @returns {Promise<void>}
 */
export async function showDialog(dialog) {
  // The `close` event comes after the dialog has closed. A fast user opens it again in between, and the event would
  // seem to close it again.
  if (!dialog.open) await closings.get(dialog);
  const { promise, resolve } = Promise.withResolvers();
  dialog.addEventListener('close', () => resolve(undefined), { once: true });
  closings.set(dialog, promise);
  dialog.showModal();
  await promise;
}

/**
 * Makes each `data-close` button of the page close its dialog.
 * @param {Document} page
 */
export function wireCloseButtons(page) {
  for (const button of page.querySelectorAll('dialog [data-close]')) {
    button.addEventListener('click', () => button.closest('dialog')?.close());
  }
}
