// @ts-check
import { hasStatus } from '../api/api-error.js';
import { showDialog } from '../ui/dialog.js';
import { part } from '../ui/dom.js';
import { isBusy, setBusy } from '../ui/form-fields.js';
import { showProblem } from '../ui/form-problem.js';
import { announce, nameText } from '../ui/toasts.js';

/** @import { RecordCalls, Tagged } from '../api/record-calls.js' */

/**
 * The dialog that confirms a deletion. It deletes only the version that is shown.
 * @template T
 * @param {HTMLDialogElement} dialog
 * @param {Pick<RecordCalls<T, T>, 'get' | 'remove'>} calls
 * @param {(record: T) => string} nameOf
 * @returns {(tagged: Tagged<T>) => Promise<boolean>} whether the record is deleted
 */
export function createDeleteDialog(dialog, calls, nameOf) {
  const form = part(dialog, 'form', HTMLFormElement);
  const problem = part(dialog, 'problem', HTMLElement);
  const name = part(dialog, 'name', HTMLElement);
  /** @type {Tagged<T> | undefined} */
  let target;
  let isGone = false;
  let sending = new AbortController();

  /**
   * @param {Tagged<T>} tagged
   * @param {AbortSignal} signal
   */
  async function remove(tagged, signal) {
    const deleted = nameText(nameOf(tagged.record));
    try {
      await removeVersion(tagged, signal);
      announce('Deleted ', deleted);
    } catch (error) {
      if (!hasStatus(error, 404)) throw error;
      announce(deleted, ' was already deleted');
    }
    isGone = true;
  }

  /**
   * Deletes the record, or shows its newer version and throws.
   * @param {Tagged<T>} tagged
   * @param {AbortSignal} signal
   */
  async function removeVersion({ record, etag }, signal) {
    try {
      await calls.remove(record, etag, signal);
    } catch (error) {
      if (!hasStatus(error, 412)) throw error;
      target = await calls.get(record, signal);
      name.textContent = nameOf(target.record);
      throw new Error('It was changed after you opened it. Delete it as it is now?');
    }
  }

  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    if (isBusy(form) || target === undefined) return;
    const { signal } = sending;
    setBusy(form, true);
    showProblem(form, problem, undefined);
    try {
      await remove(target, signal);
    } catch (error) {
      if (!signal.aborted) showProblem(form, problem, error);
    }
    if (signal.aborted) return;
    setBusy(form, false);
    if (isGone) dialog.close();
  });

  return async (tagged) => {
    target = tagged;
    isGone = false;
    const opened = new AbortController();
    sending = opened;
    setBusy(form, false);
    name.textContent = nameOf(tagged.record);
    showProblem(form, problem, undefined);
    await showDialog(dialog);
    opened.abort();
    return isGone;
  };
}
