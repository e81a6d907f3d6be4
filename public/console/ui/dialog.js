// @ts-check

/**
 * Shows a dialog until it is closed, by Escape or by a button. The browser gives the focus back to
 * where it was.
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
 * Lets each of the page's `data-close` buttons close the dialog it is in.
 * @param {Document} page
 */
export function wireCloseButtons(page) {
  for (const button of page.querySelectorAll('dialog [data-close]')) {
    button.addEventListener('click', () => button.closest('dialog')?.close());
  }
}
