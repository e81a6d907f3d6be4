// @ts-check
import { hasStatus } from '../api/api-error.js';
import { showDialog } from '../ui/dialog.js';
import { byId } from '../ui/dom.js';
import { isBusy, setBusy } from '../ui/form-fields.js';
import { showFormError } from '../ui/states.js';

/** @import { TaggedUser, UsersApi } from './users-api.js' */

/**
 * The question before a user is deleted, in the version that is shown and no other.
 * @param {UsersApi} users
 */
export function createDeleteDialog(users) {
  const dialog = byId('delete-dialog', HTMLDialogElement);
  const form = byId('delete-form', HTMLFormElement);
  const problem = byId('delete-error', HTMLElement);
  const name = byId('delete-name', HTMLElement);
  /** @type {TaggedUser | undefined} */
  let target;
  let deleted = false;

  /** @param {TaggedUser} tagged */
  async function remove({ user, etag }) {
    try {
      await users.remove(user.id, etag);
      deleted = true;
    } catch (error) {
      // Gone is what was asked for, whoever did it: this request at its first try, or somebody else.
      if (hasStatus(error, 404)) deleted = true;
      else if (hasStatus(error, 412)) await showChanged(user.id);
      else showFormError(problem, error);
    }
  }

  /** @param {number} id */
  async function showChanged(id) {
    target = await users.get(id);
    name.textContent = target.user.name;
    showFormError(problem, new Error('This user was changed after you opened it. Delete it as it is now?'));
  }

  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    if (isBusy(form) || target === undefined) return;
    setBusy(form, true);
    showFormError(problem, undefined);
    try {
      await remove(target);
    } catch (error) {
      showFormError(problem, error);
    }
    setBusy(form, false);
    if (deleted) dialog.close();
  });

  return {
    /**
     * @param {TaggedUser} tagged
     * @returns {Promise<boolean>} whether the user is gone
     */
    async ask(tagged) {
      target = tagged;
      deleted = false;
      name.textContent = tagged.user.name;
      showFormError(problem, undefined);
      await showDialog(dialog);
      return deleted;
    },
  };
}
