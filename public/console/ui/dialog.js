// @ts-check

/**
 * Shows a dialog until it is closed with Escape or a button. The browser then restores the focus.
 * @param {HTMLDialogElement} dialog
 * @returns {Promise<void>}
 */
export function showDialog(dialog) {
  const closed = Promise.withResolvers();
  dialog.addEventListener('close', () => closed.resolve(undefined), { once: true });
  dialog.showModal();
  return closed.promise;
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
